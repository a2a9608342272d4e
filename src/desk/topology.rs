//! The broker's topology: declared, compared, drawn. A configuration enters; what was created, and every difference with its remedy, leave.
//! Declaring takes nothing away but bindings of tenants' queues, and only those that nothing depends on any more. A database is needed only to tell whether the virtual host belongs to its ledger.

use super::DeskError;
use crate::domain::names::{LEDGER_EXCHANGE, TENANT_QUEUES};
use crate::intake::tenant_queues::{TenantQueue, TenantQueues};
use crate::outbox::MirrorSettings;
use crate::platform::amqp::management::{Management, ManagementError};
use crate::platform::amqp::topology::{
    Arguments, Belongs, Exchange, Severity, Topology, TopologyError, draw, is_lossy, report,
};
use crate::platform::amqp::{AmqpError, Connection, ReplyCode};
use crate::platform::config::Config;
use crate::platform::postgres::{Postgres, Work};
use crate::store::ledger;

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
    let management = Management::of(&config.amqp)?;
    let connection = Connection::open(&config.amqp, "fis topology").await?;
    let applied = declare(&connection, &topology, &management).await;
    connection.close().await;
    Ok(applied?)
}

async fn declare(
    connection: &Connection,
    topology: &Topology,
    management: &Management,
) -> Result<Vec<Applied>, TopologyError> {
    let mut applied = connection.apply_topology(topology).await?;
    applied.extend(connection.sweep_topology(topology, management).await?);
    Ok(applied)
}

/// Compares the broker with what is needed.
///
/// # Errors
/// The broker is away or refuses to be asked.
pub async fn check(config: &Config) -> Result<TopologyCheck, DeskError> {
    let topology = needed(config)?;
    let management = Management::of(&config.amqp)?;
    let connection = Connection::open(&config.amqp, "fis topology").await?;
    let findings = look(config, &connection, &topology, &management).await;
    connection.close().await;
    let findings = findings?;
    Ok(TopologyCheck { lossy: is_lossy(&findings), findings })
}

async fn look(
    config: &Config,
    connection: &Connection,
    topology: &Topology,
    management: &Management,
) -> Result<Vec<Finding>, DeskError> {
    let mut findings = connection.check_topology(topology, Some(management)).await?;
    findings.extend(left_over_findings(management, &tenant_queues(config)?).await);
    match connection.find_exchange(LEDGER_EXCHANGE).await {
        Ok(()) => {}
        // Nobody's yet: the first start makes it its ledger's.
        Err(AmqpError::Broker { code: Some(ReplyCode::NotFound), .. }) => return Ok(findings),
        Err(error) => return Err(error.into()),
    }
    findings.extend(match own_ledger(config).await {
        Ok(ledger) => match take_virtual_host(connection, &ledger).await {
            Err(error) if error.code() == Some(ReplyCode::AccessRefused) => Some(unseen(&error.to_string())),
            taken => taken?,
        },
        Err(why) => Some(unseen(&why)),
    });
    Ok(findings)
}

/// The queues of tenants who have none any more.
///
/// # Errors
/// The management API does not answer; nothing else lists queues.
pub async fn left_over_queues(
    management: &Management,
    tenants: &TenantQueues,
) -> Result<Vec<TenantQueue>, ManagementError> {
    Ok(tenants.left_over(&management.queue_names(TENANT_QUEUES).await?))
}

/// Without the management API there are none to tell; that it does not answer has been told with the bindings.
async fn left_over_findings(management: &Management, tenants: &TenantQueues) -> Vec<Finding> {
    let mut findings = Vec::new();
    for queue in left_over_queues(management, tenants).await.unwrap_or_default() {
        let counts = management.queue_counts(&queue.name()).await.ok().flatten();
        let messages =
            counts.map_or("an unknown number of".to_owned(), |counts| (counts.ready + counts.unacked).to_string());
        findings.push(Finding {
            object: format!("queue {}", queue.name()),
            expected: format!("none, because tenant {} is not in `intake.tenant_queues`", queue.tenant),
            found: format!("exists, with {messages} messages"),
            remedy: format!(
                "fis run drains it for as long as it is there; when it is empty, delete it:\n\
                 rabbitmqctl delete_queue --vhost '{}' '{}'",
                management.vhost(),
                queue.name()
            ),
            severity: Severity::Differs,
        });
    }
    findings
}

async fn own_ledger(config: &Config) -> Result<String, String> {
    let postgres = Postgres::new(&config.database).map_err(|error| error.to_string())?;
    let identity =
        postgres.run(Work::of("desk.topology"), ledger::identity).await.map_err(|error| error.to_string())?;
    identity.ok_or_else(|| "the table fis_ledger is empty".to_owned())
}

/// Makes the virtual host that of a ledger; where it belongs to another one, that is what is found.
///
/// # Errors
/// The broker is away or refuses to be asked.
pub async fn take_virtual_host(connection: &Connection, ledger: &str) -> Result<Option<Finding>, TopologyError> {
    let Belongs::ToAnother(other) = connection.take_virtual_host(LEDGER_EXCHANGE, ledger).await? else {
        return Ok(None);
    };
    Ok(Some(Finding {
        object: "virtual host".to_owned(),
        expected: format!("belongs to the ledger {ledger}, which is that of this database (table fis_ledger)"),
        found: format!(
            "belongs to the ledger {}: the exchange {LEDGER_EXCHANGE} names it as its alternate exchange",
            other.as_deref().unwrap_or("of another database")
        ),
        remedy: format!(
            "two ledgers on one virtual host would share its events out between them: give this one a virtual host of its own (`amqp.url`), or \
             its own database (`database.url`)\n\
             only where that other ledger is gone for good: delete {LEDGER_EXCHANGE} on the management page (Exchanges), then start fis"
        ),
        severity: Severity::Lossy,
    }))
}

fn unseen(why: &str) -> Finding {
    Finding {
        object: "virtual host".to_owned(),
        expected: "belongs to the ledger of this database".to_owned(),
        found: format!(
            "belongs to a ledger, by the exchange {LEDGER_EXCHANGE}; whether it is this one could not be asked\n{why}"
        ),
        remedy: "make the database reachable, with a user that may configure that exchange, and check again".to_owned(),
        severity: Severity::Unverified,
    }
}

/// The tenants with queues of their own, by the configuration.
pub(super) fn tenant_queues(config: &Config) -> Result<TenantQueues, DeskError> {
    TenantQueues::parse(&config.intake.tenant_queues)
        .map_err(|wrong| DeskError::Setting { why: format!("setting `intake.tenant_queues`: {wrong}") })
}

/// The topology of fis with the tenants' queues, and with the exchange of `outbox.mirror`, where that is on. `fis run` does without that exchange and tries again, so
/// it asks for it nowhere.
fn needed(config: &Config) -> Result<Topology, DeskError> {
    let mut topology = tenant_queues(config)?.laid_over(Topology::embedded()?);
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
