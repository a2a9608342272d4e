//! `fis held list|release`. Held events come back by themselves; a person can call them back early. Many at once are
//! confirmed, at the terminal or with `--yes`; named ones are not.

use std::process::ExitCode;

use chrono::{DateTime, Utc};

use super::text::{age, columns};
use super::{TenantArg, Who, plural, printable, printable_within, text};
use crate::desk::held::{HeldEvent, HeldFilter, ReleaseEvents, ReleaseMatching, Released, ReleasedEvents};
use crate::desk::{Desk, LIMIT_MAX, Page};
use crate::domain::disposition::{Disposition, Reason};
use crate::domain::ids::EventId;
use crate::platform::config::Config;
use crate::platform::time;

#[derive(clap::Subcommand)]
pub enum HeldCommand {
    /// List held events and what they wait for; the next to come back is first
    List(List),
    /// Call held events back now; each return uses one of their attempts
    Release(Release),
}

#[derive(clap::Args)]
pub struct List {
    #[command(flatten)]
    tenant: TenantArg,
    #[arg(long, value_parser = hold_reason)]
    reason: Option<Reason>,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(0..=LIMIT_MAX))]
    limit: i64,
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    offset: i64,
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Release {
    #[command(flatten)]
    tenant: TenantArg,
    #[arg(long, value_parser = hold_reason, conflicts_with = "events")]
    reason: Option<Reason>,
    /// Only these events of the tenant, instead of all that match
    #[arg(value_name = "EVENT", value_parser = super::event)]
    events: Vec<EventId>,
    /// Why, for the record
    #[arg(long, default_value = "")]
    why: String,
    #[command(flatten)]
    who: Who,
    /// Do not ask; without a terminal nothing is released by filter unless this is given
    #[arg(long)]
    yes: bool,
    #[arg(long)]
    json: bool,
}

/// A slip of the pen must not look like "nothing is held".
fn hold_reason(text: &str) -> Result<Reason, String> {
    let holds = |reason: &Reason| reason.disposition() == Disposition::Hold;
    let reasons: Vec<Reason> = Reason::ALL.iter().copied().filter(holds).collect();
    let codes = || reasons.iter().map(|reason| reason.code()).collect::<Vec<_>>().join(", ");
    let named = reasons.iter().copied().find(|reason| reason.code() == text);
    named.ok_or_else(|| format!("events are held for {}", codes()))
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
        let desk = Desk::open(config).await?;
        let filter = HeldFilter { tenant: self.tenant.only(&desk).await?, reason: self.reason };
        let page = desk.held(&filter, Page::new(self.limit, self.offset)?).await?;
        if self.json {
            super::print_json(&page)?;
            return Ok(ExitCode::SUCCESS);
        }
        if page.total == 0 {
            println!("Nothing is held.");
            return Ok(ExitCode::SUCCESS);
        }
        let (now, width) = (time::now(), columns());
        for event in &page.held {
            super::print_text(&two_lines(event, now, width))?;
        }
        println!("{} of {}", page.held.len(), plural(page.total, "held event"));
        Ok(ExitCode::SUCCESS)
    }
}

/// Whose event it is, what it waits for and when it comes back; then the detail.
fn two_lines(event: &HeldEvent, now: DateTime<Utc>, width: usize) -> String {
    let back = if event.due_at <= now { "is due".to_owned() } else { format!("back in {}", age(event.due_at, now)) };
    let since = age(now, event.first_held_at);
    let rest = format!("  {}  attempt {}  held {since}, {back}", event.reason, event.attempts);
    let whose = format!("{}/{}", printable(&event.tenant_id), printable(&event.event_id));
    let detail = printable_within(&event.detail, width.saturating_sub(5));
    let between = if whose.chars().count() + rest.chars().count() <= width { "" } else { "\n  " };
    format!("{}{between}{rest}\n    {detail}\n", printable_within(&whose, width))
}

impl Release {
    async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let operator = self.who.acting(&self.why)?;
        let desk = Desk::open(config).await?;
        if !self.events.is_empty() {
            let tenant = self.tenant.one(&desk).await?;
            let request = ReleaseEvents { operator, tenant, events: self.events.clone() };
            return self.report(&desk.release_events(&request).await?);
        }
        let filter = HeldFilter { tenant: self.tenant.only(&desk).await?, reason: self.reason };
        if !self.yes {
            let total = desk.count_held(&filter).await?;
            if total > 0 && !confirmed(total)? {
                return Ok(ExitCode::from(super::NOT_CONFIRMED));
            }
        }
        let released = desk.release_matching(&ReleaseMatching { operator, filter, confirmed: true }).await?;
        if self.json {
            super::print_json(&released)?;
        } else {
            let held = plural(released.held, "held event");
            match released.held.saturating_sub(i64::try_from(released.released).unwrap_or(i64::MAX)) {
                ..=0 => println!("released {} of {held}", released.released),
                1 => println!("released {} of {held}; the other is due or on its way already", released.released),
                _ => println!("released {} of {held}; the others are due or on their way already", released.released),
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn report(&self, released: &ReleasedEvents) -> anyhow::Result<ExitCode> {
        if self.json {
            super::print_json(released)?;
        } else {
            for event in &released.events {
                println!("{}: {}", printable(&event.event_id), event.outcome.as_str());
            }
        }
        let missing = released.events.iter().any(|event| event.outcome == Released::NotHeld);
        Ok(if missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn confirmed(total: i64) -> anyhow::Result<bool> {
    text::confirmed(
        &format!("Release {}? Each return uses up one attempt.", plural(total, "held event")),
        &format!(
            "nothing was released: nobody sits at a terminal to confirm {}; --yes releases",
            plural(total, "event")
        ),
        "nothing was released",
    )
}
