//! The relay: becomes the owner, opens a channel, and begins anew whenever the broker or the database is lost. One
//! instance relays at a time; which one, the broker decides (`Connection::try_own`), because it is the only one that
//! can keep the messages of a stopped process out. The others stand by.

pub mod flight;
mod floor;
mod parts;
mod session;

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::domain::names::RELAY_OWNER_QUEUE;
use crate::outbox::{stand_by, wait};
use crate::platform::amqp::Connection;
use crate::platform::health::Part;
use crate::platform::postgres::{Work, error_text};
use crate::platform::time::Backoff;
use crate::store::outbox;
pub use parts::Relay;
use parts::RelayError;
use session::Session;

/// The look of an instance that stands by.
const STANDING_BY: Work = Work::of("outbox.standing_by");
/// The interval at which a relay without PostgreSQL looks whether the probe has found it again.
const POSTGRES_LOOK: Duration = Duration::from_millis(200);
/// The time after which a feed of which nothing leaves is nobody's. A stopped owner is replaced after ten seconds, or a little more.
const STILL: Duration = Duration::from_secs(30);

impl Relay {
    /// Relays until `stop`, then until nothing is left that could leave. Loses its session and builds it anew as often as
    /// it takes.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut backoff = new_backoff();
        loop {
            match self.session(stop, &mut backoff).await {
                Ok(()) => return,
                Err(error) => {
                    self.health.relay(false);
                    match &error {
                        RelayError::Amqp(error) => self.health.away(Part::BrokerOut, &error.why()),
                        RelayError::Sql(error) => self.health.away(Part::Postgres, &error_text(error)),
                    }
                    tracing::debug!(error = %error, "the relay lost its session, trying again");
                }
            }
            if wait(backoff.delay(), stop).await {
                return;
            }
            // Whoever cannot read the outbox would take the relay from an instance that can, and lose it at once.
            while self.health.is_away(Part::Postgres) {
                if wait(POSTGRES_LOOK, stop).await {
                    return;
                }
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
        let (mut watch, mut is_told) = (Watch::default(), false);
        while !connection.try_own(RELAY_OWNER_QUEUE).await? {
            // Another instance relays for this one, which may take work, as long as what is there leaves.
            if self.stands_still(&mut watch).await {
                self.health.away(Part::BrokerOut, &nobody_relays());
            } else {
                self.health.back(Part::BrokerOut);
            }
            if !std::mem::replace(&mut is_told, true) {
                tracing::info!("standing by: another instance relays");
            }
            self.health.relay(false);
            backoff.reset();
            if wait(stand_by(), stop).await {
                return Ok(());
            }
        }
        // Whoever cannot read the outbox does not relay.
        self.postgres.run(STANDING_BY, outbox::oldest).await?;
        tracing::info!("relaying");
        self.health.relay(true);
        self.channels(connection, backoff, stop).await?;
        self.health.relay(false);
        Ok(())
    }

    /// Tells whether nothing leaves though something is there. While PostgreSQL does not answer, nobody can tell.
    async fn stands_still(&self, watch: &mut Watch) -> bool {
        if self.health.is_away(Part::Postgres) {
            return false;
        }
        let oldest = self.postgres.run(STANDING_BY, outbox::oldest).await;
        oldest.is_ok_and(|oldest| watch.stands_still(oldest, Instant::now()))
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
            tracing::debug!(error = %error, "the relay lost its channel, trying again");
            self.health.away(Part::BrokerOut, &format!("{}; run `fis topology check`", error.why()));
            if wait(backoff.delay(), stop).await {
                return Ok(());
            }
        }
    }
}

fn nobody_relays() -> String {
    format!(
        "nobody relays: the oldest announcement has waited for {} s, and the queue {RELAY_OWNER_QUEUE}, which says who relays, is taken; \
         `rabbitmqctl list_queues name durable owner_pid` shows by whom, and a durable one is not ours: delete it",
        STILL.as_secs()
    )
}

/// What an instance that stands by sees of the feed.
#[derive(Default)]
struct Watch {
    /// The oldest row, and since when it is that one.
    oldest: Option<(i64, Instant)>,
}

impl Watch {
    /// Tells whether nothing has left for a while though something is there. A long backlog that moves is none of its business.
    fn stands_still(&mut self, oldest: Option<i64>, now: Instant) -> bool {
        let since = |id: i64| self.oldest.filter(|(before, _)| *before == id).map_or(now, |(_, since)| since);
        self.oldest = oldest.map(|id| (id, since(id)));
        self.oldest.is_some_and(|(_, since)| now.duration_since(since) >= STILL)
    }
}

fn new_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(200), Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_stands_still_while_its_oldest_row_stays() {
        let (mut watch, began) = (Watch::default(), Instant::now());
        let mut at = |seconds, oldest| watch.stands_still(oldest, began + Duration::from_secs(seconds));
        assert!(!at(0, None) && !at(100, None), "nothing is there");
        assert!(!at(101, Some(1)) && !at(130, Some(1)) && at(131, Some(1)) && at(140, Some(1)));
        assert!(!at(141, Some(2)) && !at(170, Some(2)), "it moved");
        assert!(!at(171, Some(3)) && !at(172, None) && !at(210, Some(3)), "it was empty in between");
    }
}
