//! The parts of the relay that its sessions use: the settings, the errors, and the health of the two roads.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::outbox::handover::Handover;
use crate::platform::amqp::AmqpError;
use crate::platform::config;
use crate::platform::health::{Health, Part};
use crate::platform::postgres::Postgres;
use crate::store::outbox::Road;

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
    pub health: Health,
    /// The bell and the entries of the commits of this process.
    pub handover: Arc<Handover>,
}

/// The health of the two roads; the broker is there when both are well.
pub(super) struct RoadHealth<'a> {
    pub health: &'a Health,
    pub told: Mutex<[Option<Option<String>>; 2]>,
}

impl RoadHealth<'_> {
    /// `None`: well.
    pub fn set(&self, road: Road, why: Option<&str>) {
        let Ok(mut roads) = self.told.lock() else { return };
        let [ready, due] = &mut *roads;
        match road {
            Road::Ready => *ready = Some(why.map(str::to_owned)),
            Road::Due => *due = Some(why.map(str::to_owned)),
        }
        match (ready, due) {
            (Some(Some(why)), _) | (_, Some(Some(why))) => self.health.away(Part::BrokerOut, why),
            (Some(None), Some(None)) => self.health.back(Part::BrokerOut),
            // Not heard of yet.
            (None, _) | (_, None) => {}
        }
    }
}
