//! `fis dlq replay`: freeze, show, confirm, feed, follow. The selection is what the filter meant when the command started;
//! success is *resolved*, never merely sent; whatever ends the command, it says what is where.

mod feed;
mod window;

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use sqlx::PgPool;

use super::args::{Which, Who};
use super::rehearse::Rehearsed;
use super::{NOT_CONFIRMED, as_in, confirmed, money_text, plural};
use crate::cli::{printable, printable_within};
use crate::domain::letter::ReplayState;
use crate::domain::operator::Operator;
use crate::parking::follow::{Progress, progress, release};
use crate::parking::replay::set_state;
use crate::parking::selection::choose;
use crate::platform::config::Config;
use crate::store::StoreError;
use crate::store::dead_letters::{Filter, Scope};
use crate::store::operator_log::failures;
use crate::store::replays::{self, Manner, Replay, money};
use feed::{End, Feed};

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
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
    #[arg(long)]
    pub json: bool,
}

impl ReplayCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = crate::cli::database(config).await?;
        let pool = &postgres.pool;
        if let Some(id) = self.release {
            return self.give_up(pool, id).await;
        }
        if let Some(id) = self.resume {
            let replay = find(pool, id).await?;
            if replay.state == ReplayState::Cancelled {
                anyhow::bail!("replay {id} was given up; choose again with `fis dlq replay`");
            }
            return self.go(pool, replay).await;
        }
        let filter = self.which.clone().filter(Scope::Parked, self.ids.clone());
        if filter.is_everything() && !self.all {
            eprintln!("fis: which? Name ids, a filter such as --group, or --all");
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
        if self.dry_run {
            let rehearsed = Rehearsed::of(config, &postgres, &filter).await?;
            return rehearsed.tell(self.following.json);
        }
        let operator = self.operator(&filter.words())?;
        let max_failures = self.max_failures.or(self.canary.then_some(0));
        let manner = Manner { canary: self.canary, rate: self.rate, max_failures };
        let replay = choose(pool, &filter, &operator, manner).await?;
        let money = money_text(&money(&mut *pool.acquire().await?, replay.id).await?);
        eprintln!("{} selected ({}): {money}", plural(replay.letters, "dead letter"), printable(&replay.selection));
        if replay.letters == 0 {
            set_state(pool, replay.id, ReplayState::Cancelled).await?;
            let asked = self.ids.len();
            anyhow::ensure!(asked == 0, "none of the {asked} is parked; `fis dlq show ID` says what became of it");
            return tell(pool, &replay, End::Done, self.following.json).await;
        }
        match confirmed(self.yes, &format!("Replay {}?", plural(replay.letters, "dead letter")))? {
            Some(true) => {}
            answer => {
                set_state(pool, replay.id, ReplayState::Cancelled).await?;
                return Ok(ExitCode::from(if answer.is_none() { NOT_CONFIRMED } else { 1 }));
            }
        }
        set_state(pool, replay.id, ReplayState::Open).await?;
        self.go(pool, replay).await
    }

    fn operator(&self, selection: &str) -> anyhow::Result<Operator> {
        let why = self.why.clone().unwrap_or_else(|| printable_within(&format!("replay of {selection}"), 300));
        self.who.operator(&why)
    }

    async fn go(&self, pool: &PgPool, replay: Replay) -> anyhow::Result<ExitCode> {
        let operator = self.who.operator(&replay.why)?;
        let feed = Feed {
            pool,
            operator,
            canary: self.canary || replay.canary,
            rate: self.rate.or(replay.rate),
            max_failures: self.max_failures.or(replay.max_failures),
            wait: !self.following.no_wait,
            patience: Duration::from_secs(self.following.patience),
            replay: replay.clone(),
        };
        let end = feed.run().await?;
        tell(pool, &replay, end, self.following.json).await
    }

    async fn give_up(&self, pool: &PgPool, id: i64) -> anyhow::Result<ExitCode> {
        let replay = find(pool, id).await?;
        if confirmed(self.yes, &format!("Park again what replay {id} has not booked?"))? != Some(true) {
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
        let released = release(pool, id, &self.operator(&format!("replay {id}, given up"))?).await?;
        if !self.following.json {
            println!("replay {id}: {released} of {} are parked again", plural(replay.letters, "dead letter"));
        }
        tell(pool, &replay, End::Released, self.following.json).await
    }
}

async fn find(pool: &PgPool, id: i64) -> anyhow::Result<Replay> {
    match replays::find(&mut *pool.acquire().await?, id).await {
        Err(StoreError::NotFound { .. }) => anyhow::bail!("there is no replay {id}; `fis dlq replays` lists them"),
        replay => Ok(replay?),
    }
}

/// Replays with the canary, without a question: the books have said so.
pub async fn automatically(pool: &PgPool, filter: &Filter, operator: &Operator) -> anyhow::Result<ExitCode> {
    let manner = Manner { canary: true, rate: None, max_failures: Some(0) };
    let replay = choose(pool, filter, operator, manner).await?;
    set_state(pool, replay.id, ReplayState::Open).await?;
    let (operator, patience) = (operator.clone(), Duration::from_secs(60));
    let feed = Feed {
        pool,
        operator,
        canary: true,
        rate: None,
        max_failures: Some(0),
        wait: true,
        patience,
        replay: replay.clone(),
    };
    let end = feed.run().await?;
    tell(pool, &replay, end, false).await
}

/// Waits for a replay that is sent, and tells how it went.
pub async fn follow(pool: &PgPool, replay: Replay, operator: Operator, how: &Following) -> anyhow::Result<ExitCode> {
    let patience = Duration::from_secs(how.patience);
    let wait = !how.no_wait;
    let feed =
        Feed { pool, operator, canary: false, rate: None, max_failures: None, wait, patience, replay: replay.clone() };
    let end = feed.run().await?;
    tell(pool, &replay, end, how.json).await
}

async fn tell(pool: &PgPool, replay: &Replay, end: End, json: bool) -> anyhow::Result<ExitCode> {
    let mut db = pool.acquire().await?;
    let progress = progress(&mut db, replay.id).await?;
    let failures = failures(&mut db, replay.id).await?;
    if json {
        let failures: Vec<_> = failures
            .iter()
            .map(|(reason, letters, detail)| json!({ "reason": reason, "letters": letters, "detail": detail }))
            .collect();
        crate::cli::print_json(&json!({
            "replayId": replay.id, "end": end.word(), "progress": progress, "underWay": progress.under_way(),
            "failures": failures,
        }))?;
    } else {
        say(replay.id, &progress, &failures, end);
    }
    let well = match end {
        End::Done => progress.failed == 0,
        End::Sent | End::Released => true,
        End::Interrupted | End::Failures | End::Held | End::Silence => false,
    };
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn say(id: i64, progress: &Progress, failures: &[(String, i64, String)], end: End) {
    let Progress { selected, left, skipped, resolved, failed, held, .. } = *progress;
    println!("replay {id}: {resolved} of {} resolved", plural(selected, "dead letter"));
    let rows = [
        (failed, "parked again"),
        (held, "held: tried again by themselves"),
        (progress.under_way(), "under way"),
        (
            skipped,
            if end == End::Released {
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
    for (reason, letters, detail) in failures {
        println!("{letters:>10}  {}", as_in(reason, detail));
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
    if left > 0 && end != End::Released {
        println!("go on with `fis dlq replay --resume {id}`,");
        println!("or give it up with `fis dlq replay --release {id}`");
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
        let postgres = crate::cli::database(config).await?;
        let lines = replays::newest(&mut *postgres.pool.acquire().await?, self.limit).await?;
        if self.json {
            crate::cli::print_json(&json!({ "replays": lines }))?;
            return Ok(ExitCode::SUCCESS);
        }
        for line in &lines {
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
        println!("{}", plural(i64::try_from(lines.len()).unwrap_or(0), "replay"));
        Ok(ExitCode::SUCCESS)
    }
}
