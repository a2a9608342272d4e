//! `fis dlq discard` and `fis dlq prune`. Discarding needs a reason and deletes nothing; retention removes what is settled.

use std::process::ExitCode;

use rust_decimal::Decimal;
use serde_json::json;

use super::args::{Which, Who, duration};
use super::{NOT_CONFIRMED, confirmed, money_text, plural};
use crate::parking::mend::{discard, prune};
use crate::platform::config::Config;
use crate::platform::time;
use crate::store::StoreError;
use crate::store::dead_letters::{Scope, prunable, sums};

/// More than so many letters need a confirmation, whatever they are worth.
const LETTERS_FREE: i64 = 100;

#[derive(clap::Args)]
pub struct Discard {
    /// Ids of dead letters; else the filters say which
    ids: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Every parked letter
    #[arg(long)]
    all: bool,
    /// Why, for the record
    #[arg(long)]
    why: String,
    #[command(flatten)]
    who: Who,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[arg(long)]
    json: bool,
}

impl Discard {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        if self.why.trim().is_empty() {
            eprintln!("fis: --why is empty; whoever asks later wants to know");
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
        let filter = self.which.clone().filter(Scope::Parked, self.ids.clone());
        if filter.is_everything() && !self.all {
            eprintln!("fis: which? Name ids, a filter such as --group, or --all");
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
        let operator = self.who.operator(&self.why)?;
        let postgres = crate::cli::database(config).await?;
        let sums = sums(&mut *postgres.pool.acquire().await?, &filter).await?;
        let letters: i64 = sums.iter().map(|(_, letters, _)| letters).sum();
        let most = Decimal::from(config.dlq.discard_amount_max);
        let dear = sums.iter().any(|(_, _, amount)| amount.is_some_and(|amount| amount > most));
        eprintln!("{} selected: {}", plural(letters, "dead letter"), money_text(&sums));
        if letters == 0 {
            anyhow::ensure!(self.ids.is_empty(), "none of them is parked; `fis dlq show ID` says what became of it");
        }
        if letters > LETTERS_FREE || dear {
            match confirmed(self.yes, &format!("Discard {} for good?", plural(letters, "dead letter")))? {
                Some(true) => {}
                Some(false) => return Ok(ExitCode::FAILURE),
                None => return Ok(ExitCode::from(NOT_CONFIRMED)),
            }
        }
        let discarded = match discard(&postgres.pool, &filter, &operator, letters, time::now()).await {
            Err(StoreError::Changed { .. }) => {
                anyhow::bail!("the selection changed meanwhile, and nothing was discarded; look again")
            }
            discarded => discarded?,
        };
        if self.json {
            crate::cli::print_json(&json!({ "discarded": discarded }))?;
        } else {
            println!("discarded {discarded} by {}", crate::cli::printable(operator.by()));
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(clap::Args)]
pub struct Prune {
    /// Settled longer ago than this: 90d
    #[arg(long, value_name = "AGE", value_parser = duration)]
    older_than: chrono::TimeDelta,
    /// Why, for the record
    #[arg(long, default_value = "retention")]
    why: String,
    #[command(flatten)]
    who: Who,
    /// Do not ask; without a terminal nothing is removed unless this is given
    #[arg(long)]
    yes: bool,
    #[arg(long)]
    json: bool,
}

impl Prune {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = crate::cli::database(config).await?;
        let before = time::now() - self.older_than;
        let letters = prunable(&mut *postgres.pool.acquire().await?, before).await?;
        let question = format!(
            "Remove {} settled before {}?",
            plural(letters, "dead letter"),
            before.format("%Y-%m-%d %H:%M UTC")
        );
        if letters > 0 {
            match confirmed(self.yes, &question)? {
                Some(true) => {}
                Some(false) => return Ok(ExitCode::FAILURE),
                None => return Ok(ExitCode::from(NOT_CONFIRMED)),
            }
        }
        let pruned = prune(&postgres.pool, before, &self.who.operator(&self.why)?).await?;
        if self.json {
            crate::cli::print_json(&json!({ "pruned": pruned }))?;
        } else {
            println!("removed {pruned} resolved and discarded dead letters; open ones are never removed");
        }
        Ok(ExitCode::SUCCESS)
    }
}
