//! The mirror's place among the tasks: settings enter; where a second exchange is asked for, a task that publishes to it leaves.

use std::sync::Arc;
use std::time::Duration;

use super::tasks::Tasks;
use super::{Journal, Parts, ServiceError};
use crate::outbox::{Mirror, MirrorSettings};
use crate::platform::amqp::topology::Topology;
use crate::platform::config::Config;
use crate::platform::health::Health;

/// `None`: there is no mirror.
///
/// # Errors
/// A setting cannot be meant.
pub(super) fn settings(config: &Config) -> Result<Option<MirrorSettings>, ServiceError> {
    let topology = Topology::embedded().map_err(|error| ServiceError::Topology(error.to_string()))?;
    MirrorSettings::of(&config.outbox.mirror, &topology)
        .map_err(|wrong| ServiceError::Setting { name: wrong.name, reason: wrong.reason })
}

/// Before anything is taken from the lanes, so that the mirror's beginning comes before what this run posts.
pub(super) async fn start(
    settings: MirrorSettings,
    config: &Config,
    parts: &Parts,
    health: &Health,
    tasks: &mut Tasks,
) {
    let mirror = Mirror {
        postgres: parts.postgres.clone(),
        amqp: config.amqp.clone(),
        settings,
        poll: Duration::from_millis(config.outbox.poll_ms),
        health: health.clone(),
        entries: Arc::new(Journal),
    };
    mirror.begin().await;
    let stop = tasks.then.clone();
    tasks.spawn("mirror", async move { mirror.run(&stop).await });
}
