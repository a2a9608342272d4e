//! `fis receipt`: what became of one event. Says no more than what is written down.

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use super::lines::{ShownLine, lines_table};
use super::text::{columns, hanging};
use super::{TenantArg, printable};
use crate::desk::Desk;
use crate::desk::receipts::{EventReceipt, EventStatus, IGNORED_DAYS, ReceiptEntry};
use crate::domain::disposition::Reason;
use crate::domain::ids::EventId;
use crate::platform::config::Config;

#[derive(clap::Args)]
#[command(
    after_help = "Exit 0: the event is posted, or the books ignore it. Exit 1: it is held, rejected, or was never seen; `status` of --json says which."
)]
pub struct Receipt {
    #[command(flatten)]
    tenant: TenantArg,
    /// The event's id
    #[arg(value_parser = super::event)]
    event: EventId,
    /// Print the receipt as JSON
    #[arg(long)]
    json: bool,
}

impl Receipt {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let desk = Desk::open(config).await?;
        let receipt = desk.receipt(&self.tenant.one(&desk).await?, &self.event).await?;
        if self.json {
            super::print_json(&receipt)?;
        } else {
            print(&receipt);
        }
        Ok(if receipt.status.is_done() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn print(receipt: &EventReceipt) {
    let event = printable(&receipt.event_id);
    let moment = |at| moment(at, receipt.zone);
    if let Some(entry) = &receipt.entry {
        print_entry(&event, entry, &moment);
    }
    if let Some(held) = &receipt.held {
        let when = if held.due_at <= receipt.at { "is due since" } else { "held until" };
        println!("{event}: {when} {}, {}: {}", moment(held.due_at), held.reason, printable(&held.detail));
        println!("  held since       {}", moment(held.first_held_at));
        println!("  attempts         {}", held.attempts);
        println!("  waits for        {}", printable(held.waits_for.as_deref().unwrap_or("its time")));
    }
    for letter in &receipt.dead_letters {
        let other = letter.reason == Reason::IdempotencyConflict.code();
        let what = if other { "another message with this id was rejected" } else { "rejected" };
        let said = format!("{event}: {what} because {}: {}", letter.reason, printable(&letter.detail));
        println!("{}", hanging(&said, 2, columns()));
        println!("  dead letter      {} ({})", letter.dead_letter_id, letter.status);
        println!("  attempts         {}", letter.attempts);
        println!("  last seen        {}", moment(letter.last_seen_at));
    }
    if let Some(ignored) = &receipt.ignored {
        let version = ignored.books_version;
        let by = match &ignored.rule {
            Some(rule) => format!("by rule `{}` of version {version}", printable(rule)),
            None => format!("by version {version} of the books, in which no rule matches it"),
        };
        let said = format!("{event}: ignored {by} on {}, counted in the tie-out of that day", ignored.received_on);
        println!("{}", hanging(&said, 2, columns()));
        println!("  ignored at       {}", moment(ignored.ignored_at));
        if receipt.status == EventStatus::Ignored {
            println!("  If the books change and the event is sent again, it is decided again.");
        }
    }
    if receipt.status == EventStatus::Unknown {
        println!("{event}: never seen for tenant {}", receipt.tenant_id);
        let advice = "  It may still be in a queue: see `fis status`. Publish it again if you are not sure; it cannot post twice.";
        println!("{}", hanging(advice, 2, columns()));
        println!("  An event that a rule ignored more than {IGNORED_DAYS} days ago is forgotten.");
    }
}

fn print_entry(event: &str, entry: &ReceiptEntry, moment: &dyn Fn(DateTime<Utc>) -> String) {
    let posted = &entry.posted;
    let amounts: Vec<String> = entry.amounts.iter().map(|sum| format!("{} {}", sum.amount, sum.currency)).collect();
    println!("{event}: posted as {}, {}", posted.entry_id, amounts.join(" and "));
    println!("  posted at        {}", moment(posted.posted_at));
    println!("  description      {}", printable(&posted.description));
    println!("  rule             {} of version {}", printable(&posted.rule), posted.rule_version);
    println!("  accounting date  {}", posted.accounting_date);
    println!("  sequence         {}", posted.sequence);
    println!("  hash  {}", posted.hash);
    println!("  announced        {}", if posted.announced { "yes" } else { "not yet, it is in the outbox" });
    if let Some(reversal) = &posted.reversed_by {
        println!("  reversed by      {reversal}");
    }
    let lines = entry.lines.iter().map(|line| ShownLine {
        account: &line.account,
        name: &line.account_name,
        side: line.side,
        amount: &line.amount,
        currency: line.currency,
        base_amount: &line.base_amount,
    });
    println!("{}", lines_table(&lines.collect::<Vec<_>>(), entry.base_currency));
    println!("  The same event again is a duplicate and changes nothing.");
}

/// A moment in the tenant's zone, and in UTC.
fn moment(at: DateTime<Utc>, zone: Option<Tz>) -> String {
    let utc = at.format("%Y-%m-%d %H:%M:%S UTC");
    match zone.filter(|zone| *zone != Tz::UTC) {
        Some(zone) => format!("{} {} ({utc})", at.with_timezone(&zone).format("%Y-%m-%d %H:%M:%S"), zone.name()),
        None => utc.to_string(),
    }
}
