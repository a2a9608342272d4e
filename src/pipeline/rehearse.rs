//! A rehearsal: messages go the way of real ones through decoding, books, validation and the posting transaction, and then
//! everything is rolled back. No key is claimed, nothing is settled, nothing is announced.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize};
use std::time::Duration;

use tokio::sync::Notify;

use super::{Event, Pipeline};
use crate::domain::ids::TenantId;
use crate::domain::retry::RetryPolicy;
use crate::intake::Lane;
use crate::intake::ledger::Ledger;
use crate::intake::turns::Turns;
use crate::journal::books::BooksShelf;
use crate::journal::{self, PostError, Rehearsal};
use crate::outbox;
use crate::platform::amqp::Delivery;
use crate::platform::config::Config;
use crate::platform::health::Health;
use crate::platform::postgres::Postgres;
use crate::platform::redis::{Redis, RedisError};

impl Pipeline {
    /// A pipeline that only rehearses: it takes no work and touches no Redis.
    ///
    /// # Errors
    /// The address of Redis cannot be read.
    pub fn for_rehearsal(config: &Config, postgres: &Postgres, books: BooksShelf) -> Result<Self, RedisError> {
        let retry = &config.retry;
        Ok(Self {
            postgres: postgres.clone(),
            redis: Redis::new(&config.redis)?,
            books,
            policy: RetryPolicy {
                max_retries: retry.max_retries,
                base_delay_seconds: retry.base_delay_seconds,
                backoff_multiplier: retry.backoff_multiplier,
                max_delay_seconds: retry.max_delay_seconds,
                jitter_seconds: retry.jitter_seconds,
            },
            default_tenant: TenantId::parse(&config.intake.default_tenant).ok(),
            hold: Duration::from_secs(config.intake.hold_seconds),
            posters: 1,
            turns: Turns::new(1, |_| 1),
            ledger: Ledger::default(),
            wake: Arc::new(Notify::new()),
            health: Health::default(),
            in_hand: AtomicUsize::new(0),
            forgiven: AtomicI64::new(0),
        })
    }

    /// What would become of the messages, in this order, if they came now.
    ///
    /// # Errors
    /// The database is away, or the books in force cannot be read.
    pub async fn rehearse(&self, messages: &[Delivery]) -> Result<Rehearsal, PostError> {
        let events: Vec<Event<'_>> = messages.iter().map(|message| self.read(Lane::Backfill, message)).collect();
        let books = self.books.view();
        let items = events.iter().map(|event| self.item(event, &books)).collect();
        journal::rehearse(&self.postgres.pool, items, outbox::properties_text).await
    }
}
