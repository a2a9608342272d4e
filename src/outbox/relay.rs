//! The relay: takes a window of rows, publishes them, waits for every confirm, removes what is done. No transaction is open
//! while publishing. One instance relays at a time; the others wait for its lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use sqlx::PgConnection;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::properties;
use super::statements::{self, OutboxRow, RowContent};
use super::window::{confirmed, within_budget};
use crate::domain::chain::ChainedEntry;
use crate::domain::ids::TenantId;
use crate::domain::outbound::{DOMAIN_EXCHANGE, journal_event};
use crate::platform::amqp::{AmqpError, Connection, OutMessage, Properties, PublishOutcome, Publisher};
use crate::platform::config;
use crate::platform::faults::{self, crash_point};
use crate::platform::health::{Health, Part};
use crate::platform::metrics;
use crate::platform::postgres::Postgres;
use crate::platform::time::Backoff;

/// Where an entry is: its tenant and sequence.
pub type Place = (TenantId, i64);

/// Reads entries back from the journal; given by the caller, because the stages do not know one another.
pub trait Entries: Send + Sync {
    fn read<'a>(
        &'a self,
        db: &'a mut PgConnection,
        places: &'a [Place],
    ) -> BoxFuture<'a, Result<HashMap<Place, ChainedEntry>, sqlx::Error>>;
}

#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error(transparent)]
    Amqp(#[from] AmqpError),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

pub struct Relay {
    pub postgres: Postgres,
    pub amqp: config::Amqp,
    pub window: i64,
    pub poll: Duration,
    /// Rung when a batch commits in this process.
    pub wake: Arc<Notify>,
    pub health: Health,
    pub entries: Arc<dyn Entries>,
}

/// What a pass over the outbox did.
#[derive(PartialEq, Eq)]
enum Pass {
    Idle,
    Progress,
    /// Something came back or was refused: wait before trying again.
    Stuck,
}

impl Relay {
    /// Relays until `stop`, then until nothing is left that could leave. Loses its session and builds it anew as often as
    /// it takes.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        loop {
            match self.session(stop, &mut backoff).await {
                Ok(()) => return,
                Err(error) => {
                    let part = match &error {
                        RelayError::Amqp(_) => Part::BrokerOut,
                        RelayError::Sql(_) => Part::Postgres,
                    };
                    self.health.away(part, &error.to_string());
                    tracing::warn!(error = %error, "the relay lost its session, trying again");
                }
            }
            if wait(backoff.delay(), stop).await {
                return;
            }
        }
    }

    async fn session(&self, stop: &CancellationToken, backoff: &mut Backoff) -> Result<(), RelayError> {
        // Held for the whole session: the lock lives and dies with it.
        let mut db = self.postgres.pool.acquire().await?.detach();
        while !statements::try_lock_relay(&mut db).await? {
            // Another instance relays for this one, which may take work.
            self.health.back(Part::BrokerOut);
            if wait(self.poll, stop).await {
                return Ok(());
            }
        }
        let connection = Connection::open_to_publish(&self.amqp, "fis relay").await?;
        let mut publisher = Publisher::open(&connection).await?;
        self.health.back(Part::BrokerOut);
        tracing::info!("relaying");
        loop {
            if connection.is_blocked() {
                self.health.away(Part::BrokerOut, "the broker has raised an alarm and takes no messages");
                if wait(self.poll, stop).await {
                    break;
                }
                continue;
            }
            let pass = self.pass(&mut db, &mut publisher).await?;
            match pass {
                Pass::Progress => {
                    backoff.reset();
                    self.health.back(Part::BrokerOut);
                }
                Pass::Idle if stop.is_cancelled() => break,
                Pass::Idle => tokio::select! {
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep(self.poll) => {}
                    () = stop.cancelled() => {}
                },
                Pass::Stuck => {
                    if wait(backoff.delay(), stop).await {
                        break;
                    }
                }
            }
        }
        statements::unlock_relay(&mut db).await?;
        connection.close().await;
        Ok(())
    }

    async fn pass(&self, db: &mut PgConnection, publisher: &mut Publisher) -> Result<Pass, RelayError> {
        let ready = statements::ready_rows(db, self.window).await?;
        let due = statements::due_rows(db, self.window).await?;
        if ready.is_empty() && due.is_empty() {
            return Ok(Pass::Idle);
        }
        let mut stuck = false;
        for (rows, waiting) in [(within_budget(ready), false), (within_budget(due), true)] {
            if rows.is_empty() {
                continue;
            }
            let messages = self.messages(db, &rows, waiting).await?;
            let outcomes = publisher.publish(&messages).await?;
            crash_point(faults::AFTER_PUBLISH);
            let done = confirmed(&rows, &outcomes);
            stuck |= done.len() < rows.len();
            self.count(&rows, &outcomes, done.len());
            if waiting {
                statements::remove_due(db, &done).await?;
            } else {
                statements::remove_ready(db, &done).await?;
            }
        }
        Ok(if stuck { Pass::Stuck } else { Pass::Progress })
    }

    async fn messages(
        &self,
        db: &mut PgConnection,
        rows: &[OutboxRow],
        waiting: bool,
    ) -> Result<Vec<OutMessage>, RelayError> {
        let (mut places, mut others) = (Vec::new(), Vec::new());
        for row in rows {
            match &row.content {
                RowContent::Entry { tenant_id, seq } => places.push((tenant_id.clone(), *seq)),
                RowContent::Message { .. } => others.push(row.id),
            }
        }
        let entries = if places.is_empty() { HashMap::new() } else { self.entries.read(db, &places).await? };
        let mut bodies =
            if others.is_empty() { HashMap::new() } else { statements::bodies(db, &others, waiting).await? };
        rows.iter().map(|row| message(row, &entries, &mut bodies)).collect()
    }

    fn count(&self, rows: &[OutboxRow], outcomes: &[PublishOutcome], done: usize) {
        let entries = rows.iter().filter(|row| matches!(row.content, RowContent::Entry { .. })).count();
        let share = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        if done == rows.len() {
            metrics::published("journal", share(entries));
            metrics::published("message", share(rows.len() - entries));
            return;
        }
        metrics::unconfirmed(share(rows.len() - done));
        for (row, outcome) in rows.iter().zip(outcomes) {
            let why = match outcome {
                PublishOutcome::Confirmed => continue,
                PublishOutcome::Returned(reason) => format!("a message came back: {reason}; run `fis topology check`"),
                PublishOutcome::Refused => {
                    "the broker refused a message: a queue is full or has lost its majority".to_owned()
                }
            };
            tracing::warn!(outbox.id = row.id, "{why}");
            self.health.away(Part::BrokerOut, &why);
            break;
        }
    }
}

fn message(
    row: &OutboxRow,
    entries: &HashMap<Place, ChainedEntry>,
    bodies: &mut HashMap<i64, Vec<u8>>,
) -> Result<OutMessage, RelayError> {
    match &row.content {
        RowContent::Entry { tenant_id, seq } => {
            let entry = entries.get(&(tenant_id.clone(), *seq)).ok_or(sqlx::Error::RowNotFound)?;
            let event = journal_event(entry);
            Ok(OutMessage {
                exchange: DOMAIN_EXCHANGE.to_owned(),
                routing_key: event.kind.routing_key().to_owned(),
                properties: properties(&event),
                message_id: event.message_id,
                body: event.body,
            })
        }
        RowContent::Message { exchange, routing_key, message_id, properties } => Ok(OutMessage {
            exchange: exchange.clone(),
            routing_key: routing_key.clone(),
            message_id: message_id.clone(),
            properties: Properties::from_text(properties),
            body: bodies.remove(&row.id).ok_or(sqlx::Error::RowNotFound)?,
        }),
    }
}

/// True: told to stop.
async fn wait(duration: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(duration) => false,
        () = stop.cancelled() => true,
    }
}
