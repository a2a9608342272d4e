//! `fis dlq discard`, `fis dlq restore` and `fis dlq prune`. Discarding needs a reason and a confirmation, and deletes nothing; what was discarded can
//! be restored until retention removes it.

use std::process::ExitCode;

use super::args::{Which, duration, tell_not_parked, with_hint};
use super::{confirmed, money_text, not_confirmed, plural};
use crate::cli::{Who, WrongUsage, print_json, printable};
use crate::desk::letters::{DiscardLetters, PruneLetters, RestoreLetters, Scope};
use crate::desk::{Desk, DeskError};
use crate::platform::config::Config;
use crate::platform::time;

#[derive(clap::Args)]
pub struct Discard {
    /// Ids of dead letters; without ids the filters select them
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
    /// Show how many letters and how much money; discard nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask; without a terminal nothing is discarded unless this is given
    #[arg(long)]
    yes: bool,
    #[arg(long)]
    json: bool,
}

impl Discard {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        if self.why.trim().is_empty() {
            return Err(WrongUsage("--why is empty; whoever asks later wants to know".to_owned()).into());
        }
        if self.which.names_nothing(&self.ids) && !self.all {
            let which = "which? Name ids, a filter such as --group, or --all";
            return Err(WrongUsage(which.to_owned()).into());
        }
        let operator = self.who.acting(&self.why)?;
        let desk = Desk::open(config).await?;
        let filter = self.which.filter(&desk, Scope::Parked, self.ids.clone()).await?;
        tell_not_parked(&desk, &self.ids, Some(&self.why)).await?;
        let selected = desk.letters_to_discard(&filter, self.all).await?;
        let letters = plural(selected.letters, "dead letter");
        eprintln!("{letters} selected: {}", money_text(&selected.money));
        if self.dry_run {
            if self.json {
                print_json(&selected)?;
            } else {
                println!("dry run; nothing was discarded");
            }
            return Ok(ExitCode::SUCCESS);
        }
        let answer = confirmed(self.yes, &format!("Discard {letters}? `fis dlq restore ID` takes it back."))?;
        if answer != Some(true) {
            return Ok(not_confirmed(answer));
        }
        let by = printable(operator.by());
        let request = DiscardLetters { filter, all: self.all, expected: selected.letters, confirmed: true, operator };
        let done = match desk.discard_letters(&request).await {
            Err(DeskError::Changed { .. }) => {
                anyhow::bail!("the selection changed meanwhile, and nothing was discarded; look again")
            }
            done => done?,
        };
        if self.json {
            print_json(&done)?;
        } else {
            println!("discarded {letters} by {by}");
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(clap::Args)]
pub struct Restore {
    /// Ids of discarded letters
    #[arg(required = true)]
    ids: Vec<String>,
    /// Why, for the record
    #[arg(long)]
    why: String,
    #[command(flatten)]
    who: Who,
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        if self.why.trim().is_empty() {
            return Err(WrongUsage("--why is empty; whoever asks later wants to know".to_owned()).into());
        }
        let operator = self.who.acting(&self.why)?;
        let desk = Desk::open(config).await?;
        let by = printable(operator.by());
        let request = RestoreLetters { ids: self.ids, operator };
        let done = desk.restore_letters(&request).await.map_err(|error| with_hint(error, Some(&self.why)))?;
        if self.json {
            print_json(&done)?;
        } else {
            let letters = plural(i64::try_from(done.restored).unwrap_or(i64::MAX), "dead letter");
            println!("restored {letters} by {by}: parked again");
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(clap::Args)]
pub struct Prune {
    /// Only letters settled longer ago than this: 90d
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
        let operator = self.who.acting(&self.why)?;
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
        let done = desk.prune_letters(&PruneLetters { before, confirmed: letters > 0 || self.yes, operator }).await?;
        if self.json {
            print_json(&done)?;
        } else {
            let pruned = plural(i64::try_from(done.pruned).unwrap_or(i64::MAX), "resolved or discarded dead letter");
            println!("removed {pruned}; open ones are never removed");
        }
        Ok(ExitCode::SUCCESS)
    }
}
