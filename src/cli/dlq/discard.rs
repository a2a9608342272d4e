//! `fis dlq discard` and `fis dlq prune`. Discarding needs a reason and deletes nothing; retention removes what is settled.

use std::process::ExitCode;

use super::args::{Which, Who, duration};
use super::{NOT_CONFIRMED, confirmed, money_text, not_confirmed, plural};
use crate::cli::print_json;
use crate::desk::letters::{DiscardLetters, PruneLetters, Scope, SelectedLetters};
use crate::desk::{Desk, DeskError};
use crate::platform::config::Config;
use crate::platform::time;

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
        let desk = Desk::open(config).await?;
        let SelectedLetters { letters, money, needs_confirmation } = desk.letters_to_discard(&filter, self.all).await?;
        eprintln!("{} selected: {}", plural(letters, "dead letter"), money_text(&money));
        if letters == 0 {
            anyhow::ensure!(self.ids.is_empty(), "none of them is parked; `fis dlq show ID` says what became of it");
        }
        if needs_confirmation {
            let answer = confirmed(self.yes, &format!("Discard {} for good?", plural(letters, "dead letter")))?;
            if answer != Some(true) {
                return Ok(not_confirmed(answer));
            }
        }
        let by = crate::cli::printable(operator.by());
        let confirmed = needs_confirmation || self.yes;
        let request = DiscardLetters { filter, all: self.all, expected: letters, confirmed, operator };
        let done = match desk.discard_letters(&request).await {
            Err(DeskError::Changed { .. }) => {
                anyhow::bail!("the selection changed meanwhile, and nothing was discarded; look again")
            }
            done => done?,
        };
        if self.json {
            print_json(&done)?;
        } else {
            println!("discarded {} by {by}", done.discarded);
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
        let desk = Desk::open(config).await?;
        let before = time::now() - self.older_than;
        let letters = desk.prunable_letters(before).await?;
        let question = format!(
            "Remove {} settled before {}?",
            plural(letters, "dead letter"),
            before.format("%Y-%m-%d %H:%M UTC")
        );
        if letters > 0 {
            let answer = confirmed(self.yes, &question)?;
            if answer != Some(true) {
                return Ok(not_confirmed(answer));
            }
        }
        let operator = self.who.operator(&self.why)?;
        let done = desk.prune_letters(&PruneLetters { before, confirmed: letters > 0 || self.yes, operator }).await?;
        if self.json {
            print_json(&done)?;
        } else {
            let pruned = done.pruned;
            println!("removed {pruned} resolved and discarded dead letters; open ones are never removed");
        }
        Ok(ExitCode::SUCCESS)
    }
}
