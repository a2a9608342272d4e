//! `fis dlq replay`: choose, show, confirm, follow. The selection is what the filter meant when the command started; success is
//! *resolved*, never merely sent; whatever ends the command, it says what is where.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::args::{Which, Who};
use super::{NOT_CONFIRMED, as_in, confirmed, money_text, not_confirmed, plural, rehearse};
use crate::cli::print_json;
use crate::cli::{printable, printable_within};
use crate::desk::letters::{
    ChooseLetters, End, Progress, ReleaseReplay, ReplayPace, ReplayReport, ResumeReplay, Scope, StartReplay, Watch,
};
use crate::desk::{Desk, DeskError};
use crate::domain::operator::Operator;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct ReplayCommand {
    /// Ids of dead letters; else the filters say which
    ids: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Every parked letter
    #[arg(long)]
    all: bool,
    /// Run them through the books and roll back: what would become of them, and of the balances
    #[arg(long, conflicts_with_all = ["canary", "rate", "resume", "release", "no_wait"])]
    dry_run: bool,
    /// Do not ask; without a terminal nothing is replayed unless this is given
    #[arg(long)]
    yes: bool,
    /// Why, for the record
    #[arg(long)]
    why: Option<String>,
    #[command(flatten)]
    who: Who,
    /// Letters per second, at most
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=1_000_000))]
    rate: Option<i32>,
    /// Send 1, then 10, then 100, then the rest, each step only after the last one is resolved
    #[arg(long, conflicts_with = "no_wait")]
    canary: bool,
    /// Stop when more than so many fail again [default: 0 with --canary, else no limit]
    #[arg(long, value_parser = clap::value_parser!(i64).range(0..))]
    max_failures: Option<i64>,
    /// Go on with a replay that was interrupted
    #[arg(long, value_name = "REPLAY", conflicts_with_all = ["ids", "release"])]
    resume: Option<i64>,
    /// Give a replay up: what is not booked yet is parked again
    #[arg(long, value_name = "REPLAY", conflicts_with = "ids")]
    release: Option<i64>,
    #[command(flatten)]
    following: Following,
}

/// How an outcome is waited for and told.
#[derive(clap::Args)]
pub struct Following {
    /// Do not wait for the outcome
    #[arg(long)]
    no_wait: bool,
    /// Give up waiting when nothing has moved for so long
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
    #[arg(long)]
    pub json: bool,
}

/// Seconds without a move after which waiting ends.
const PATIENCE: u64 = 60;

impl Default for Following {
    fn default() -> Self {
        Self { no_wait: false, patience: PATIENCE, json: false }
    }
}

impl Following {
    /// Does an act on a replay with a bar at the terminal, until it ends or a signal comes.
    pub async fn watched<T>(&self, act: impl AsyncFnOnce(&Watch<'_>) -> T) -> anyhow::Result<T> {
        let (stop, bar) = (stop_signal()?, bar());
        let progress = |now: &Progress| show(&bar, now);
        let patience = Duration::from_secs(self.patience);
        let done = act(&Watch { wait: !self.no_wait, patience, stop, progress: &progress }).await;
        bar.finish_and_clear();
        Ok(done)
    }
}

impl ReplayCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let desk = Desk::open(config).await?;
        if let Some(id) = self.release {
            return self.give_up(&desk, id).await;
        }
        if let Some(id) = self.resume {
            return self.go_on(&desk, id).await;
        }
        let filter = self.which.clone().filter(Scope::Parked, self.ids.clone());
        if filter.is_everything() && !self.all {
            eprintln!("fis: which? Name ids, a filter such as --group, or --all");
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
        if self.dry_run {
            return rehearse::tell(&desk.rehearse_letters(&filter).await?, self.following.json);
        }
        let operator = self.operator(&filter.words())?;
        let request = ChooseLetters { filter, all: self.all, manner: self.manner(), operator: operator.clone() };
        let chosen = desk.choose_letters(&request).await?;
        let (letters, money) = (plural(chosen.letters, "dead letter"), money_text(&chosen.money));
        eprintln!("{letters} selected ({}): {money}", printable(&chosen.selection));
        let asked = self.ids.len();
        if chosen.letters == 0 && asked > 0 {
            anyhow::bail!("none of the {asked} is parked; `fis dlq show ID` says what became of it");
        }
        let answer = if chosen.letters == 0 { Some(true) } else { confirmed(self.yes, &format!("Replay {letters}?"))? };
        let request = StartReplay { replay_id: chosen.replay_id, confirmed: answer == Some(true), operator };
        match self.following.watched(async |watch| desk.start_replay(&request, watch).await).await? {
            Err(DeskError::NotConfirmed { .. }) => Ok(not_confirmed(answer)),
            report => tell(&report?, self.following.json),
        }
    }

    fn operator(&self, selection: &str) -> anyhow::Result<Operator> {
        let usual = || printable_within(&format!("replay of {selection}"), 300);
        self.who.operator(&self.why.clone().unwrap_or_else(usual))
    }

    fn manner(&self) -> ReplayPace {
        ReplayPace { canary: self.canary, rate: self.rate, max_failures: self.max_failures }
    }

    async fn go_on(&self, desk: &Desk, id: i64) -> anyhow::Result<ExitCode> {
        let request = ResumeReplay { replay_id: id, manner: self.manner(), operator: self.who.operator("")? };
        let report = self.following.watched(async |watch| desk.resume_replay(&request, watch).await).await?;
        if let Err(DeskError::Refused { why }) = report {
            anyhow::bail!("{why}; choose again with `fis dlq replay`");
        }
        tell(&known(id, report)?, self.following.json)
    }

    async fn give_up(&self, desk: &Desk, id: i64) -> anyhow::Result<ExitCode> {
        known(id, desk.replay(id).await)?;
        if confirmed(self.yes, &format!("Park again what replay {id} has not booked?"))? != Some(true) {
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
        let operator = self.operator(&format!("replay {id}, given up"))?;
        let done = desk.release_replay(&ReleaseReplay { replay_id: id, confirmed: true, operator }).await?;
        if !self.following.json {
            println!("replay {id}: {} of {} are parked again", done.released, plural(done.letters, "dead letter"));
        }
        tell(&done.report, self.following.json)
    }
}

/// Says where the replays are listed, where there is none of that number.
fn known<T>(id: i64, answer: Result<T, DeskError>) -> anyhow::Result<T> {
    match answer {
        Err(DeskError::NotFound { .. }) => anyhow::bail!("there is no replay {id}; `fis dlq replays` lists them"),
        answer => Ok(answer?),
    }
}

/// Tells how a replay went.
pub fn tell(report: &ReplayReport, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        print_json(report)?;
    } else {
        say(report);
    }
    Ok(if report.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn say(report: &ReplayReport) {
    let ReplayReport { replay_id: id, end, progress, under_way, failures } = report;
    let Progress { selected, left, skipped, resolved, failed, held, .. } = *progress;
    println!("replay {id}: {resolved} of {} resolved", plural(selected, "dead letter"));
    let rows = [
        (failed, "parked again"),
        (held, "held: tried again by themselves"),
        (*under_way, "under way"),
        (
            skipped,
            if *end == End::Released {
                "not sent, and not selected any more"
            } else {
                "skipped: not parked any more when their turn came"
            },
        ),
        (left, "not sent: still parked"),
    ];
    for (count, what) in rows.into_iter().filter(|(count, _)| *count > 0) {
        println!("{count:>10}  {what}");
    }
    for failed in failures {
        println!("{:>10}  {}", failed.letters, as_in(&failed.reason, &failed.detail));
    }
    match end {
        End::Done | End::Released => {}
        End::Sent => {
            println!("no service is connected to this database, or nobody was to wait:");
            println!("they go when `fis run` does");
        }
        End::Interrupted => println!("interrupted"),
        End::Failures => println!("stopped: too many failed again; `fis dlq groups` says what they have in common"),
        End::Held => println!("stopped: the canary is held and may succeed later"),
        End::Silence => println!("stopped waiting: nothing moves; does `fis run` run?"),
    }
    if left > 0 && *end != End::Released {
        println!("go on with `fis dlq replay --resume {id}`,");
        println!("or give it up with `fis dlq replay --release {id}`");
    }
}

/// The first signal stops cleanly after the step in hand.
fn stop_signal() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        told.cancel();
    });
    Ok(stop)
}

fn bar() -> indicatif::ProgressBar {
    if !std::io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    let bar = indicatif::ProgressBar::new(0);
    let style = indicatif::ProgressStyle::with_template("{bar:24} {pos}/{len} {msg} {eta}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &indicatif::ProgressBar, now: &Progress) {
    bar.set_length(u64::try_from(now.selected).unwrap_or(0));
    bar.set_position(u64::try_from(now.resolved + now.failed + now.skipped).unwrap_or(0));
    let held = if now.held > 0 { format!(", {} held", now.held) } else { String::new() };
    bar.set_message(format!("{} posted, {} failed{held}, {} left", now.resolved, now.failed, now.left));
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
        for line in &answer.replays {
            println!(
                "{:>6}  {}  {:<9}  {} selected, {} not sent, {} under way",
                line.id,
                line.created_at.format("%Y-%m-%d %H:%M"),
                line.state,
                line.letters,
                line.left,
                line.replaying
            );
            println!("        by {}: {} ({})", printable(&line.by), printable(&line.why), printable(&line.selection));
        }
        println!("{}", plural(i64::try_from(answer.replays.len()).unwrap_or(0), "replay"));
        Ok(ExitCode::SUCCESS)
    }
}
