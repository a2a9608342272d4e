//! A rehearsal: messages go the way of real ones through decoding, books, validation and the posting transaction, and then
//! everything is rolled back. No key is claimed, nothing is settled, nothing is announced.

use super::{Event, Pipeline};
use crate::domain::ids::TenantId;
use crate::intake::Lane;
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
        let (redis, tenant) = (Redis::new(&config.redis)?, TenantId::parse(&config.intake.default_tenant).ok());
        Ok(Self::new(config, postgres.clone(), redis, books, tenant, Health::default()))
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
