//! The database's version: brought to this program's. A configuration enters, the versions before and after leave.

use super::DeskError;
use crate::platform::config::Config;
use crate::platform::postgres::Postgres;
use crate::store::schema;

/// The database's version before and after a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    pub before: i64,
    pub after: i64,
}

/// Brings the database to this program's version.
///
/// # Errors
/// The database is away, newer than this program, or a migration fails; the ones before it stay.
pub async fn migrate(config: &Config) -> Result<Migration, DeskError> {
    let postgres = Postgres::new(&config.database)?;
    postgres.reach().await?;
    let (before, after) = schema::migrate(&postgres).await?;
    Ok(Migration { before, after })
}
