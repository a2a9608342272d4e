//! `fis dlq replay`: choose, show, confirm, start, watch; and pause, resume, stop. The selection is what the filter meant when the command
//! started; success is *resolved*; the service does the work, so the command may be closed at any time.
//!
//! Exit 0: the replay is done and nothing failed again, or it goes on without the command (`--no-wait`, no service yet, left running), or it
//! was paused or stopped as asked. Exit 1: something failed again, it is paused or stopped while it was watched, or nothing moves.

use std::process::ExitCode;

use super::args::{Which, tell_not_parked};
use super::watch::{Following, tell};
use super::{confirmed, money_text, not_confirmed, plural, rehearse};
use crate::cli::{Who, WrongUsage, print_json, printable, printable_within};
use crate::desk::letters::{
    ChooseLetters, PauseReplay, ReplayLine, ReplayPace, ResumeReplay, Scope, StartReplay, StopReplay, Watch,
};
use crate::desk::{Desk, DeskError};
use crate::domain::operator::Operator;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct ReplayCommand {
    /// Ids of dead letters; without ids the filters select them
    ids: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Every parked letter
    #[arg(long)]
    all: bool,
    /// Run the letters through the books and roll back; show what would become of them and of the balances
    #[arg(long, conflicts_with_all = ["canary", "rate", "pause", "resume", "stop", "no_wait"])]
    dry_run: bool,
    /// Do not ask; without a terminal nothing is replayed unless this is given
    #[arg(long)]
    yes: bool,
    /// Why, for the record
    #[arg(long)]
    why: Option<String>,
    #[command(flatten)]
    who: Who,
    /// Replay at most so many letters per second
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=1_000_000))]
    rate: Option<i32>,
    /// Replay 1 letter, then 10, then 100, then the rest; each step waits for the verdicts of the one before
    #[arg(long)]
    canary: bool,
    /// Pause when more than so many letters have failed again [default: 0 with --canary, else no limit]
    #[arg(long, value_parser = clap::value_parser!(i64).range(0..))]
    max_failures: Option<i64>,
    /// Pause a replay; it can be resumed later
    #[arg(long, value_name = "REPLAY", conflicts_with_all = ["ids", "all", "resume", "stop", "rate", "canary", "max_failures"])]
    pause: Option<i64>,
    /// Resume a paused replay, also with another --rate, --max-failures or --canary; watch a running one
    #[arg(long, value_name = "REPLAY", conflicts_with_all = ["ids", "all", "stop"])]
    resume: Option<i64>,
    /// Give a replay up; letters that are not decided yet stay parked
    #[arg(long, value_name = "REPLAY", conflicts_with_all = ["ids", "all", "rate", "canary", "max_failures"])]
    stop: Option<i64>,
    #[command(flatten)]
    following: Following,
}

impl ReplayCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let desk = Desk::open(config).await?;
        if let Some(id) = self.pause {
            return self.pause(&desk, id).await;
        }
        if let Some(id) = self.resume {
            return self.go_on(&desk, id).await;
        }
        if let Some(id) = self.stop {
            return self.give_up(&desk, id).await;
        }
        if self.which.names_nothing(&self.ids) && !self.all {
            let which = "which? Name ids, a filter such as --group, or --all";
            return Err(WrongUsage(which.to_owned()).into());
        }
        let filter = self.which.filter(&desk, Scope::Parked, self.ids.clone()).await?;
        tell_not_parked(&desk, &self.ids, self.why.as_deref()).await?;
        if self.dry_run {
            return rehearse::tell(&desk.rehearse_letters(&filter).await?, self.following.json);
        }
        let usual = printable_within(&format!("replay of {}", filter.words()), 300);
        let operator = self.who.acting(self.why.as_deref().unwrap_or(&usual))?;
        let request = ChooseLetters { filter, all: self.all, manner: self.manner(), operator: operator.clone() };
        let chosen = desk.choose_letters(&request).await?;
        let (letters, money) = (plural(chosen.letters, "dead letter"), money_text(&chosen.money));
        eprintln!("{letters} selected ({}): {money}", printable(&chosen.selection));
        let answer = confirmed(self.yes, &format!("Replay {letters}?"))?;
        let confirmed = answer == Some(true);
        let request = StartReplay { replay_id: chosen.replay_id, confirmed, operator: operator.clone() };
        let act = async |watch: &Watch<'_>| desk.start_replay(&request, watch).await;
        match self.following.watched(&desk, &operator, act).await? {
            Err(DeskError::NotConfirmed { .. }) => Ok(not_confirmed(answer)),
            report => tell(&report?, self.following.json),
        }
    }

    fn manner(&self) -> ReplayPace {
        ReplayPace { canary: self.canary, rate: self.rate, max_failures: self.max_failures }
    }

    /// An act on a replay that has a reason of its own needs no other.
    fn operator(&self) -> anyhow::Result<Operator> {
        Ok(self.who.acting(self.why.as_deref().unwrap_or_default())?)
    }

    async fn pause(&self, desk: &Desk, id: i64) -> anyhow::Result<ExitCode> {
        let request = PauseReplay { replay_id: id, operator: self.operator()? };
        tell(&known(id, desk.pause_replay(&request).await)?, self.following.json)?;
        Ok(ExitCode::SUCCESS)
    }

    async fn go_on(&self, desk: &Desk, id: i64) -> anyhow::Result<ExitCode> {
        let operator = self.operator()?;
        let request = ResumeReplay { replay_id: id, manner: self.manner(), operator: operator.clone() };
        let act = async |watch: &Watch<'_>| desk.resume_replay(&request, watch).await;
        let report = self.following.watched(desk, &operator, act).await?;
        tell(&known(id, report)?, self.following.json)
    }

    async fn give_up(&self, desk: &Desk, id: i64) -> anyhow::Result<ExitCode> {
        let operator = self.operator()?;
        known(id, desk.replay(id).await)?;
        let answer = confirmed(self.yes, &format!("Stop replay {id}? What is not decided yet stays parked."))?;
        if answer != Some(true) {
            return Ok(not_confirmed(answer));
        }
        let request = StopReplay { replay_id: id, confirmed: true, operator };
        tell(&known(id, desk.stop_replay(&request).await)?, self.following.json)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Says where the replays are listed, where there is none of that number or it cannot do what was asked.
fn known<T>(id: i64, answer: Result<T, DeskError>) -> anyhow::Result<T> {
    match answer {
        Err(DeskError::NotFound { .. }) => anyhow::bail!("there is no replay {id}; `fis dlq replays` lists them"),
        Err(DeskError::Refused { why }) => anyhow::bail!("{why}; `fis dlq replays` says how each is"),
        answer => Ok(answer?),
    }
}

#[derive(clap::Args)]
pub struct Replays {
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
    #[arg(long)]
    json: bool,
}

impl Replays {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let answer = Desk::open(config).await?.replays(self.limit).await?;
        if self.json {
            print_json(&answer)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut text: String = answer.replays.iter().map(lines).collect();
        text.push_str(&format!("{}\n", plural(i64::try_from(answer.replays.len()).unwrap_or(0), "replay")));
        crate::cli::print_text(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The lines of a replay in a list: how far it is, why it halts, and who wanted it.
fn lines(line: &ReplayLine) -> String {
    let ReplayLine { id, created_at, by, why, selection, state, note, letters, decided, left, failed, held, .. } = line;
    let at = created_at.format("%Y-%m-%d %H:%M");
    let mut lines = format!(
        "{id:>6}  {at}  {state:<7}  {letters} selected, {decided} decided, {left} left, {failed} failed, {held} held\n"
    );
    if let Some(note) = note {
        lines.push_str(&format!("        {state}: {}\n", printable(note)));
    }
    lines.push_str(&format!("        by {}: {} ({})\n", printable(by), printable(why), printable(selection)));
    lines
}
