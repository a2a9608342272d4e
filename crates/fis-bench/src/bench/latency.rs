//! The latency of an event at a steady rate. The publisher follows the clock, not the answers: an event counts from the moment
//! it was due, so that a hiccup is paid for by every event it delays.
//!
//! A commit is seen by asking for the head of the chain about once a millisecond. Each answer bounds the commit from both sides, and
//! what is told is the worse bound: the first look that saw it for publish to commit, the last look that did not for commit to
//! outbound. An announcement has arrived when a reader on a queue of its own holds it.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use fis::domain::names::DOMAIN_EXCHANGE;
use fis::platform::amqp::{Connection, Consumer, OutMessage, Publisher};
use fis::platform::config::Config;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sqlx::{PgPool, Row};
use tokio::sync::watch;
use tokio::time::Instant;

use super::drain;
use super::orders::{self, Order};
use super::results::{Results, as_u64};
use super::sandbox::Sandbox;

/// Channels of the publisher: a window waits for its confirms on one while the next leaves on another.
const CHANNELS: usize = 32;
const PREFETCH: u16 = 5000;
const LOOK: Duration = Duration::from_millis(1);
/// The seconds for which a rate is kept up; a low rate is kept up longer, so that its worst hundredth is more than an event or two.
const SECONDS: usize = 6;
const SECONDS_SLOW: usize = 10;
/// A run that is small in its other parts is short in this one: a second for so many of its events.
const EVENTS_PER_SECOND: usize = 5_000;
/// The service is measured warm: its sessions open, its statements prepared.
const WARM_UP: (usize, usize) = (500, 500);
/// After the last publish: until the last announcement must have come.
const PATIENCE: Duration = Duration::from_secs(60);

/// At each rate, in events per second.
pub async fn measure(
    sandbox: &Sandbox,
    rates: &[(&str, usize)],
    events: usize,
    results: &mut Results,
) -> anyhow::Result<()> {
    let mut services = drain::start(sandbox, 1).await?;
    let connection = Connection::open(&sandbox.config.amqp, "fis-bench finance").await?;
    let mut first = 0;
    run(sandbox, &connection, first, WARM_UP.0, WARM_UP.1).await?;
    first += WARM_UP.1;
    for (name, rate) in rates {
        let most = if *rate < 500 { SECONDS_SLOW } else { SECONDS };
        let events = rate * (events / EVENTS_PER_SECOND).clamp(1, most);
        let times = run(sandbox, &connection, first, *rate, events).await?;
        first += events;
        results.add(format!("latency_{name}_rate"), as_u64(*rate));
        for (measure, mut times) in [("commit", times.commit), ("outbound", times.outbound), ("relay", times.relay)] {
            times.sort_unstable();
            for (percentile, thousandths) in [("p50", 500), ("p99", 990), ("p999", 999)] {
                results.add(format!("latency_{name}_{measure}_{percentile}"), rank(&times, thousandths));
            }
        }
    }
    drain::stop(sandbox, &mut services).await?;
    connection.close().await;
    Ok(())
}

/// The times of every event of one run, in microseconds.
#[derive(Default)]
struct Times {
    /// Publish to commit.
    commit: Vec<u64>,
    /// Publish to outbound.
    outbound: Vec<u64>,
    /// Commit to outbound.
    relay: Vec<u64>,
}

async fn run(
    sandbox: &Sandbox,
    connection: &Connection,
    first: usize,
    rate: usize,
    events: usize,
) -> anyhow::Result<Times> {
    let base = drain::posted(&sandbox.postgres.pool).await?;
    let consumer = Consumer::attach(connection, DOMAIN_EXCHANGE, "fis.#", PREFETCH).await?;
    let (finished, finish) = watch::channel(false);
    let looking = tokio::spawn(look(sandbox.postgres.pool.clone(), finish));
    let reading = tokio::spawn(read(consumer, events));
    let publishing = tokio::spawn(publish(sandbox.config.clone(), sandbox.name.clone(), first, rate, events));
    let due = publishing.await??;
    let arrived = tokio::time::timeout(PATIENCE, reading).await.context("not every announcement has come")???;
    drop(finished);
    let looks = looking.await??;

    let mut times = Times::default();
    for (number, seq) in sequences(&sandbox.postgres.pool, &sandbox.name, base).await? {
        let due = number.checked_sub(first).and_then(|index| due.get(index)).context("an event nobody published")?;
        let committed = committed(&looks, seq)?;
        let seen = looks.partition_point(|look| look.seq < seq);
        let not_yet = seen.checked_sub(1).and_then(|last| looks.get(last)).map_or(committed, |look| look.sent);
        let arrived = arrived.get(&seq).context("an entry that was not announced")?;
        times.commit.push(microseconds(committed - *due));
        times.outbound.push(microseconds(arrived.saturating_duration_since(*due)));
        times.relay.push(microseconds(arrived.saturating_duration_since(not_yet)));
    }
    anyhow::ensure!(times.commit.len() == events, "{} of {events} events were posted", times.commit.len());
    Ok(times)
}

pub fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The value that so many thousandths do not exceed.
pub fn rank(sorted: &[u64], thousandths: usize) -> u64 {
    let index = (sorted.len() * thousandths).div_ceil(1000).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(0)
}

/// Publishes each event when it is due; returns when each was.
pub async fn publish(
    config: Config,
    run: String,
    first: usize,
    rate: usize,
    events: usize,
) -> anyhow::Result<Vec<Instant>> {
    let connection = Connection::open(&config.amqp, "fis-bench").await?;
    let mut idle = Vec::with_capacity(CHANNELS);
    for _ in 0..CHANNELS {
        idle.push(Publisher::open(&connection).await?);
    }
    let started = Instant::now() + Duration::from_millis(100);
    let due_at = |index: usize| {
        started + Duration::from_secs(1) * u32::try_from(index).unwrap_or(u32::MAX) / u32::try_from(rate).unwrap_or(1)
    };
    let due: Vec<Instant> = (0..events).map(due_at).collect();
    let mut messages = (first..first + events).map(|number| Order { run: &run, number }.message());
    let (mut sent, mut busy) = (0, FuturesUnordered::new());
    while sent < events || !busy.is_empty() {
        let ready = due.partition_point(|due| *due <= Instant::now());
        if ready > sent
            && let Some(mut publisher) = idle.pop()
        {
            let window: Vec<OutMessage> = messages.by_ref().take(ready - sent).collect();
            sent = ready;
            busy.push(async move {
                let published = orders::publish_window(&mut publisher, &window).await;
                published.map(|()| publisher)
            });
        }
        // Where every channel waits for confirms, the next that is done lets the loop go on; what is late counts as late.
        let next = due.get(sent).copied().filter(|_| !idle.is_empty());
        tokio::select! {
            Some(done) = busy.next() => idle.push(done?),
            () = tokio::time::sleep_until(next.unwrap_or(started)), if next.is_some() => {}
            else => {}
        }
    }
    connection.close().await;
    Ok(due)
}

pub struct Look {
    sent: Instant,
    received: Instant,
    seq: i64,
}

/// The first look that saw a sequence.
pub fn committed(looks: &[Look], seq: i64) -> anyhow::Result<Instant> {
    let seen = looks.partition_point(|look| look.seq < seq);
    Ok(looks.get(seen).context("a commit that nobody saw")?.received)
}

/// Looks at the head of the chain until it is told to finish, and once more then: what was there by then is seen. Keeps the last look at each state and the first at the next.
pub async fn look(pool: PgPool, finish: watch::Receiver<bool>) -> anyhow::Result<Vec<Look>> {
    let mut db = pool.acquire().await?;
    let mut looks: Vec<Look> = Vec::new();
    loop {
        let is_last = finish.has_changed().is_err();
        let sent = Instant::now();
        let seq = sqlx::query_scalar("select seq from fis_chain_head where tenant_id = $1")
            .bind(orders::TENANT)
            .fetch_one(&mut *db)
            .await?;
        let look = Look { sent, received: Instant::now(), seq };
        match looks.last_mut() {
            // The first look that saw a state tells when it was there, the last one when the next was not yet.
            Some(last) if last.seq == seq => last.sent = look.sent,
            Some(_) | None => looks.push(look),
        }
        if is_last {
            return Ok(looks);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// When each sequence arrived, the first time it did.
async fn read(mut consumer: Consumer, events: usize) -> anyhow::Result<HashMap<i64, Instant>> {
    let (mut arrived, mut unsettled) = (HashMap::with_capacity(events), Vec::new());
    while arrived.len() < events {
        let delivery = consumer.next().await?;
        if let Some(sequence) = delivery.properties.header_number("x-fis-sequence") {
            arrived.entry(sequence).or_insert_with(Instant::now);
        }
        unsettled.push(delivery);
        if unsettled.len() >= 100 {
            consumer.settler().settle(&unsettled, |_| false).await?;
            unsettled.clear();
        }
    }
    consumer.settler().settle(&unsettled, |_| false).await?;
    consumer.cancel().await?;
    Ok(arrived)
}

/// The sequences that the events of a run got, by their numbers.
pub async fn sequences(pool: &PgPool, run: &str, base: i64) -> anyhow::Result<Vec<(usize, i64)>> {
    let rows = sqlx::query("select seq, event_id from fis_journal_entry where tenant_id = $1 and seq > $2")
        .bind(orders::TENANT)
        .bind(base)
        .fetch_all(pool)
        .await?;
    let mut sequences = Vec::with_capacity(rows.len());
    for row in rows {
        let event: String = row.try_get("event_id")?;
        let number =
            event.strip_prefix(run).and_then(|rest| rest.strip_prefix('-')).context("somebody else's event")?;
        sequences.push((number.parse()?, row.try_get("seq")?));
    }
    Ok(sequences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let times: Vec<u64> = (1..=1000).collect();
        assert_eq!([500, 990, 999].map(|thousandths| rank(&times, thousandths)), [500, 990, 999]);
        assert_eq!(rank(&[7], 999), 7);
        assert_eq!(rank(&[], 500), 0);
    }
}
