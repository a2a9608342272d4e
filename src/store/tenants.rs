//! The tenants: whoever has a head. Names and how each ledger is leave; nothing is changed.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use crate::domain::ids::TenantId;

/// A tenant, with the text of its books in force.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct TenantLine {
    pub tenant_id: String,
    pub books_version: i32,
    pub source: String,
    pub entries: i64,
    pub last_posted_at: Option<DateTime<Utc>>,
}

/// # Errors
/// The database is away.
pub async fn list(db: &mut PgConnection) -> Result<Vec<TenantLine>, sqlx::Error> {
    sqlx::query_as(
        "select h.tenant_id, h.books_version, coalesce(b.source, '') as source, h.seq as entries, e.posted_at as last_posted_at
           from fis_chain_head h
           left join fis_books b on b.tenant_id = h.tenant_id and b.version = h.books_version
           left join fis_journal_entry e on e.tenant_id = h.tenant_id and e.seq = h.seq
          order by h.tenant_id",
    )
    .fetch_all(db)
    .await
}

/// # Errors
/// The database is away.
pub async fn names(db: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar("select tenant_id from fis_chain_head order by tenant_id").fetch_all(db).await
}

/// The open letters of each name, also of one that no books are of.
///
/// # Errors
/// The database is away.
pub async fn open_letters(db: &mut PgConnection) -> Result<Vec<(String, i64)>, sqlx::Error> {
    sqlx::query_as(
        "select tenant_id, count(*)
           from fis_dead_letter
          where status in ('parked', 'replaying') and tenant_id is not null
          group by tenant_id",
    )
    .fetch_all(db)
    .await
}

/// True where the tenant has a head, or a dead letter names it.
///
/// # Errors
/// The database is away.
pub async fn is_known(db: &mut PgConnection, tenant: &TenantId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (select from fis_chain_head where tenant_id = $1)
             or exists (select from fis_dead_letter where tenant_id = $1)",
    )
    .bind(tenant.as_str())
    .fetch_one(db)
    .await
}
