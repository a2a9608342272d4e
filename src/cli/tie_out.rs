//! `fis tie-out`: received = posted + duplicate + ignored + held + parked + discarded, for a day or for each day of a span. Exit 1 and the difference
//! where that does not hold, or where a day was not counted: of such a day no table is shown.

use std::collections::BTreeSet;
use std::process::ExitCode;

use chrono::NaiveDate;

use super::text::{coloured, columns, grouped, hanging, numbers};
use super::{TenantArg, WrongUsage, plural, printable};
use crate::desk::tie_out::{EventSum, TieOutDifference, TieOutSheet, TieOutSpan, TieOutSpanSheet};
use crate::desk::{Desk, DeskError};
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Tie {
    #[command(flatten)]
    tenant: TenantArg,
    /// The day of receipt, in the tenant's time zone [default: today]
    #[arg(long, value_name = "DATE", value_parser = super::day, conflicts_with_all = ["from", "to", "period"])]
    date: Option<NaiveDate>,
    /// The first of several days; the table has a row for each
    #[arg(long, value_name = "DATE", value_parser = super::day, requires = "to", conflicts_with = "period")]
    from: Option<NaiveDate>,
    /// The last day
    #[arg(long, value_name = "DATE", value_parser = super::day, requires = "from")]
    to: Option<NaiveDate>,
    /// The days of a period of the books, or of a month: 2026-10
    #[arg(long, value_name = "PERIOD")]
    period: Option<String>,
    #[arg(long)]
    json: bool,
}

impl Tie {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let desk = Desk::open(config).await?;
        let tenant = self.tenant.one(&desk).await?;
        let span = match (self.from.zip(self.to), self.period) {
            (Some((from, to)), _) => TieOutSpan::Days { from, to },
            (None, Some(period)) => TieOutSpan::Period(period),
            (None, None) => {
                let sheet = desk.tie_out(&tenant, self.date).await?;
                return if self.json { json(&sheet, sheet.adds_up) } else { Ok(one_day(&sheet)) };
            }
        };
        let sheet = desk.tie_out_span(&tenant, &span).await.map_err(|error| match error {
            DeskError::Invalid { why } => WrongUsage(printable(&why)).into(),
            error => anyhow::Error::from(error),
        })?;
        if self.json { json(&sheet, sheet.adds_up) } else { Ok(many_days(&sheet)) }
    }
}

fn json(sheet: &impl serde::Serialize, adds_up: bool) -> anyhow::Result<ExitCode> {
    super::print_json(sheet)?;
    Ok(code(adds_up))
}

fn code(adds_up: bool) -> ExitCode {
    if adds_up { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one_day(sheet: &TieOutSheet) -> ExitCode {
    if let Some(cause) = sheet.why_not() {
        eprintln!("fis: {cause}.");
    } else {
        print_day(sheet);
        print_verdict(sheet.differences.is_empty(), sheet.without_tenant);
    }
    print_differences(None, &sheet.differences);
    code(sheet.adds_up)
}

fn many_days(span: &TieOutSpanSheet) -> ExitCode {
    if let Some(cause) = span.why_not() {
        eprintln!("fis: {cause}.");
    }
    if !span.days.is_empty() {
        print_days(span);
        print_verdict(span.days.iter().all(|day| day.differences.is_empty()), span.without_tenant);
    }
    for day in &span.days {
        print_differences(Some(day.date), &day.differences);
    }
    code(span.adds_up)
}

fn print_day(sheet: &TieOutSheet) {
    let (received, accounted) = (&sheet.received, &sheet.accounted);
    let currencies: BTreeSet<&str> = received.money.keys().chain(accounted.money.keys()).map(String::as_str).collect();
    let mut header = vec!["", "events"];
    header.extend(&currencies);
    let mut table = super::table(&header);
    let row = |name: &str, sum: &EventSum| {
        let mut cells = vec![name.to_owned(), grouped(&sum.events.to_string())];
        cells.extend(
            currencies.iter().map(|currency| sum.money.get(*currency).map_or_else(String::new, |sum| grouped(sum))),
        );
        cells
    };
    for (outcome, sum) in &sheet.outcomes {
        table.add_row(row(outcome.as_str(), sum));
    }
    table.add_row(row("together", accounted));
    table.add_row(row("received", received));
    table.add_row(row("difference", &sheet.difference));
    numbers(&mut table, 1..header.len());
    println!("{}, received on {} ({})", sheet.tenant_id, sheet.date, sheet.timezone);
    println!("{table}");
}

/// A row for each day: how many events came to which end, and the money that was received.
fn print_days(span: &TieOutSpanSheet) {
    let currencies: BTreeSet<&str> = span.total.received.money.keys().map(String::as_str).collect();
    let mut header = vec!["day", "received"];
    header.extend(span.total.outcomes.iter().map(|(outcome, _)| outcome.as_str()));
    header.push("difference");
    header.extend(&currencies);
    let mut table = super::table(&header);
    let row = |name: String, sheet: &TieOutSheet| {
        let mut cells = vec![name, grouped(&sheet.received.events.to_string())];
        cells.extend(sheet.outcomes.iter().map(|(_, sum)| grouped(&sum.events.to_string())));
        cells.push(sheet.difference.events.to_string());
        let received =
            |currency: &&str| sheet.received.money.get(*currency).map_or_else(String::new, |sum| grouped(sum));
        cells.extend(currencies.iter().map(received));
        cells
    };
    for day in &span.days {
        table.add_row(row(day.date.to_string(), day));
    }
    table.add_row(row("total".to_owned(), &span.total));
    numbers(&mut table, 1..header.len());
    let from = span.days.first().map_or(span.from, |day| day.date);
    println!("{}, received from {from} to {} ({})", span.tenant_id, span.to, span.timezone);
    println!("{table}");
}

fn print_verdict(adds_up: bool, without_tenant: i64) {
    let verdict = if adds_up { "Everything adds up." } else { "It does not add up." };
    println!("{}", coloured(verdict, adds_up));
    let duplicates = "Duplicates caught by Redis are not in this table; see fis_intake_deliveries_total.";
    println!("{}", hanging(duplicates, 0, columns()));
    if without_tenant > 0 {
        println!("Not among these: {} that name no tenant.", plural(without_tenant, "open dead letter"));
    }
}

fn print_differences(day: Option<NaiveDate>, differences: &[TieOutDifference]) {
    let day = day.map(|day| format!("{day}, ")).unwrap_or_default();
    for difference in differences {
        let (counted, found) = (text(&difference.counted), text(&difference.found));
        eprintln!("fis: {day}{}: counted {counted}, found {found}", difference.what);
    }
}

fn text(sum: &EventSum) -> String {
    let mut text = plural(sum.events, "event");
    for (currency, amount) in &sum.money {
        text.push_str(&format!(", {amount} {currency}"));
    }
    text
}
