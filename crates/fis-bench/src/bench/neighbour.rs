//! A tenant beside another one's backlog: the backlog waits when the service starts, and while it is drained an event of the other tenant is due
//! twenty times a second. Its time from due to committed is what is measured: once with the backlog in a queue of its own, once, with a shorter
//! one, with both tenants at the front door, and once without any backlog. The relay is at work, as in life.

use std::time::Duration;

use fis::domain::names::TENANT_HEADER;
use fis::intake::tenant_queues::TenantQueues;
use fis::platform::amqp::topology::Topology;
use fis::platform::amqp::{Connection, OutMessage, Publisher};
use fis::platform::config::Config;
use fis::store::outbox;
use sqlx::PgPool;
use tokio::time::Instant;

use super::drain::{self, until};
use super::latency::{microseconds, rank};
use super::orders::{self, Order, TENANT};
use super::results::{Results, as_u64};
use super::sandbox::{BOOKS, Sandbox};
use super::{in_sandbox, rate};
use crate::service::Service;

/// The tenant beside the backlog's.
const NEIGHBOUR: &str = "globex-shop";
/// The time between two of its events.
const EVERY: Duration = Duration::from_millis(50);
/// The interval at which its head is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// The longest backlog at the front door: every event behind it waits for all of it.
const SHARED_MAX: usize = 100_000;
/// The events that tell how long it takes without a backlog.
const ALONE_EVENTS: usize = 100;

/// The places of the backlog.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    OwnQueue,
    FrontDoor,
}

pub async fn measure(config: &Config, events: usize, results: &mut Results) -> anyhow::Result<()> {
    for (place, name, events) in [
        (Place::Nowhere, "alone", 0),
        (Place::OwnQueue, "own", events),
        (Place::FrontDoor, "shared", events.min(SHARED_MAX)),
    ] {
        let measured = in_sandbox(config, async |sandbox| beside(sandbox, place, events).await).await?;
        let mut times = measured.times;
        times.sort_unstable();
        results.add(format!("neighbour_{name}_events"), as_u64(times.len()));
        for (percentile, thousandths) in [("p50", 500), ("p99", 990), ("max", 1000)] {
            results.add(format!("neighbour_{name}_{percentile}"), rank(&times, thousandths));
        }
        if place != Place::Nowhere {
            results.add(format!("neighbour_{name}_backlog"), as_u64(events));
            results.add(format!("neighbour_{name}_publish"), measured.publish);
            results.add(format!("neighbour_{name}_drain"), measured.drain);
            results.add(format!("neighbour_{name}_outbox"), measured.outbox);
        }
    }
    Ok(())
}

struct Measured {
    /// From due to committed, of each of the neighbour's events, in microseconds.
    times: Vec<u64>,
    publish: u64,
    drain: u64,
    /// Announcements that wait when the backlog is drained.
    outbox: u64,
}

async fn beside(sandbox: &Sandbox, place: Place, events: usize) -> anyhow::Result<Measured> {
    let pool = &sandbox.postgres.pool;
    let mut config = sandbox.config.clone();
    fis::journal::books::apply(pool, &BOOKS.replace(TENANT, NEIGHBOUR), "fis-bench").await?;
    if place == Place::OwnQueue {
        TENANT.clone_into(&mut config.intake.tenant_queues);
        let tenants = TenantQueues::parse(TENANT).map_err(anyhow::Error::msg)?;
        let connection = Connection::open(&config.amqp, "fis-bench").await?;
        connection.apply_topology(&tenants.laid_over(Topology::embedded()?)).await?;
        connection.close().await;
    }
    let published = orders::publish_with_tenant(sandbox, 0..events).await?;
    let service = [Service::start(&config, "fis-bench-1.log", false).await?];
    let started = std::time::Instant::now();
    let ahead = usize::try_from(drain::posted(pool).await?)?;
    let connection = Connection::open_to_publish(&config.amqp, "fis-bench neighbour").await?;
    let mut publisher = Publisher::open(&connection).await?;
    let (mut due, mut seen) = (Vec::new(), Vec::new());
    let mut drained = None;
    // One task does both, in turn: the look is as fine as the pause between two looks, and an event counts from the moment it was due.
    let mut next = Instant::now() + EVERY;
    let patience = Instant::now() + Duration::from_secs(120 + as_u64(events) / 1_000);
    loop {
        look(pool, &mut seen).await?;
        if drained.is_none() && drain::posted(pool).await? >= i64::try_from(events)? {
            drained = Some(started.elapsed());
        }
        let is_enough = drained.is_some() && due.len() >= ALONE_EVENTS;
        if is_enough && seen.len() >= due.len() {
            break;
        }
        if Instant::now() >= next && !is_enough {
            due.push(next);
            let order = Order { run: &sandbox.name, number: due.len() };
            orders::publish_window(&mut publisher, &[of_neighbour(&order)]).await?;
            next += EVERY;
        }
        anyhow::ensure!(Instant::now() < patience, "waited too long for the neighbour's events");
        tokio::time::sleep(LOOK).await;
    }
    let outbox = outbox::backlog(&mut *pool.acquire().await?).await?.pending;
    connection.close().await;
    let [mut service] = service;
    until("everything is acknowledged", events, async || {
        let all = events + due.len();
        let settled = service.counter(fis::platform::metrics::INTAKE_DELIVERIES, "").await?;
        Ok(settled >= as_u64(all))
    })
    .await?;
    service.stop().await?;
    let times = due.iter().zip(&seen).map(|(due, seen)| microseconds(seen.saturating_duration_since(*due)));
    Ok(Measured {
        times: times.collect(),
        publish: rate(events, published),
        drain: rate(events.saturating_sub(ahead), drained.unwrap_or_else(|| started.elapsed())),
        outbox: u64::try_from(outbox)?,
    })
}

/// Notes the time at which each further event of the neighbour was first seen committed. They are posted in the order in which they were published.
async fn look(pool: &PgPool, seen: &mut Vec<Instant>) -> anyhow::Result<()> {
    let head = sqlx::query_scalar::<_, i64>("select seq from fis_chain_head where tenant_id = $1");
    let posted = usize::try_from(head.bind(NEIGHBOUR).fetch_one(pool).await?)?;
    seen.resize(posted.max(seen.len()), Instant::now());
    Ok(())
}

fn of_neighbour(order: &Order<'_>) -> OutMessage {
    let message = order.message();
    let properties = message.properties.clone().with_header(TENANT_HEADER, NEIGHBOUR);
    OutMessage { body: order.body().replace(TENANT, NEIGHBOUR).into_bytes(), properties, ..message }
}
