//! The parts of the relay that its sessions use: the settings and the errors.

use std::sync::Arc;
use std::time::Duration;

use crate::outbox::feed::TenantKeys;
use crate::outbox::handover::Handover;
use crate::platform::amqp::AmqpError;
use crate::platform::config;
use crate::platform::health::Health;
use crate::platform::postgres::Postgres;

#[derive(Debug, thiserror::Error)]
pub(super) enum RelayError {
    #[error(transparent)]
    Amqp(#[from] AmqpError),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

/// The relay of one instance.
pub struct Relay {
    pub postgres: Postgres,
    pub amqp: config::Amqp,
    pub window: usize,
    pub poll: Duration,
    pub tenant_keys: TenantKeys,
    pub health: Health,
    /// The bell and the entries of the commits of this process.
    pub handover: Arc<Handover>,
}
