//! The relay: becomes the owner, opens a channel, and begins anew whenever the broker or the database is lost. One
//! instance relays at a time; which one, the broker decides (`Connection::try_own`), because it is the only one that
//! can keep the messages of a stopped process out. The others stand by.

pub mod flight;
mod floor;
mod parts;
mod session;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::names::RELAY_OWNER_QUEUE;
use crate::outbox::{stand_by, wait};
use crate::platform::amqp::Connection;
use crate::platform::health::Part;
use crate::platform::metrics;
use crate::platform::time::Backoff;
pub use parts::Relay;
use parts::RelayError;
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
        let ended = self.own(&connection, backoff, stop).await;
        connection.close().await;
        ended
    }

    /// Stands by until this connection is the owner's, and relays then.
    async fn own(
        &self,
        connection: &Connection,
        backoff: &mut Backoff,
        stop: &CancellationToken,
    ) -> Result<(), RelayError> {
        while !connection.try_own(RELAY_OWNER_QUEUE).await? {
            // Another instance relays for this one, which may take work.
            self.health.back(Part::BrokerOut);
            metrics::relaying(false);
            backoff.reset();
            if wait(stand_by(), stop).await {
                return Ok(());
            }
        }
        tracing::info!("relaying");
        metrics::relaying(true);
        self.channels(connection, backoff, stop).await?;
        metrics::relaying(false);
        Ok(())
    }

    /// Keeps a channel open for as long as the connection lives.
    async fn channels(
        &self,
        connection: &Connection,
        backoff: &mut Backoff,
        stop: &CancellationToken,
    ) -> Result<(), RelayError> {
        loop {
            let ended = match Session::open(self, connection).await {
                Ok(mut session) => session.run(backoff, stop).await,
                Err(error) => Err(error),
            };
            let error = match ended {
                Ok(()) => return Ok(()),
                // Only the channel is gone: an exchange is missing, for example. Where the broker is silent, the whole
                // connection goes: what it still holds must not come after what is sent anew.
                Err(RelayError::Amqp(error)) if connection.is_connected() && !error.is_timeout() => error,
                Err(error) => return Err(error),
            };
            tracing::warn!(error = %error, "the relay lost its channel, trying again");
            self.health.away(Part::BrokerOut, &format!("{error}; run `fis topology check`"));
            if wait(backoff.delay(), stop).await {
                return Ok(());
            }
        }
    }
}

fn new_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(200), Duration::from_secs(5))
}
