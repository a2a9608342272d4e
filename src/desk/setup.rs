//! An empty database and an empty virtual host made ready. A configuration enters; what was done, what failed and what is still missing leave. Each step
//! can be repeated, and one that fails does not keep the next one from being tried.

use super::migration::{self, Migration};
use super::topology::{self, Applied};
use super::{Desk, DeskError};
use crate::platform::amqp::address;
use crate::platform::config::Config;
use crate::platform::postgres::Postgres;
use crate::platform::server_address::ServerAddress;
use crate::store::overview;
use crate::store::schema;

/// The servers that `fis setup` would touch.
#[derive(Debug, Clone)]
pub struct SetupTargets {
    pub postgres: ServerAddress,
    pub broker: ServerAddress,
    pub vhost: String,
}

/// The outcome of each step.
#[derive(Debug)]
pub struct Setup {
    pub migration: Result<Migration, DeskError>,
    pub topology: Result<Vec<Applied>, DeskError>,
    /// The tenants that have books; None where PostgreSQL cannot tell.
    pub tenants: Option<i64>,
}

/// Names the servers that a setup would touch, for whoever is asked to confirm it.
///
/// # Errors
/// An address cannot be read.
pub fn targets(config: &Config) -> Result<SetupTargets, DeskError> {
    let addresses = address::parse(&config.amqp)?;
    Ok(SetupTargets {
        postgres: Postgres::new(&config.database)?.address,
        broker: address::server(&config.amqp, &addresses),
        vhost: addresses.first().map(|address| address.vhost.clone()).unwrap_or_default(),
    })
}

/// Brings the database to this program's version and declares the topology.
pub async fn setup(config: &Config) -> Setup {
    let migration = migrate(config).await;
    let topology = topology::apply(config).await;
    Setup { migration, topology, tenants: tenants(config).await.ok() }
}

/// A database that has the version already is left alone: the service's role may not migrate, and need not.
async fn migrate(config: &Config) -> Result<Migration, DeskError> {
    let postgres = Postgres::new(&config.database)?;
    postgres.reach().await?;
    match schema::check_version(&postgres).await {
        Ok(()) => {
            let version = schema::needed_version();
            Ok(Migration { before: version, after: version })
        }
        Err(schema::SchemaError::Behind { .. }) => migration::migrate(config).await,
        Err(error) => Err(error.into()),
    }
}

async fn tenants(config: &Config) -> Result<i64, DeskError> {
    let desk = Desk::open(config).await?;
    let mut db = desk.postgres.pool.acquire().await?;
    Ok(overview::read(&mut db).await?.tenants)
}
