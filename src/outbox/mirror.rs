//! The mirror: for as long as the readers of the feed move to another exchange, every journal event is published there as
//! well, with the same bytes, id, key and properties. It reads the journal by itself and keeps a cursor per tenant, on a
//! connection of its own: whatever the second exchange does, the main feed does not notice.

mod plan;
mod session;
mod settings;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use settings::{MirrorSettings, WrongSetting};

use super::feed::TenantKeys;
use crate::domain::names::MIRROR_OWNER_QUEUE;
use crate::platform::amqp::{AmqpError, Connection};
use crate::platform::config;
use crate::platform::health::{Health, Part};
use crate::platform::metrics;
use crate::platform::postgres::{Postgres, Work};
use crate::platform::time::{self, Backoff};
use crate::store::mirror as store;
use plan::Stuck;

/// The reading of entries and the moving of cursors.
const MIRROR: Work = Work::of("outbox.mirror");
/// After the main feed is told to stop: enough for what was posted last, while a mirror that is stuck or far behind delays the
/// end of the process by no more than this. It goes on at the next start.
const STOP: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
enum MirrorError {
    #[error(transparent)]
    Amqp(#[from] AmqpError),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

pub struct Mirror {
    pub postgres: Postgres,
    pub amqp: config::Amqp,
    pub settings: MirrorSettings,
    /// The interval at which the mirror looks for new entries; the bell of the commits belongs to the relay.
    pub poll: Duration,
    pub tenant_keys: TenantKeys,
    pub health: Health,
}

impl Mirror {
    /// Says at every start that it is on, or that it is over, and remembers where it began. Called before anything is taken from
    /// the lanes, so that the first start mirrors whatever it posts. Where that fails, the session does it later.
    pub async fn begin(&self) {
        let exchange = &self.settings.exchange;
        if self.is_over() {
            tracing::warn!(
                exchange,
                until = self.settings.until_text(),
                "outbox.mirror.until is past: nothing is mirrored to {exchange}; take [outbox.mirror] out of the settings"
            );
            return;
        }
        tracing::warn!(
            exchange,
            until = self.settings.until_text(),
            "every journal event is also published to {exchange}, {}, because outbox.mirror.enabled is on",
            self.settings.until_text()
        );
        if let Err(error) = self.remember_the_heads().await {
            self.fails(&error.to_string(), 0);
        }
    }

    /// Mirrors until `stop`, or until its time is over; then it waits for `stop`.
    pub async fn run(&self, stop: &CancellationToken) {
        let enough = async {
            stop.cancelled().await;
            tokio::time::sleep(STOP).await;
        };
        // What is dropped in the middle of its confirms is sent again at the next start: its cursors have not moved.
        tokio::select! {
            () = self.work(stop) => {}
            () = enough => tracing::warn!("the mirror is behind and goes on at the next start"),
        }
    }

    async fn work(&self, stop: &CancellationToken) {
        if !self.is_over() {
            self.sessions(stop).await;
            if !self.is_over() {
                return;
            }
            self.say_over().await;
        }
        stop.cancelled().await;
    }

    /// Loses its session and builds it anew as often as it takes.
    async fn sessions(&self, stop: &CancellationToken) {
        let mut backoff = new_backoff();
        let mut stuck = Stuck::default();
        loop {
            match self.session(&mut stuck, &mut backoff, stop).await {
                Ok(()) => return,
                Err(error) => self.fails(&error.to_string(), 1),
            }
            if self.rest(backoff.delay(), stop).await {
                return;
            }
        }
    }

    async fn session(
        &self,
        stuck: &mut Stuck,
        backoff: &mut Backoff,
        stop: &CancellationToken,
    ) -> Result<(), MirrorError> {
        self.remember_the_heads().await?;
        let connection = Connection::open_to_own(&self.amqp, "fis mirror").await?;
        let ended = self.own(&connection, stuck, backoff, stop).await;
        connection.close().await;
        ended
    }

    /// Stands by until this connection is the owner's, and mirrors then.
    async fn own(
        &self,
        connection: &Connection,
        stuck: &mut Stuck,
        backoff: &mut Backoff,
        stop: &CancellationToken,
    ) -> Result<(), MirrorError> {
        while !connection.try_own(MIRROR_OWNER_QUEUE).await? {
            // Another instance mirrors for this one.
            self.health.back(Part::Mirror);
            backoff.reset();
            if self.rest(super::stand_by(), stop).await {
                return Ok(());
            }
        }
        tracing::info!(exchange = self.settings.exchange, "mirroring");
        self.channels(connection, stuck, backoff, stop).await
    }

    async fn remember_the_heads(&self) -> Result<(), sqlx::Error> {
        self.postgres.run(MIRROR, async |db| store::begin(db, &self.settings.exchange).await).await
    }

    fn is_over(&self) -> bool {
        self.settings.until.is_some_and(|until| time::now() >= until)
    }

    /// Waits; true: told to stop, or its time is over.
    async fn rest(&self, duration: Duration, stop: &CancellationToken) -> bool {
        let left = self.settings.until.map(|until| (until - time::now()).to_std().unwrap_or_default());
        let stopped = super::wait(left.map_or(duration, |left| left.min(duration)), stop).await;
        stopped || self.is_over()
    }

    /// Counted and told: by the health when it begins, here when the reason becomes another.
    fn fails(&self, why: &str, count: u64) {
        metrics::mirror_failed(count);
        let why = format!("{why} (exchange {})", self.settings.exchange);
        if self.health.is_away(Part::Mirror) && self.health.why(Part::Mirror).as_deref() != Some(why.as_str()) {
            tracing::warn!("the mirror is still away: {why}");
        }
        self.health.away(Part::Mirror, &why);
    }

    async fn say_over(&self) {
        self.health.forget(Part::Mirror);
        let left = self.postgres.run(MIRROR, async |db| store::left(db, &self.settings.exchange).await).await;
        let left = left.map_or_else(|_: sqlx::Error| "an unknown number of".to_owned(), |left| left.to_string());
        let exchange = &self.settings.exchange;
        tracing::warn!(
            exchange,
            until = self.settings.until_text(),
            "outbox.mirror.until is reached: nothing is mirrored to {exchange} any more; {left} entries were left out"
        );
    }
}

fn new_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(200), Duration::from_secs(5))
}
