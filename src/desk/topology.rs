//! The broker's topology: declared, compared, drawn. A configuration enters; what was created, and every difference with its remedy, leave.
//! Declaring never takes anything away. No database is needed.

use super::DeskError;
use crate::outbox::MirrorSettings;
use crate::platform::amqp::Connection;
use crate::platform::amqp::management::Management;
use crate::platform::amqp::topology::{Arguments, Exchange, Topology, draw, is_lossy, report};
use crate::platform::config::Config;

pub use crate::platform::amqp::topology::{Applied, Finding, Outcome};

/// The differences between the broker and the topology.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TopologyCheck {
    pub findings: Vec<Finding>,
    /// Messages could be lost: `fis run` would not start.
    pub lossy: bool,
}

impl TopologyCheck {
    /// The differences as text for people, the worst first.
    #[must_use]
    pub fn report(&self) -> String {
        report(&self.findings)
    }
}

/// The topology as a drawing.
///
/// # Errors
/// A setting of the mirror cannot be meant.
pub fn drawing(config: &Config) -> Result<String, DeskError> {
    Ok(draw(&needed(config)?))
}

/// Declares everything, in the order that cannot lose.
///
/// # Errors
/// The broker is away or refuses.
pub async fn apply(config: &Config) -> Result<Vec<Applied>, DeskError> {
    let topology = needed(config)?;
    let connection = Connection::open(&config.amqp, "fis topology").await?;
    let applied = connection.apply_topology(&topology).await;
    connection.close().await;
    Ok(applied?)
}

/// Compares the broker with what is needed.
///
/// # Errors
/// The broker is away or refuses to be asked.
pub async fn check(config: &Config) -> Result<TopologyCheck, DeskError> {
    let topology = needed(config)?;
    let management = Management::of(&config.amqp)?;
    let connection = Connection::open(&config.amqp, "fis topology").await?;
    let findings = connection.check_topology(&topology, Some(&management)).await;
    connection.close().await;
    let findings = findings?;
    Ok(TopologyCheck { lossy: is_lossy(&findings), findings })
}

/// The topology of fis with the exchange of `outbox.mirror`, where that is on. `fis run` does without that exchange and tries again, so
/// it asks for it nowhere.
fn needed(config: &Config) -> Result<Topology, DeskError> {
    let mut topology = Topology::embedded()?;
    let mirror = MirrorSettings::of(&config.outbox.mirror, &topology)
        .map_err(|wrong| DeskError::Setting { why: format!("setting `{}`: {}", wrong.name, wrong.reason) })?;
    topology.exchanges.extend(mirror.map(|settings| Exchange {
        name: settings.exchange,
        vhost: topology.vhost.clone(),
        kind: config.outbox.mirror.kind.clone(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
    }));
    Ok(topology)
}
