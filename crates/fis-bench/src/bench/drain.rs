//! The service from outside: a backlog becomes a ledger, a publisher and the service work together, a backlog of duplicates
//! is recognised. The service is the built program, in a process of its own, as it is in life.

use std::time::{Duration, Instant};

use anyhow::Context;
use fis::domain::names;
use fis::domain::names::INGESTION_QUEUE;
use fis::platform::amqp::Connection;
use fis::platform::metrics;
use fis::store::outbox;
use futures::future::{join_all, try_join_all};
use sqlx::PgPool;

use super::orders::{self, TENANT};
use super::rate;
use super::resources::{self, Spent};
use super::results::{Results, as_u64};
use super::sandbox::Sandbox;
use crate::service::Service;

const LOOK: Duration = Duration::from_millis(10);
/// A service that posts fewer events per second than this is taken for stuck.
const SLOWEST_RATE: u64 = 100;

/// The figures of one drained backlog. Rates are events per second.
pub struct Drained {
    pub publish: u64,
    /// Until everything was committed and acknowledged.
    pub drain: u64,
    /// Until everything was confirmed on the feed, and the outbox empty.
    pub relay: u64,
    pub spent: Spent,
    /// The highest memory of one instance.
    pub memory_kib: u64,
}

/// A backlog to be drained: orders `first..first + events`, published while nothing runs.
#[derive(Clone, Copy)]
pub struct Backlog {
    pub first: usize,
    pub events: usize,
    pub instances: usize,
    /// Events of a kilobyte.
    pub heavy: bool,
    /// The relay waits until everything is posted: what is measured is the intake alone.
    pub relay_waits: bool,
}

impl Backlog {
    pub fn of(events: usize) -> Self {
        Self { first: 0, events, instances: 1, heavy: false, relay_waits: false }
    }
}

/// Publishes a backlog, then starts the instances and waits for the end.
pub async fn backlog(sandbox: &Sandbox, backlog: Backlog) -> anyhow::Result<Drained> {
    let Backlog { first, events, instances, heavy, relay_waits } = backlog;
    let pool = &sandbox.postgres.pool;
    let numbers = first..first + events;
    let base = posted(pool).await?;
    let published = match heavy {
        true => orders::publish_heavy(sandbox, numbers).await?,
        false => orders::publish(sandbox, numbers).await?,
    };
    let (before, footprint) = (Spent::of_servers(sandbox).await, resources::Footprint::of(sandbox).await?);
    let owner = if relay_waits { Some(own_relay(sandbox).await?) } else { None };
    let mut services = start(sandbox, instances).await?;
    let started = Instant::now();
    // The lanes begin while the service reports ready: what was posted by then is not counted as time but as work done.
    let ahead = usize::try_from(posted(pool).await? - base)?;
    let target = base + i64::try_from(events)?;
    until("everything is posted", events, async || Ok(posted(pool).await? >= target)).await?;
    until("everything is acknowledged", events, async || {
        Ok(counted(&services, metrics::INTAKE_DELIVERIES, "").await? >= as_u64(events))
    })
    .await?;
    let drained = started.elapsed();
    if owner.is_none() {
        all_relayed(pool, &services, events).await?;
    }
    let relayed = started.elapsed();
    let mut spent = Spent::of_servers(sandbox).await.since(&before).per_event(events);
    spent.fis = services
        .iter()
        .map(|service| resources::cpu(service.id()))
        .sum::<Option<u64>>()
        .map(|all| all / as_u64(events));
    if let Some(owner) = owner {
        owner.close().await;
        all_relayed(pool, &services, events).await?;
    }
    spent.bytes = resources::Footprint::of(sandbox).await?.since(&footprint, events);
    let memory_kib = services.iter().filter_map(|service| resources::peak_kib(service.id())).max().unwrap_or(0);
    stop(sandbox, &mut services).await?;
    let counted = events.saturating_sub(ahead);
    Ok(Drained {
        publish: rate(events, published),
        drain: rate(counted, drained),
        relay: rate(counted, relayed),
        spent,
        memory_kib,
    })
}

/// Takes the relay's place at the broker, so that the service's own stands by.
pub async fn own_relay(sandbox: &Sandbox) -> anyhow::Result<Connection> {
    let connection = Connection::open(&sandbox.config.amqp, "fis-bench").await?;
    anyhow::ensure!(connection.try_own(names::RELAY_OWNER_QUEUE).await?, "another relay is at work");
    Ok(connection)
}

/// Publisher, intake and relay together, from the first publish until the last event is confirmed out.
pub async fn full_loop(sandbox: &Sandbox, events: usize) -> anyhow::Result<u64> {
    let pool = &sandbox.postgres.pool;
    let mut services = start(sandbox, 1).await?;
    let (base, started) = (posted(pool).await?, Instant::now());
    orders::publish(sandbox, 0..events).await?;
    let target = base + i64::try_from(events)?;
    until("everything is posted", events, async || Ok(posted(pool).await? >= target)).await?;
    all_relayed(pool, &services, events).await?;
    let time = started.elapsed();
    stop(sandbox, &mut services).await?;
    Ok(rate(events, time))
}

/// Publishes what is posted already, twice, and waits until every one is acknowledged as a duplicate.
pub async fn duplicates(sandbox: &Sandbox, events: usize, results: &mut Results) -> anyhow::Result<()> {
    for _ in 0..2 {
        orders::publish(sandbox, 0..events).await?;
    }
    let total = as_u64(events) * 2;
    let written = resources::rows_written(&sandbox.postgres.pool).await?;
    let mut services = start(sandbox, 1).await?;
    let started = Instant::now();
    let known =
        async |services: &[Service]| counted(services, metrics::INTAKE_DELIVERIES, "outcome=\"duplicate\"").await;
    let ahead = known(&services).await?;
    until("every duplicate is acknowledged", events, async || Ok(known(&services).await? >= total)).await?;
    let time = started.elapsed();
    stop(sandbox, &mut services).await?;
    results.add("duplicates", rate(usize::try_from(total.saturating_sub(ahead))?, time));
    // The sessions of the service have ended, and with their end their statistics are told.
    let rows = resources::rows_written(&sandbox.postgres.pool).await?.saturating_sub(written);
    results.add("duplicates_rows_written", rows);
    Ok(())
}

pub async fn start(sandbox: &Sandbox, instances: usize) -> anyhow::Result<Vec<Service>> {
    let names: Vec<String> = (1..=instances).map(|number| format!("fis-bench-{number}.log")).collect();
    try_join_all(names.iter().map(|log| Service::start(&sandbox.config, log, false))).await
}

/// Stops the service; then what was delivered and not acknowledged would be back in the queue, and there must be none.
pub async fn stop(sandbox: &Sandbox, services: &mut [Service]) -> anyhow::Result<()> {
    for stopped in join_all(services.iter_mut().map(Service::stop)).await {
        stopped?;
    }
    let connection = Connection::open(&sandbox.config.amqp, "fis-bench").await?;
    let left = connection.ready_count(INGESTION_QUEUE).await?;
    connection.close().await;
    anyhow::ensure!(left == 0, "{left} events were not acknowledged");
    Ok(())
}

/// The sequence of the newest entry.
pub async fn posted(pool: &PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select seq from fis_chain_head where tenant_id = $1").bind(TENANT).fetch_one(pool).await
}

/// Waits for the confirms of that many announcements, then for the removal of their rows. The counter comes first, because
/// counting the rows of a long outbox would slow down what is being measured.
pub async fn all_relayed(pool: &PgPool, services: &[Service], events: usize) -> anyhow::Result<()> {
    until("everything is relayed", events, async || {
        Ok(counted(services, metrics::OUTBOX_PUBLISHED, "").await? >= as_u64(events))
    })
    .await?;
    until("the outbox is empty", events, async || {
        let mut db = pool.acquire().await?;
        Ok(outbox::backlog(&mut db).await?.pending == 0)
    })
    .await
}

pub async fn counted(services: &[Service], name: &str, label: &str) -> anyhow::Result<u64> {
    Ok(try_join_all(services.iter().map(|service| service.counter(name, label))).await?.iter().sum())
}

/// Asks again and again; a hundred a second is the least that is waited for.
pub async fn until(
    what: &str,
    events: usize,
    mut done: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let waiting = async {
        while !done().await? {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    };
    let patience = Duration::from_secs(60 + as_u64(events) / SLOWEST_RATE);
    tokio::time::timeout(patience, waiting).await.with_context(|| format!("waited too long until {what}"))?
}
