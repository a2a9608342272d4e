//! `fis receipt`: what became of one event. Says no more than what is written down.

use std::process::ExitCode;

use chrono::{DateTime, Utc};

use super::{TenantArg, printable};
use crate::desk::Desk;
use crate::desk::receipts::{EventReceipt, EventStatus};
use crate::domain::disposition::Reason;
use crate::domain::ids::EventId;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Receipt {
    #[command(flatten)]
    tenant: TenantArg,
    /// The event's id
    #[arg(value_parser = super::event)]
    event: EventId,
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
        Ok(if receipt.status == EventStatus::Unknown { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn print(receipt: &EventReceipt) {
    let event = printable(&receipt.event_id);
    if let Some(entry) = &receipt.entry {
        println!("{event}: posted as {} at {}", entry.entry_id, moment(entry.posted_at));
        println!("  sequence         {}", entry.sequence);
        println!("  hash             {}", entry.hash);
        println!("  accounting date  {}", entry.accounting_date);
        println!("  announced        {}", if entry.announced { "yes" } else { "not yet, it is in the outbox" });
        if let Some(reversal) = &entry.reversed_by {
            println!("  reversed by      {reversal}");
        }
        println!("  The same event again is a duplicate and changes nothing.");
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
        println!("{event}: {what} because {}: {}", letter.reason, printable(&letter.detail));
        println!("  dead letter      {} ({})", letter.dead_letter_id, letter.status);
        println!("  attempts         {}", letter.attempts);
        println!("  last seen        {}", moment(letter.last_seen_at));
    }
    if receipt.status == EventStatus::Unknown {
        let tenant = &receipt.tenant_id;
        println!("{event}: never seen, or ignored by a rule of {tenant}: what is ignored leaves no record");
    }
}

fn moment(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}
