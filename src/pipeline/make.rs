//! A pipeline from the configuration and its edges.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize};
use std::time::Duration;

use tokio::sync::Notify;

use super::Pipeline;
use super::ahead::Ahead;
use super::claim::Keys;
use super::map::Mapper;
use super::post::Poster;
use super::read::Reader;
use super::rejections::RejectionLog;
use crate::domain::ids::TenantId;
use crate::domain::retry::RetryPolicy;
use crate::intake::Lane;
use crate::intake::ledger::LedgerEpoch;
use crate::intake::publishers::Publishers;
use crate::intake::roads::Strays;
use crate::intake::turns::Turns;
use crate::journal::books::BooksShelf;
use crate::outbox::Handover;
use crate::platform::config::Config;
use crate::platform::health::Health;
use crate::platform::postgres::Postgres;
use crate::platform::redis::Redis;

/// The relay, the parking, the books and the probe have connections of their own.
const OTHER_CONNECTIONS: usize = 3;

/// The edges of a pipeline: what the service's other tasks use as well.
#[derive(Clone)]
pub struct Edges {
    pub postgres: Postgres,
    pub redis: Redis,
    pub books: BooksShelf,
    pub default_tenant: Option<TenantId>,
    pub publishers: Publishers,
    pub strays: Arc<Strays>,
    pub handover: Arc<Handover>,
    pub health: Health,
}

impl Pipeline {
    #[must_use]
    pub fn new(config: &Config, edges: Edges) -> Self {
        let (retry, intake) = (&config.retry, &config.intake);
        let connections = usize::try_from(config.database.connections_max).unwrap_or(usize::MAX);
        let posters = usize::from(intake.posters).min(connections.saturating_sub(OTHER_CONNECTIONS).max(1));
        let policy = RetryPolicy {
            max_retries: retry.max_retries,
            base_delay_seconds: retry.base_delay_seconds,
            backoff_multiplier: retry.backoff_multiplier,
            max_delay_seconds: retry.max_delay_seconds,
            jitter_seconds: retry.jitter_seconds,
        };
        let turns = Turns::new(posters, |lane| match lane {
            Lane::Urgent => intake.weight_urgent,
            Lane::Live => intake.weight_live,
            Lane::Backfill | Lane::Inbox => intake.weight_backfill,
        });
        let hold = Duration::from_secs(intake.hold_seconds);
        Self {
            reader: Reader {
                default_tenant: edges.default_tenant,
                publishers: edges.publishers,
                strays: edges.strays,
                forgiven: AtomicI64::new(0),
            },
            keys: Keys { redis: edges.redis, ledger: LedgerEpoch::default() },
            mapper: Mapper { books: edges.books, policy },
            poster: Poster { posters, turns, ahead: Ahead::default(), hold },
            handover: edges.handover,
            postgres: edges.postgres,
            health: edges.health,
            in_hand: AtomicUsize::new(0),
            rejections: RejectionLog::default(),
            due: Notify::new(),
        }
    }
}
