//! `fis dlq`: what an admin needs when money is not in the books. Looking never changes anything; what moves letters shows
//! how many and how much first, and does nothing that nobody confirmed, at the terminal or with `--yes`.

mod args;
mod body;
mod diff;
mod discard;
mod edit;
mod export;
mod groups;
mod list;
pub mod offer;
mod rehearse;
mod replay;
mod show;
mod watch;

pub(super) use rehearse::balances_table;

use std::process::ExitCode;

use super::text::{age, ask, columns, grouped, hanging};
use super::{NOT_CONFIRMED, plural, printable_within};
use crate::desk::letters::LetterMoney;
use crate::platform::config::Config;

#[derive(clap::Subcommand)]
pub enum DlqCommand {
    /// List open dead letters, oldest first
    List(list::LettersList),
    /// Group open dead letters by reason, rule and the shape of the detail, with the money
    Groups(groups::Groups),
    /// Show everything about one dead letter, and what would mend it
    Show(show::Show),
    /// Run dead letters through the books again; pause, resume or stop a replay
    Replay(Box<replay::ReplayCommand>),
    /// List replays, newest first, with their state, what is decided and what is left
    Replays(replay::Replays),
    /// Replay an edited copy; the original stays as it is
    Edit(Box<edit::EditCommand>),
    /// Give dead letters up; they stay on record
    Discard(Box<discard::Discard>),
    /// Park discarded letters again
    Restore(discard::Restore),
    /// Print dead letters as newline-delimited JSON or CSV
    Export(export::LettersExport),
    /// Remove dead letters that were resolved or discarded long ago
    Prune(discard::Prune),
}

impl DlqCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        match self {
            Self::List(list) => list.run(config).await,
            Self::Groups(groups) => groups.run(config).await,
            Self::Show(show) => show.run(config).await,
            Self::Replay(replay) => replay.run(config).await,
            Self::Replays(replays) => replays.run(config).await,
            Self::Edit(edit) => edit.run(config).await,
            Self::Discard(discard) => discard.run(config).await,
            Self::Restore(restore) => restore.run(config).await,
            Self::Export(export) => export.run(config).await,
            Self::Prune(prune) => prune.run(config).await,
        }
    }
}

/// `Some`: the answer of somebody, or `--yes`. `None`: nobody sits at the terminal.
pub(super) fn confirmed(yes: bool, question: &str) -> anyhow::Result<Option<bool>> {
    if yes {
        return Ok(Some(true));
    }
    let answer = ask(question)?;
    match answer {
        Some(true) => {}
        Some(false) => eprintln!("fis: nothing was done"),
        None => super::exit::say(
            "confirmation_needed",
            "nothing was done: nobody sits at a terminal to confirm; --yes confirms",
        ),
    }
    Ok(answer)
}

/// The exit code where somebody said no, or nobody was there to say yes.
pub(super) fn not_confirmed(answer: Option<bool>) -> ExitCode {
    if answer.is_none() { ExitCode::from(NOT_CONFIRMED) } else { ExitCode::FAILURE }
}

/// `1,234.50 EUR + 10.00 USD`, and how many name no amount.
pub(super) fn money_text(LetterMoney(money): &LetterMoney) -> String {
    let mut parts: Vec<String> = money
        .iter()
        .filter_map(|(currency, _, amount)| {
            Some(format!("{} {}", grouped(&amount.as_ref()?.to_string()), currency.as_ref()?))
        })
        .collect();
    let silent: i64 = money.iter().filter(|(currency, ..)| currency.is_none()).map(|(_, letters, _)| letters).sum();
    if silent > 0 {
        parts.push(format!("{silent} without an amount"));
    }
    if parts.is_empty() { "no money named".to_owned() } else { parts.join(" + ") }
}

/// An example of what is counted, behind a count of ten digits.
fn as_in(what: &str, example: &str) -> String {
    hanging(&format!("{what}, as in: {}", printable_within(example, 300)), 12, columns())
}
