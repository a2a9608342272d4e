//! `fis tie-out`: received = posted + duplicate + ignored + held + parked + discarded. Exit 1 and the difference where that does
//! not hold.

use std::collections::BTreeSet;
use std::process::ExitCode;

use chrono::NaiveDate;
use comfy_table::CellAlignment;

use crate::desk::Desk;
use crate::desk::tie_out::{EventSum, TieOutSheet};
use crate::domain::ids::TenantId;
use crate::platform::config::Config;

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
        let sheet = Desk::open(config).await?.tie_out(&self.tenant, self.date).await?;
        if self.json {
            super::print_json(&sheet)?;
        } else {
            print(&sheet);
        }
        if sheet.differences.is_empty() && sheet.is_before_counting() {
            let since = sheet.counted_since.map_or_else(|| "nothing yet".to_owned(), |day| format!("only since {day}"));
            eprintln!("fis: {} cannot be tied out: of {} {since} was counted", sheet.date, sheet.tenant_id);
        }
        for difference in &sheet.differences {
            let (counted, found) = (text(&difference.counted), text(&difference.found));
            eprintln!("fis: {}: counted {counted}, found {found}", difference.what);
        }
        Ok(if sheet.adds_up { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn print(sheet: &TieOutSheet) {
    let (received, accounted) = (&sheet.received, &sheet.accounted);
    let currencies: BTreeSet<&str> = received.money.keys().chain(accounted.money.keys()).map(String::as_str).collect();
    let mut header = vec!["", "events"];
    header.extend(&currencies);
    let mut table = super::table(&header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let row = |name: &str, sum: &EventSum| {
        let mut cells = vec![name.to_owned(), sum.events.to_string()];
        cells.extend(currencies.iter().map(|currency| sum.money.get(*currency).cloned().unwrap_or_default()));
        cells
    };
    for (outcome, sum) in &sheet.outcomes {
        table.add_row(row(outcome.as_str(), sum));
    }
    table.add_row(row("together", accounted));
    table.add_row(row("received", received));
    table.add_row(row("difference", &sheet.difference));
    println!("{}, received on {} ({})", sheet.tenant_id, sheet.date, sheet.timezone);
    println!("{table}");
    let verdict = if sheet.differences.is_empty() { "it adds up" } else { "it does not add up" };
    println!("{verdict}; duplicates that Redis recognised are in the metrics alone");
    if sheet.without_tenant > 0 {
        let letters = super::plural(sheet.without_tenant, "open dead letter");
        println!("not among these: {letters} that no tenant can be read from");
    }
}

fn text(sum: &EventSum) -> String {
    let mut text = super::plural(sum.events, "event");
    for (currency, amount) in &sum.money {
        text.push_str(&format!(", {amount} {currency}"));
    }
    text
}
