//! The mirror's place among the tasks: settings enter; where a second exchange is asked for, a task that publishes to it leaves.

use std::time::Duration;

use super::ServiceError;
use super::tasks::Tasks;
use crate::outbox::{Mirror, MirrorSettings, TenantKeys};
use crate::pipeline::Edges;
use crate::platform::amqp::topology::Topology;
use crate::platform::config::Config;

/// `None`: there is no mirror.
///
/// # Errors
/// A setting cannot be meant.
pub(super) fn settings(config: &Config, topology: &Topology) -> Result<Option<MirrorSettings>, ServiceError> {
    MirrorSettings::of(&config.outbox.mirror, topology)
        .map_err(|wrong| ServiceError::Setting { name: wrong.name, reason: wrong.reason })
}

/// Before anything is taken from the lanes, so that the mirror's beginning comes before what this run posts.
pub(super) async fn start(settings: MirrorSettings, config: &Config, edges: &Edges, tasks: &mut Tasks) {
    let mirror = Mirror {
        postgres: edges.postgres.clone(),
        amqp: config.amqp.clone(),
        settings,
        poll: Duration::from_millis(config.outbox.poll_ms),
        tenant_keys: TenantKeys(config.outbox.tenant_keys),
        health: edges.health.clone(),
    };
    mirror.begin().await;
    let stop = tasks.then.clone();
    tasks.spawn("mirror", async move { mirror.run(&stop).await });
}
