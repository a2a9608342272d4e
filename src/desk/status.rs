//! The state of the house at a glance. Nothing enters; queues, outbox, dead letters, held events, entries and the breaker of the running
//! service leave. Looking changes nothing and spends no delivery.

use super::{Desk, DeskError, maps, topology};
use crate::domain::names::DEAD_LETTER_QUEUE;
use crate::intake::Lane;
use crate::platform::amqp::Connection;
use crate::platform::amqp::management::Management;
use crate::platform::http;
use crate::store::journal::pages as report;
use crate::store::{dead_letters, outbox};

/// The queues, the tables and the breaker of one ledger.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The lanes' queues, those of tenants, then the dead letters'.
    #[serde(serialize_with = "maps::pairs")]
    pub queues: Vec<(String, QueueDepth)>,
    pub outbox: OutboxBacklog,
    pub dead_letters: OpenDeadLetters,
    pub held: i64,
    pub entries: i64,
    pub breaker: Breaker,
}

/// The messages in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct QueueDepth {
    pub ready: u64,
    /// None where the management API does not say.
    pub unacked: Option<u64>,
}

/// Announcements that are due and have not left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxBacklog {
    pub pending: i64,
    pub oldest_seconds: i64,
}

/// Dead letters that wait for a person.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenDeadLetters {
    pub open: i64,
    #[serde(serialize_with = "maps::pairs")]
    pub by_reason: Vec<(String, i64)>,
}

/// The breaker of the running service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Breaker {
    /// PostgreSQL answers the service.
    Closed,
    /// The service holds its deliveries until PostgreSQL is back.
    Open,
    /// No service answers at `http.addr`.
    Unknown,
}

impl Breaker {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Unknown => "unknown",
        }
    }
}

impl Desk {
    /// The state of everything that an operator watches.
    ///
    /// # Errors
    /// The broker or the database is away.
    pub async fn status(&self) -> Result<Status, DeskError> {
        let queues = self.queues().await?;
        let mut db = self.postgres.pool.acquire().await?;
        let backlog = outbox::backlog(&mut db).await?;
        let by_reason = dead_letters::open_by_reason(&mut db).await?;
        let (held, entries) = report::count_held_and_entries(&mut db).await?;
        Ok(Status {
            queues,
            outbox: OutboxBacklog { pending: backlog.pending, oldest_seconds: backlog.oldest_seconds },
            dead_letters: OpenDeadLetters { open: by_reason.iter().map(|(_, count)| count).sum(), by_reason },
            held,
            entries,
            breaker: self.breaker().await,
        })
    }

    /// Ready messages as the queues themselves say; unacknowledged ones only where the management API can be reached.
    async fn queues(&self) -> Result<Vec<(String, QueueDepth)>, DeskError> {
        let management = Management::of(&self.config.amqp)?;
        let connection = Connection::open(&self.config.amqp, "fis status").await?;
        let tenants = topology::tenant_queues(&self.config)?;
        let own =
            tenants.iter().cloned().chain(topology::left_over_queues(&management, &tenants).await.unwrap_or_default());
        let lanes = Lane::CONSUMED.into_iter().filter_map(Lane::queue).map(str::to_owned);
        let names = lanes.chain(own.map(|queue| queue.name())).chain([DEAD_LETTER_QUEUE.to_owned()]).collect();
        let queues = depths(&connection, &management, names).await;
        connection.close().await;
        queues
    }

    /// The running service is asked at its `/readyz`.
    async fn breaker(&self) -> Breaker {
        let Ok((_, body)) = http::get(&self.config.http.addr, "/readyz").await else { return Breaker::Unknown };
        match serde_json::from_str::<serde_json::Value>(&body) {
            Ok(ready) if ready.pointer("/parts/postgres").is_some_and(|state| state == "ok") => Breaker::Closed,
            Ok(_) => Breaker::Open,
            Err(_) => Breaker::Unknown,
        }
    }
}

async fn depths(
    connection: &Connection,
    management: &Management,
    names: Vec<String>,
) -> Result<Vec<(String, QueueDepth)>, DeskError> {
    let mut queues = Vec::new();
    for queue in names {
        let ready = u64::from(connection.ready_count(&queue).await?);
        let counts = management.queue_counts(&queue).await.ok().flatten();
        queues.push((queue, QueueDepth { ready, unacked: counts.map(|counts| counts.unacked) }));
    }
    Ok(queues)
}
