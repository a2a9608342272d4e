//! A pipeline from the configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize};
use std::time::Duration;

use tokio::sync::Notify;

use super::Pipeline;
use super::ahead::Ahead;
use crate::domain::ids::TenantId;
use crate::domain::retry::RetryPolicy;
use crate::intake::Lane;
use crate::intake::ledger::Ledger;
use crate::intake::turns::Turns;
use crate::journal::books::BooksShelf;
use crate::platform::config::Config;
use crate::platform::health::Health;
use crate::platform::postgres::Postgres;
use crate::platform::redis::Redis;

/// The relay, the parking, the books and the probe have connections of their own.
const OTHER_CONNECTIONS: usize = 3;

impl Pipeline {
    #[must_use]
    pub fn new(
        config: &Config,
        postgres: Postgres,
        redis: Redis,
        books: BooksShelf,
        default_tenant: Option<TenantId>,
        health: Health,
    ) -> Self {
        let (retry, intake) = (&config.retry, &config.intake);
        let connections = usize::try_from(config.database.connections_max).unwrap_or(usize::MAX);
        let posters = usize::from(intake.posters).min(connections.saturating_sub(OTHER_CONNECTIONS).max(1));
        Self {
            postgres,
            redis,
            books,
            policy: RetryPolicy {
                max_retries: retry.max_retries,
                base_delay_seconds: retry.base_delay_seconds,
                backoff_multiplier: retry.backoff_multiplier,
                max_delay_seconds: retry.max_delay_seconds,
                jitter_seconds: retry.jitter_seconds,
            },
            default_tenant,
            hold: Duration::from_secs(intake.hold_seconds),
            posters,
            turns: Turns::new(posters, |lane| match lane {
                Lane::Urgent => intake.weight_urgent,
                Lane::Live => intake.weight_live,
                Lane::Backfill => intake.weight_backfill,
            }),
            ahead: Ahead::default(),
            ledger: Ledger::default(),
            wake: Arc::new(Notify::new()),
            recent: Arc::default(),
            health,
            in_hand: AtomicUsize::new(0),
            forgiven: AtomicI64::new(0),
        }
    }
}
