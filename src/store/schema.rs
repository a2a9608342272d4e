//! The schema and its version: `migrations/` enters a database here, and a program meets no other version than its own.

use sqlx::migrate::Migrator;
use sqlx::{PgPool, Row};

use crate::platform::postgres::{Postgres, error_text};

static MIGRATOR: Migrator = sqlx::migrate!();
/// The grants to the roles of ops/roles.sql, table by table (ADR 43).
const RIGHTS: &str = include_str!("rights.sql");

#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("the database is at version {found}, this program needs {needed}: run {}", remedy(*.found))]
    Behind { found: i64, needed: i64 },
    #[error("the database is at version {found}, newer than this program, which knows {needed}: run a newer fis")]
    Ahead { found: i64, needed: i64 },
    #[error("migration {version} was changed after it ran here: this database does not belong to this program")]
    Changed { version: i64 },
    // Not as its source: whoever prints the causes, too, would say everything twice.
    #[error("PostgreSQL {}", error_text(.0))]
    Sql(sqlx::Error),
    #[error("a migration failed")]
    Migrate(#[from] sqlx::migrate::MigrateError),
}

impl From<sqlx::Error> for SchemaError {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

/// An empty database belongs to somebody who begins.
fn remedy(found: i64) -> &'static str {
    if found == 0 { "`fis setup`, or `fis migrate`" } else { "`fis migrate`" }
}

/// Brings the database to this program's version, and the rights of its roles up to date; returns the versions before and after.
///
/// # Errors
/// A migration fails; the ones before it stay.
pub async fn migrate(postgres: &Postgres) -> Result<(i64, i64), SchemaError> {
    let before = version(&postgres.pool).await?;
    check_applied(&postgres.pool, before).await?;
    if before > needed_version() {
        return Err(SchemaError::Ahead { found: before, needed: needed_version() });
    }
    // A migration of a large table takes longer than any statement of the service may.
    let mut connection = postgres.pool.acquire().await?.detach();
    sqlx::query("set statement_timeout = 0").execute(&mut connection).await?;
    sqlx::query("set lock_timeout = 0").execute(&mut connection).await?;
    MIGRATOR.run(&mut connection).await?;
    sqlx::raw_sql(RIGHTS).execute(&mut connection).await?;
    Ok((before, version(&postgres.pool).await?))
}

/// Refuses a database of another version.
///
/// # Errors
/// The schema is behind, ahead, or not ours.
pub async fn check_version(postgres: &Postgres) -> Result<(), SchemaError> {
    let (found, needed) = (version(&postgres.pool).await?, needed_version());
    check_applied(&postgres.pool, found).await?;
    match found.cmp(&needed) {
        std::cmp::Ordering::Less => Err(SchemaError::Behind { found, needed }),
        std::cmp::Ordering::Greater => Err(SchemaError::Ahead { found, needed }),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

/// Refuses a database in which another text ran under the number of one of our migrations. Asked before the versions are compared: such a database is
/// neither behind nor ahead, whatever its number says.
async fn check_applied(pool: &PgPool, found: i64) -> Result<(), SchemaError> {
    if found == 0 {
        return Ok(());
    }
    let applied = sqlx::query("select version, checksum from _sqlx_migrations where success order by version");
    for row in applied.fetch_all(pool).await? {
        let (version, checksum): (i64, Vec<u8>) = (row.try_get("version")?, row.try_get("checksum")?);
        let ours = MIGRATOR.iter().find(|migration| migration.version == version);
        if ours.is_some_and(|migration| migration.checksum.as_ref() != checksum) {
            return Err(SchemaError::Changed { version });
        }
    }
    Ok(())
}

async fn version(pool: &PgPool) -> Result<i64, sqlx::Error> {
    let exists: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null").fetch_one(pool).await?;
    if !exists {
        return Ok(0);
    }
    sqlx::query_scalar("select coalesce(max(version), 0) from _sqlx_migrations where success").fetch_one(pool).await
}

/// The version that this program needs.
#[must_use]
pub fn needed_version() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0)
}
