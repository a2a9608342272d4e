//! The relay: becomes the owner, opens the two roads out, and begins anew whenever the broker or the database is lost. One
//! instance relays at a time; which one, the broker decides (`Connection::try_own`), because it is the only one that
//! can keep the messages of a stopped process out. The others stand by.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::handover::Handover;
use super::session::Session;
use crate::domain::names::RELAY_OWNER_QUEUE;
use crate::platform::amqp::{AmqpError, Connection};
use crate::platform::config;
use crate::platform::health::{Health, Part};
use crate::platform::metrics;
use crate::platform::postgres::Postgres;
use crate::platform::time::Backoff;
use crate::store::outbox::Road;

#[derive(Debug, thiserror::Error)]
pub(super) enum RelayError {
    #[error(transparent)]
    Amqp(#[from] AmqpError),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

pub struct Relay {
    pub postgres: Postgres,
    pub amqp: config::Amqp,
    pub window: usize,
    pub poll: Duration,
    pub health: Health,
    /// The bell and the entries of the commits of this process.
    pub handover: Arc<Handover>,
}

impl Relay {
    /// Relays until `stop`, then until nothing is left that could leave. Loses its session and builds it anew as often as
    /// it takes.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut backoff = new_backoff();
        loop {
            match self.session(stop, &mut backoff).await {
                Ok(()) => return,
                Err(error) => {
                    metrics::relaying(false);
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
        let connection = Connection::open_to_own(&self.amqp, "fis relay").await?;
        while !connection.try_own(RELAY_OWNER_QUEUE).await? {
            // Another instance relays for this one, which may take work.
            self.health.back(Part::BrokerOut);
            metrics::relaying(false);
            backoff.reset();
            if wait(super::stand_by(), stop).await {
                connection.close().await;
                return Ok(());
            }
        }
        let standing = Standing { health: &self.health, roads: Mutex::default() };
        tracing::info!("relaying");
        metrics::relaying(true);
        // Each road has its own channel and its own patience: a full backfill lane does not slow the live feed.
        let mut due_backoff = new_backoff();
        let ended = tokio::try_join!(
            self.road(Road::Ready, &connection, &standing, backoff, stop),
            self.road(Road::Due, &connection, &standing, &mut due_backoff, stop),
        );
        connection.close().await;
        ended.map(|_| metrics::relaying(false))
    }

    /// Keeps one road open for as long as the connection lives.
    async fn road(
        &self,
        road: Road,
        connection: &Connection,
        standing: &Standing<'_>,
        backoff: &mut Backoff,
        stop: &CancellationToken,
    ) -> Result<(), RelayError> {
        loop {
            let ended = match Session::open(self, road, connection, standing).await {
                Ok(mut session) => session.run(backoff, stop).await,
                Err(error) => Err(error),
            };
            let error = match ended {
                Ok(()) => return Ok(()),
                // Only the channel is gone: an exchange is missing, for example. Where the order counts and the broker is
                // silent, the whole connection goes: what it still holds must not come after what is sent anew.
                Err(RelayError::Amqp(error))
                    if connection.is_connected() && (road == Road::Due || !error.is_timeout()) =>
                {
                    error
                }
                Err(error) => return Err(error),
            };
            tracing::warn!(road = road.name(), error = %error, "the relay lost its channel, trying again");
            standing.set(road, Some(&format!("{error}; run `fis topology check`")));
            if wait(backoff.delay(), stop).await {
                return Ok(());
            }
        }
    }
}

fn new_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(200), Duration::from_secs(5))
}

/// What each road says of itself; the broker is there when both are well.
pub(super) struct Standing<'a> {
    health: &'a Health,
    roads: Mutex<[Option<Option<String>>; 2]>,
}

impl Standing<'_> {
    /// `None`: well.
    pub fn set(&self, road: Road, why: Option<&str>) {
        let Ok(mut roads) = self.roads.lock() else { return };
        let [ready, due] = &mut *roads;
        match road {
            Road::Ready => *ready = Some(why.map(str::to_owned)),
            Road::Due => *due = Some(why.map(str::to_owned)),
        }
        match (ready, due) {
            (Some(Some(why)), _) | (_, Some(Some(why))) => self.health.away(Part::BrokerOut, why),
            (Some(None), Some(None)) => self.health.back(Part::BrokerOut),
            // Not heard of yet.
            (None, _) | (_, None) => {}
        }
    }
}

/// True: told to stop.
pub(super) async fn wait(duration: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(duration) => false,
        () = stop.cancelled() => true,
    }
}
