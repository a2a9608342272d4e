//! A rehearsal is a step of a replay that is rolled back: messages go the way of the inbox through decoding, books, validation and the posting transaction, and then
//! everything is rolled back. No key is claimed, nothing is settled, nothing is announced.

use std::sync::Arc;

use super::message::WaitingMessage;
use super::read::Event;
use super::{Edges, Pipeline};
use crate::domain::ids::TenantId;
use crate::intake::publishers::Publishers;
use crate::journal::books::{BooksError, BooksShelf};
use crate::journal::{self, PostError, Rehearsal};
use crate::outbox::{self, Handover};
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
        let edges = Edges {
            postgres: postgres.clone(),
            redis: Redis::new(&config.redis)?,
            books,
            default_tenant: TenantId::parse(&config.intake.default_tenant).ok(),
            // A wrong list stops the service; here nothing is decided by it.
            publishers: Publishers::parse(&config.intake.publishers).unwrap_or_default(),
            strays: Arc::default(),
            handover: Arc::new(Handover::default()),
            health: Health::default(),
        };
        Ok(Self::new(config, edges))
    }

    /// The verdicts and entries to which the messages would come, in this order, if they came now.
    ///
    /// # Errors
    /// The database is away, or the books in force cannot be read.
    pub async fn rehearse(&self, messages: &[WaitingMessage]) -> Result<Rehearsal, PostError> {
        let events: Vec<Event<'_>> = self.reader.read_all_waiting(messages).await;
        let items = self.mapper.items(&events.iter().collect::<Vec<_>>()).await;
        journal::rehearse(&self.postgres.pool, items, outbox::properties_text).await
    }

    /// Looks for newer books, after a rehearsal that found its own out of date. True where there were.
    ///
    /// # Errors
    /// The database is away.
    pub async fn refresh_books(&self) -> Result<bool, BooksError> {
        self.mapper.books.refresh(&self.postgres).await
    }
}
