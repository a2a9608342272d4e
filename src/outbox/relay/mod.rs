//! The relay: becomes the owner, opens the two roads out, and begins anew whenever the broker or the database is lost. One
//! instance relays at a time; which one, the broker decides (`Connection::try_own`), because it is the only one that
//! can keep the messages of a stopped process out. The others stand by.

pub mod flight;
mod floor;
mod parts;
mod session;

use std::sync::Mutex;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::names::RELAY_OWNER_QUEUE;
use crate::outbox::{stand_by, wait};
use crate::platform::amqp::Connection;
use crate::platform::health::Part;
use crate::platform::metrics;
use crate::platform::time::Backoff;
use crate::store::outbox::Road;
pub use parts::Relay;
use parts::{RelayError, RoadHealth};
use session::Session;

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
            if wait(stand_by(), stop).await {
                connection.close().await;
                return Ok(());
            }
        }
        let roads = RoadHealth { health: &self.health, told: Mutex::default() };
        tracing::info!("relaying");
        metrics::relaying(true);
        // Each road has its own channel and its own patience: a full backfill lane does not slow the live feed.
        let mut due_backoff = new_backoff();
        let ended = tokio::try_join!(
            self.road(Road::Ready, &connection, &roads, backoff, stop),
            self.road(Road::Due, &connection, &roads, &mut due_backoff, stop),
        );
        connection.close().await;
        ended.map(|_| metrics::relaying(false))
    }

    /// Keeps one road open for as long as the connection lives.
    async fn road(
        &self,
        road: Road,
        connection: &Connection,
        roads: &RoadHealth<'_>,
        backoff: &mut Backoff,
        stop: &CancellationToken,
    ) -> Result<(), RelayError> {
        loop {
            let ended = match Session::open(self, road, connection, roads).await {
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
            roads.set(road, Some(&format!("{error}; run `fis topology check`")));
            if wait(backoff.delay(), stop).await {
                return Ok(());
            }
        }
    }
}

fn new_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(200), Duration::from_secs(5))
}
