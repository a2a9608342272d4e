//! `fis receipt`: what became of one event, from PostgreSQL alone. Says no more than what is written down.

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use serde_json::json;

use super::printable;
use crate::domain::disposition::Reason;
use crate::domain::ids::{EventId, TenantId};
use crate::journal::{Account, account_of};
use crate::platform::config::Config;
use crate::platform::time;
use crate::store::dead_letters::EventLetter;

#[derive(clap::Args)]
pub struct Receipt {
    #[arg(long, value_parser = super::tenant)]
    tenant: TenantId,
    /// The event's id
    #[arg(value_parser = super::held::event)]
    event: EventId,
    #[arg(long)]
    json: bool,
}

impl Receipt {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = super::database(config).await?;
        let account = account_of(&mut *postgres.pool.acquire().await?, &self.tenant, &self.event).await?;
        let status = status(&account);
        if self.json {
            super::print_json(&json!({
                "tenantId": self.tenant.as_str(),
                "eventId": self.event.as_str(),
                "status": status,
                "entry": account.posted,
                "held": account.held,
                "deadLetters": account.letters,
            }))?;
        } else {
            self.print(&account);
        }
        Ok(if status == UNKNOWN { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn print(&self, account: &Account) {
        let event = printable(self.event.as_str());
        if let Some(entry) = &account.posted {
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
        if let Some(held) = &account.held {
            let when = if held.due_at <= time::now() { "is due since" } else { "held until" };
            println!("{event}: {when} {}, {}: {}", moment(held.due_at), held.reason, printable(&held.detail));
            println!("  held since       {}", moment(held.first_held_at));
            println!("  attempts         {}", held.attempts);
            println!("  waits for        {}", printable(held.waits_for.as_deref().unwrap_or("its time")));
        }
        for letter in &account.letters {
            print_letter(&event, letter);
        }
        if status(account) == UNKNOWN {
            println!("{event}: never seen, or ignored by a rule of {}: what is ignored leaves no record", self.tenant);
        }
    }
}

const UNKNOWN: &str = "unknown";

/// What is posted stays posted, whatever else came under the same id.
fn status(account: &Account) -> &'static str {
    if account.posted.is_some() {
        "posted"
    } else if account.held.is_some() {
        "held"
    } else if account.letters.is_empty() {
        UNKNOWN
    } else {
        "rejected"
    }
}

fn print_letter(event: &str, letter: &EventLetter) {
    let other = letter.reason == Reason::IdempotencyConflict.code();
    let what = if other { "another message with this id was rejected" } else { "rejected" };
    println!("{event}: {what} because {}: {}", letter.reason, printable(&letter.detail));
    println!("  dead letter      {} ({})", letter.dead_letter_id, letter.status);
    println!("  attempts         {}", letter.attempts);
    println!("  last seen        {}", moment(letter.last_seen_at));
}

fn moment(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}
