//! What runs for as long as the service does: the intake's sessions, the watch over the books, the probe of Redis, the sealing of the log, the
//! forgetting of ignored events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Parts, wait};
use crate::domain::disposition::Reason;
use crate::intake::roads::Road;
use crate::journal::books::BooksError;
use crate::parking::seal::{self, Sealed};
use crate::pipeline::{Edges, Inbox, InboxError, Pipeline, PipelineError};
use crate::platform::amqp::{AmqpError, Connection, Consumer, Limits, Prefetch, Receiver, ReplyCode};
use crate::platform::config::{self, Config};
use crate::platform::health::Part;
use crate::platform::metrics;
use crate::platform::postgres::{Work, error_text};
use crate::platform::time::{self, Backoff};
use crate::store::dead_letters::{self, OpenLetters};
use crate::store::{ignored, ledger};

/// The sealing of the operators' log.
const SEAL_WORK: Work = Work::of("service.seal");
/// The question whether PostgreSQL takes postings.
const PROBE_WORK: Work = Work::of("service.probe");
/// The count of open dead letters.
const LETTERS_WORK: Work = Work::of("service.letters");
/// The removal of old records of ignored events.
const FORGET_WORK: Work = Work::of("service.forget");

/// The interval at which running instances look for newer books, well within the promised two seconds.
const BOOKS_POLL: Duration = Duration::from_secs(1);
/// The interval at which the parts that nobody talks to are asked whether they are there.
const PROBE: Duration = Duration::from_secs(2);
/// The interval at which the operators' log is sealed: for so long a row of it is proven by nothing.
const SEAL: Duration = Duration::from_secs(5);
/// The longest time for which sealing waits for a busy pipeline, in intervals: a million letters are replayed in a minute.
const SEAL_PUT_OFF_MAX: u32 = 12;
/// With so many events in hand the pipeline is busy: a replay or a backlog runs as fast as it can, and the sealing would slow it down.
const BUSY: usize = 500;
/// The longest wait for a transaction that writes to the log, well within the limit for any answer of PostgreSQL.
const SEAL_PATIENCE: Duration = Duration::from_secs(1);
/// The longest pause between two attempts at a session: posting is to go on within 5 s of PostgreSQL's return.
const SESSION_BACKOFF_MAX: Duration = Duration::from_secs(2);
/// The interval at which old records of ignored events are removed: a day's worth in 24 portions.
const FORGET: Duration = Duration::from_secs(3600);
/// The interval at which rejections without a line of their own are counted in one.
const REJECTIONS: Duration = Duration::from_secs(1);
/// The interval at which the open dead letters are counted.
const LETTERS: Duration = Duration::from_secs(15);
/// The count takes no more than one part in so many of the time, where the letters are so many that it takes a while.
const LETTERS_PART: u32 = 100;

pub async fn watch_books(edges: &Edges, stop: &CancellationToken) {
    while !wait(BOOKS_POLL, stop).await {
        match edges.books.refresh(&edges.postgres).await {
            // Reading books proves nothing about posting: whoever said that PostgreSQL is away must see it back.
            Ok(_) => {}
            Err(BooksError::Sql(error)) => edges.health.away(Part::Postgres, &error_text(&error)),
            Err(error) => {
                tracing::error!(error = %error, "the books in the database cannot be used; the old ones stay in force");
            }
        }
    }
}

pub async fn probe(edges: &Edges, stop: &CancellationToken) {
    loop {
        match edges.redis.ping().await {
            Ok(()) => edges.health.back(Part::Redis),
            Err(error) => edges.health.away(Part::Redis, &error.to_string()),
        }
        if edges.health.is_away(Part::Postgres) {
            if edges.postgres.run(PROBE_WORK, ledger::probe).await.is_ok() {
                edges.health.back(Part::Postgres);
            }
        } else if let Err(error) = edges.postgres.ping().await {
            // Duplicates that Redis knows never ask PostgreSQL; while it is away, Redis is not believed.
            edges.health.away(Part::Postgres, &error_text(&error));
        }
        if wait(PROBE, stop).await {
            return;
        }
    }
}

/// Seals the operators' log while there is something to seal, and once more at the end. Every instance does; whoever comes first makes a block. It gives way to
/// a pipeline that is busy, but not for long.
pub async fn seal_log(edges: &Edges, pipeline: &Pipeline, stop: &CancellationToken) {
    let mut put_off = 0;
    loop {
        let is_last = wait(SEAL, stop).await;
        if gives_way(&mut put_off, pipeline.in_hand()) && !is_last {
            continue;
        }
        // Whoever needs PostgreSQL has told that it is away; and nobody waits for it in order to stop.
        while !edges.health.is_away(Part::Postgres) {
            match edges.postgres.run(SEAL_WORK, async |db| seal::step(db, SEAL_PATIENCE).await).await {
                Ok(Sealed::More) => {}
                Ok(Sealed::All) => break,
                Ok(Sealed::Busy) => {
                    tracing::debug!("a transaction that writes to the operators' log has not ended; sealing it later");
                    break;
                }
                Err(error) => {
                    tracing::warn!(error = %error, "the operators' log could not be sealed, trying again");
                    break;
                }
            }
        }
        if is_last {
            return;
        }
    }
}

/// Tells whether the sealing waits for the pipeline, and counts how often in a row.
fn gives_way(put_off: &mut u32, in_hand: usize) -> bool {
    let waits = in_hand >= BUSY && *put_off < SEAL_PUT_OFF_MAX;
    *put_off = if waits { *put_off + 1 } else { 0 };
    waits
}

/// Removes the records of ignored events that are old enough to be forgotten, as soon as it starts and then every hour.
pub async fn forget_ignored(edges: &Edges, stop: &CancellationToken) {
    loop {
        let today = time::now().date_naive();
        // A failure leaves them for the next time; whoever needs PostgreSQL reports it.
        while let Ok(true) = edges.postgres.run(FORGET_WORK, async |db| ignored::remove_old(db, today).await).await {
            if stop.is_cancelled() {
                return;
            }
        }
        if wait(FORGET, stop).await {
            return;
        }
    }
}

/// Tells the metrics what money is not in the books. Counting a million letters takes a second.
pub async fn watch_letters(edges: &Edges, stop: &CancellationToken) {
    let mut currencies = BTreeSet::new();
    loop {
        let mut rest = LETTERS;
        // A failure tells nothing: the last figures stay, and whoever needs PostgreSQL reports it.
        let asked = Instant::now();
        if let Ok(open) = edges.postgres.run(LETTERS_WORK, dead_letters::open_letters).await {
            tell_letters(&open, &mut currencies);
            rest = rest.max(asked.elapsed().saturating_mul(LETTERS_PART));
        }
        if wait(rest, stop).await {
            return;
        }
    }
}

/// Logs once in a second how many rejections had no line of their own, and once more at the end.
pub async fn tell_rejections(pipeline: &Pipeline, stop: &CancellationToken) {
    loop {
        let is_last = wait(REJECTIONS, stop).await;
        pipeline.tell_left_out(is_last);
        if is_last {
            return;
        }
    }
}

/// Every reason, and every currency seen so far: one whose letters are gone falls to zero.
fn tell_letters(open: &[OpenLetters], currencies: &mut BTreeSet<String>) {
    for reason in Reason::ALL {
        let of = open.iter().filter(|line| line.reason == reason.code());
        metrics::open_letters(reason.code(), of.map(|line| line.letters).sum());
    }
    currencies.extend(open.iter().filter_map(|line| line.currency.clone()));
    for currency in currencies.iter() {
        let of = open.iter().filter(|line| line.currency.as_ref() == Some(currency));
        let money: Decimal = of.filter_map(|line| line.amount).sum();
        metrics::open_money(currency.clone(), money.to_f64().unwrap_or(f64::NAN));
    }
    let oldest = open.iter().map(|line| line.oldest).min();
    metrics::oldest_letter(oldest.map_or(0, |oldest| (time::now() - oldest).num_seconds()));
}

/// Consumes all roads on one connection, apart from the one that publishes: an alarm that blocks publishing must not block
/// acknowledgements. Any loss ends the whole session, and a new one is built only when PostgreSQL answers.
pub async fn intake(config: &Config, parts: &Parts, stop: &CancellationToken) {
    let Parts { edges, pipeline, .. } = parts;
    let mut backoff = Backoff::new(Duration::from_millis(200), SESSION_BACKOFF_MAX);
    loop {
        let begun = Instant::now();
        match edges.postgres.run(PROBE_WORK, ledger::probe).await {
            Ok(()) => match session(config, parts, stop).await {
                Ok(()) => return,
                Err(PipelineError::Stopped) if stop.is_cancelled() => return,
                Err(error) => {
                    match &error {
                        PipelineError::Amqp(error) => edges.health.away(Part::BrokerIn, &error.why()),
                        PipelineError::HeldTooLong(_) => pipeline.forgive(),
                        PipelineError::Stopped | PipelineError::Overtaken => {}
                    }
                    // A session that could not even be opened is told by the health, once for the whole outage.
                    if !matches!(error, PipelineError::Amqp(AmqpError::Unreachable { .. })) {
                        tracing::info!(error = %error, "the intake lost its session, trying again");
                    }
                }
            },
            Err(error) => edges.health.away(Part::Postgres, &error_text(&error)),
        }
        if wait(backoff.delay_after(begun.elapsed()), stop).await {
            return;
        }
    }
}

/// Posts what waits in PostgreSQL. It needs no broker, and goes on while that is away.
pub async fn inbox(edges: &Edges, pipeline: &Arc<Pipeline>, stop: &CancellationToken) {
    let mut inbox = Inbox::new(Arc::clone(pipeline), edges.postgres.clone());
    let mut backoff = Backoff::new(Duration::from_millis(200), SESSION_BACKOFF_MAX);
    loop {
        let begun = Instant::now();
        match inbox.follow(stop).await {
            Ok(()) | Err(InboxError::Pipeline(PipelineError::Stopped)) if stop.is_cancelled() => return,
            Ok(()) => {}
            Err(InboxError::Sql(error)) => edges.health.away(Part::Postgres, &error_text(&error)),
            Err(InboxError::Pipeline(error)) => tracing::warn!(error = %error, "the inbox stopped, trying again"),
        }
        if wait(backoff.delay_after(begun.elapsed()), stop).await {
            return;
        }
    }
}

async fn session(config: &Config, parts: &Parts, stop: &CancellationToken) -> Result<(), PipelineError> {
    let (pipeline, health) = (&parts.pipeline, &parts.edges.health);
    let connection = Connection::open(&config.amqp, "fis intake").await?;
    let receivers = match receivers(&connection, &config.intake, &parts.roads).await {
        Ok(receivers) => receivers,
        Err(error) => {
            connection.close().await;
            return Err(error.into());
        }
    };
    // One lane's loss ends the others: they finish the batch in hand and find their channel gone.
    let session_stop = stop.child_token();
    let mut lanes = JoinSet::new();
    for (road, mut receiver) in receivers {
        let (pipeline, stop) = (Arc::clone(pipeline), session_stop.clone());
        lanes.spawn(async move {
            let end = pipeline.follow(&road, &mut receiver, &stop).await;
            stop.cancel();
            (end, receiver)
        });
    }
    health.back(Part::BrokerIn);
    health.back(Part::Postgres); // it was probed just now
    let (mut end, mut panic) = (Ok(()), None);
    // Consumers stay until the connection is closed: one that is dropped would still be cancelled, on a channel that closes.
    let mut receivers = Vec::new();
    while let Some(lane) = lanes.join_next().await {
        match lane {
            Ok((ended, receiver)) => {
                receivers.push(receiver);
                // A lane that was stopped because of another one's trouble says less than that other one.
                if matches!(end, Ok(()) | Err(PipelineError::Stopped)) {
                    end = ended.and(end);
                }
            }
            Err(error) => {
                // The others finish first: a lane must not be dropped in the middle of a transaction.
                session_stop.cancel();
                panic = error.try_into_panic().ok();
            }
        }
    }
    if let Some(panic) = panic {
        std::panic::resume_unwind(panic);
    }
    connection.close().await;
    end
}

/// A receiver for each road. All are opened before the first starts: one that is at work must not be dropped in the middle of a transaction.
async fn receivers(
    connection: &Connection,
    config: &config::Intake,
    roads: &[Arc<Road>],
) -> Result<Vec<(Arc<Road>, Receiver)>, AmqpError> {
    let mut receivers = Vec::with_capacity(roads.len());
    for road in roads {
        if !is_there(connection, road).await? {
            continue;
        }
        let most = road.prefetch_max();
        let (prefetch, prefetch_max) = (config.prefetch.min(most), config.prefetch_max.min(most));
        let prefetch = Prefetch::new(&config::Intake { prefetch, prefetch_max, ..config.clone() });
        let consumer = Consumer::open(connection, &road.queue, prefetch.now()).await?;
        receivers.push((Arc::clone(road), Receiver::new(consumer, Limits::new(config)).adapting(prefetch)));
        if let (Some(limit), Some(tenant)) = (&road.limit, road.label()) {
            metrics::limit(tenant, limit.per_second.get());
            metrics::limited(tenant, 0);
        }
    }
    Ok(receivers)
}

/// A queue that is left over may have been deleted; any other is needed, and whoever opens it learns that it is missing.
async fn is_there(connection: &Connection, road: &Road) -> Result<bool, AmqpError> {
    if !road.is_left_over {
        return Ok(true);
    }
    match connection.ready_count(&road.queue).await {
        Ok(_) => Ok(true),
        Err(AmqpError::Broker { code: Some(ReplyCode::NotFound), .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sealing_gives_way_to_a_busy_pipeline_for_a_minute_at_most() {
        let mut put_off = 0;
        assert!(!gives_way(&mut put_off, BUSY - 1));
        let waits = (0..100).take_while(|_| gives_way(&mut put_off, BUSY)).count();
        assert_eq!(SEAL * u32::try_from(waits).expect("a few"), Duration::from_secs(60));
        assert!(gives_way(&mut put_off, BUSY), "it waits again after it has sealed");
        assert!(!gives_way(&mut put_off, 0));
    }
}
