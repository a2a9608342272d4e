//! `fis held list|release`. Held events come back by themselves; a person can call them back early. Many at once are
//! confirmed, at the terminal or with `--yes`; named ones are not.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::json;

use super::printable;
use crate::domain::disposition::{Disposition, Reason};
use crate::domain::ids::{EventId, TenantId};
use crate::journal::held::{self, Released};
use crate::platform::config::Config;
use crate::store::held::{HeldFilter, list};

/// Wrong usage: somebody has to confirm, and nobody is there.
const NOT_CONFIRMED: u8 = 2;

#[derive(clap::Subcommand)]
pub enum HeldCommand {
    /// Held events and what they wait for, the next to come back first
    List(List),
    /// Call held events back now; each return uses up one of their attempts
    Release(Release),
}

#[derive(clap::Args)]
pub struct List {
    #[arg(long, value_parser = super::tenant)]
    tenant: Option<TenantId>,
    #[arg(long, value_parser = hold_reason)]
    reason: Option<String>,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(0..=100_000))]
    limit: i64,
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    offset: i64,
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Release {
    #[arg(long, value_parser = super::tenant)]
    tenant: Option<TenantId>,
    #[arg(long, value_parser = hold_reason, conflicts_with = "events")]
    reason: Option<String>,
    /// These events of the tenant, instead of all that match
    #[arg(requires = "tenant", value_name = "EVENT", value_parser = event)]
    events: Vec<EventId>,
    /// Do not ask; without a terminal nothing is released by filter unless this is given
    #[arg(long)]
    yes: bool,
    #[arg(long)]
    json: bool,
}

pub(super) fn event(text: &str) -> Result<EventId, String> {
    EventId::parse(text).map_err(|error| error.to_string())
}

/// A slip of the pen must not look like "nothing is held".
fn hold_reason(text: &str) -> Result<String, String> {
    let reasons = Reason::ALL.iter().filter(|reason| reason.disposition() == Disposition::Hold);
    let codes: Vec<&str> = reasons.map(|reason| reason.code()).collect();
    if codes.contains(&text) { Ok(text.to_owned()) } else { Err(format!("events are held for {}", codes.join(", "))) }
}

impl HeldCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        match self {
            Self::List(list) => list.run(config).await,
            Self::Release(release) => release.run(config).await,
        }
    }
}

impl List {
    async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = super::database(config).await?;
        let mut db = postgres.pool.acquire().await?;
        let filter = HeldFilter { tenant: self.tenant, reason: self.reason };
        let (events, total) = list(&mut db, &filter, self.limit, self.offset).await?;
        if self.json {
            super::print_json(&json!({ "held": events, "total": total }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = super::table(&["tenant", "event", "reason", "detail", "attempts", "held since", "comes back"]);
        for event in &events {
            table.add_row([
                printable(&event.tenant_id),
                printable(&event.event_id),
                event.reason.clone(),
                printable(&event.detail),
                event.attempts.to_string(),
                event.first_held_at.format("%Y-%m-%d %H:%M:%S").to_string(),
                event.due_at.format("%Y-%m-%d %H:%M:%S").to_string(),
            ]);
        }
        println!("{table}");
        println!("{} of {total} held events", events.len());
        Ok(ExitCode::SUCCESS)
    }
}

impl Release {
    async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = super::database(config).await?;
        if let (Some(tenant), false) = (&self.tenant, self.events.is_empty()) {
            let outcomes = held::release_events(&postgres.pool, tenant, &self.events).await?;
            return self.report(tenant, &outcomes);
        }
        let filter = HeldFilter { tenant: self.tenant.clone(), reason: self.reason.clone() };
        let (_, total) = list(&mut *postgres.pool.acquire().await?, &filter, 0, 0).await?;
        if total > 0 && !self.yes && !confirmed(total)? {
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
        let released = held::release_matching(&postgres.pool, &filter).await?;
        if self.json {
            super::print_json(&json!({ "released": released, "held": total }))?;
        } else {
            println!("released {released} of {total} held events; the others are due or on their way already");
        }
        Ok(ExitCode::SUCCESS)
    }

    fn report(&self, tenant: &TenantId, outcomes: &[Released]) -> anyhow::Result<ExitCode> {
        let word = |outcome: &Released| match outcome {
            Released::Now => "released",
            Released::Before => "due already",
            Released::NotHeld => "not held",
        };
        let told: Vec<(&EventId, &str)> = self.events.iter().zip(outcomes.iter().map(word)).collect();
        if self.json {
            let events: Vec<_> =
                told.iter().map(|(event, word)| json!({ "eventId": event.as_str(), "outcome": word })).collect();
            super::print_json(&json!({ "tenantId": tenant.as_str(), "events": events }))?;
        } else {
            for (event, word) in told {
                println!("{}: {word}", printable(event.as_str()));
            }
        }
        let missing = outcomes.contains(&Released::NotHeld);
        Ok(if missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Asks the person at the terminal. Without one nothing is asked, and the answer is no.
fn confirmed(total: i64) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        eprintln!(
            "fis: nothing was released: nobody sits at a terminal to confirm {total} events; --yes releases them"
        );
        return Ok(false);
    }
    eprint!("Release {total} held events? Each return uses up one of their attempts. [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    let yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    if !yes {
        eprintln!("fis: nothing was released");
    }
    Ok(yes)
}
