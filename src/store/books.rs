//! The versions of every tenant's books, exactly as they were applied. A version never changes; which one is in force, the tenant's head says.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor, PgPool};

use crate::domain::ids::TenantId;

/// A version of a tenant's books, as text; an empty one where a head names a version that is not there.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct BooksSource {
    pub tenant_id: String,
    pub version: i32,
    pub source: String,
}

/// The books in force of every tenant whose version is not the known one; tenants and known versions side by side.
///
/// # Errors
/// The database is away.
pub async fn newer(
    db: &mut PgConnection,
    tenants: &[String],
    versions: &[i32],
) -> Result<Vec<BooksSource>, sqlx::Error> {
    sqlx::query_as(
        "select h.tenant_id, h.books_version as version, coalesce(b.source, '') as source
           from fis_chain_head h
           left join fis_books b on b.tenant_id = h.tenant_id and b.version = h.books_version
           left join unnest($1::text[], $2::integer[]) as known (tenant_id, version) on known.tenant_id = h.tenant_id
          where known.version is distinct from h.books_version",
    )
    .bind(tenants)
    .bind(versions)
    .fetch_all(db)
    .await
}

/// Those of these tenants that the ledger does not know any more.
///
/// # Errors
/// The database is away.
pub async fn gone(db: &mut PgConnection, tenants: &[String]) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select known from unnest($1::text[]) as known where not exists (select from fis_chain_head where tenant_id = known)",
    )
    .bind(tenants)
    .fetch_all(db)
    .await
}

/// The text of one version; an empty one where there is no such version.
///
/// # Errors
/// The database is away.
pub async fn source(db: &mut PgConnection, tenant: &TenantId, version: i32) -> Result<String, sqlx::Error> {
    let source: Option<String> =
        sqlx::query_scalar("select source from fis_books where tenant_id = $1 and version = $2")
            .bind(tenant.as_str())
            .bind(version)
            .fetch_optional(db)
            .await?;
    Ok(source.unwrap_or_default())
}

/// Stores a new version.
///
/// # Errors
/// The database is away.
pub async fn insert(
    db: &mut PgConnection,
    tenant: &TenantId,
    version: i32,
    source: &str,
    by: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("insert into fis_books (tenant_id, version, source, applied_by) values ($1, $2, $3, $4)")
        .bind(tenant.as_str())
        .bind(version)
        .bind(source)
        .bind(by)
        .execute(db)
        .await?;
    Ok(())
}

/// The accounts of a tenant that have lines.
///
/// # Errors
/// The database is away.
pub async fn used_accounts(db: &mut PgConnection, tenant: &TenantId) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar("select distinct account_code from fis_account_balance where tenant_id = $1 order by 1")
        .bind(tenant.as_str())
        .fetch_all(db)
        .await
}

/// One version as it was applied.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct StoredBooks {
    pub version: i32,
    pub applied_at: DateTime<Utc>,
    pub applied_by: String,
    pub source: String,
}

/// A version of a tenant's books, else the one in force, also where that one is not there: then its text is empty.
///
/// # Errors
/// The database is away.
pub async fn read(
    db: impl PgExecutor<'_>,
    tenant: &str,
    version: Option<i32>,
) -> Result<Option<StoredBooks>, sqlx::Error> {
    sqlx::query_as(
        "select coalesce(b.version, h.books_version) as version, coalesce(b.applied_at, 'epoch') as applied_at,
                coalesce(b.applied_by, '') as applied_by, coalesce(b.source, '') as source
           from fis_chain_head h
           left join fis_books b on b.tenant_id = h.tenant_id and b.version = coalesce($2, h.books_version)
          where h.tenant_id = $1 and ($2::integer is null or b.version is not null)",
    )
    .bind(tenant)
    .bind(version)
    .fetch_optional(db)
    .await
}

/// A version in a list: when it was applied, and by whom.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct VersionLine {
    pub version: i32,
    pub applied_at: DateTime<Utc>,
    pub applied_by: String,
    pub in_force: bool,
}

/// More are seldom of interest at once; `show` reads each of them.
const VERSIONS_MAX: i64 = 1_000;

/// The newest versions first.
///
/// # Errors
/// The database is away.
pub async fn versions(pool: &PgPool, tenant: &str) -> Result<Vec<VersionLine>, sqlx::Error> {
    sqlx::query_as(
        "select b.version, b.applied_at, b.applied_by, b.version = h.books_version as in_force
           from fis_books b
           join fis_chain_head h using (tenant_id)
          where b.tenant_id = $1
          order by b.version desc
          limit $2",
    )
    .bind(tenant)
    .bind(VERSIONS_MAX)
    .fetch_all(pool)
    .await
}
