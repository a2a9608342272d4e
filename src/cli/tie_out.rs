//! `fis tie-out`: received = posted + duplicate + ignored + held + parked + discarded, from PostgreSQL alone. Exit 1 and the
//! difference where that does not hold.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use chrono::NaiveDate;
use comfy_table::CellAlignment;
use rust_decimal::Decimal;
use serde_json::{Value, json};

use crate::domain::ids::TenantId;
use crate::domain::money::Currency;
use crate::journal::tie_out::{Sum, TieOut, read};
use crate::platform::config::Config;
use crate::store::received::Outcome as Column;

#[derive(clap::Args)]
pub struct Tie {
    #[arg(long, value_parser = super::tenant)]
    tenant: TenantId,
    /// The day of receipt, in the tenant's zone
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    date: NaiveDate,
    #[arg(long)]
    json: bool,
}

impl Tie {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = super::database(config).await?;
        let mut transaction = postgres.pool.begin().await?;
        crate::store::read_one_moment(&mut transaction).await?;
        let books = super::books_of(&mut transaction, &self.tenant).await?;
        let tie_out = read(&mut transaction, &self.tenant, self.date).await?;
        transaction.rollback().await?;
        let differences = tie_out.differences();
        if self.json {
            super::print_json(&self.as_json(&tie_out, books.calendar.timezone.name()))?;
        } else {
            self.print(&tie_out, books.calendar.timezone.name());
        }
        if differences.is_empty() && self.is_before(&tie_out) {
            let since = tie_out.since.map_or_else(|| "nothing yet".to_owned(), |day| format!("only since {day}"));
            eprintln!("fis: {} cannot be tied out: of {} {since} was counted", self.date, self.tenant);
            return Ok(ExitCode::FAILURE);
        }
        for (name, counted, found) in &differences {
            eprintln!("fis: {name}: counted {}, found {}", text(counted), text(found));
        }
        Ok(if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The day lies before the first that was counted: zero and zero would prove nothing.
    fn is_before(&self, tie_out: &TieOut) -> bool {
        tie_out.since.is_none_or(|since| self.date < since)
    }

    fn print(&self, tie_out: &TieOut, zone: &str) {
        let (received, accounted) = (tie_out.received(), tie_out.accounted());
        let currencies: BTreeSet<&str> =
            received.money.keys().chain(accounted.money.keys()).map(String::as_str).collect();
        let mut header = vec!["", "events"];
        header.extend(&currencies);
        let mut table = super::table(&header);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let row = |name: &str, sum: &Sum| {
            let mut cells = vec![name.to_owned(), sum.events.to_string()];
            let money =
                |currency: &&str| sum.money.get(*currency).map_or_else(String::new, |sum| amount(currency, *sum));
            cells.extend(currencies.iter().map(money));
            cells
        };
        let none = Sum::default();
        for column in Column::ALL {
            table.add_row(row(column.as_str(), tie_out.found.get(&column).unwrap_or(&none)));
        }
        table.add_row(row("together", &accounted));
        table.add_row(row("received", &received));
        table.add_row(row("difference", &received.minus(&accounted)));
        println!("{}, received on {} ({zone})", self.tenant, self.date);
        println!("{table}");
        let verdict = if tie_out.differences().is_empty() { "it adds up" } else { "it does not add up" };
        println!("{verdict}; duplicates that Redis recognised are in the metrics alone");
        if tie_out.nameless > 0 {
            let letters = super::plural(tie_out.nameless, "open dead letter");
            println!("not among these: {letters} that no tenant can be read from");
        }
    }

    fn as_json(&self, tie_out: &TieOut, zone: &str) -> Value {
        let (received, accounted) = (tie_out.received(), tie_out.accounted());
        let none = Sum::default();
        let outcomes: serde_json::Map<String, Value> = Column::ALL
            .into_iter()
            .map(|column| (column.as_str().to_owned(), sum_json(tie_out.found.get(&column).unwrap_or(&none))))
            .collect();
        let differences: Vec<Value> = tie_out
            .differences()
            .iter()
            .map(|(name, counted, found)| json!({ "what": name, "counted": sum_json(counted), "found": sum_json(found) }))
            .collect();
        json!({
            "tenantId": self.tenant.as_str(),
            "date": self.date,
            "timezone": zone,
            "received": sum_json(&received),
            "outcomes": outcomes,
            "difference": sum_json(&received.minus(&accounted)),
            "differences": differences,
            "addsUp": differences.is_empty() && !self.is_before(tie_out),
            "countedSince": tie_out.since,
            "withoutTenant": tie_out.nameless,
        })
    }
}

fn amount(currency: &str, amount: Decimal) -> String {
    Currency::parse(currency).map_or_else(|| amount.to_string(), |currency| currency.text(amount))
}

fn sum_json(sum: &Sum) -> Value {
    let money: BTreeMap<&str, String> =
        sum.money.iter().map(|(currency, sum)| (currency.as_str(), amount(currency, *sum))).collect();
    json!({ "events": sum.events, "money": money })
}

fn text(sum: &Sum) -> String {
    let mut text = super::plural(sum.events, "event");
    for (currency, sum) in &sum.money {
        text.push_str(&format!(", {} {currency}", amount(currency, *sum)));
    }
    text
}
