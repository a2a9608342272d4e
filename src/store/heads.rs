//! The heads of the chains: one row per tenant, which a posting locks. Sequence order is commit order because of that lock, and a change
//! of books takes the same one.

use std::collections::BTreeMap;

use sqlx::{PgConnection, PgPool, Row};

use super::rows;
use crate::domain::chain::{ChainHead, GENESIS};
use crate::domain::checkpoint::{BooksHead, Head};
use crate::domain::ids::TenantId;
use crate::faults::mutants::{self, mutant};

/// A head under its lock: the end of the chain, and the books in force.
#[derive(Debug, PartialEq, Eq)]
pub struct LockedHead {
    pub chain: ChainHead,
    pub books_version: i32,
}

/// Locks the heads of these tenants, in tenant order; otherwise two batches could wait on each other.
///
/// # Errors
/// The database is away, or somebody holds a head for too long.
pub async fn lock_heads(
    db: &mut PgConnection,
    tenants: &[&str],
) -> Result<BTreeMap<TenantId, LockedHead>, sqlx::Error> {
    if tenants.is_empty() {
        return Ok(BTreeMap::new());
    }
    let query = if mutant(mutants::HEAD_NOT_LOCKED) {
        "select tenant_id, seq, hash, books_version from fis_chain_head where tenant_id = any($1)"
    } else {
        "select tenant_id, seq, hash, books_version
           from fis_chain_head
          where tenant_id = any($1)
          order by tenant_id
            for update"
    };
    let rows = sqlx::query(query).bind(tenants).fetch_all(db).await?;
    let mut heads = BTreeMap::new();
    for row in rows {
        let chain = ChainHead { seq: row.try_get("seq")?, hash: row.try_get("hash")? };
        heads.insert(rows::tenant(&row)?, LockedHead { chain, books_version: row.try_get("books_version")? });
    }
    Ok(heads)
}

/// Locks the head of a tenant and returns the version of its books; `None`: there was no head, and this has made it, for version 1.
///
/// # Errors
/// The database is away.
pub async fn lock_or_make(db: &mut PgConnection, tenant: &TenantId) -> Result<Option<i32>, sqlx::Error> {
    // The first version makes the head; whoever comes second waits here and then finds it.
    let first = sqlx::query(
        "insert into fis_chain_head (tenant_id, seq, hash, books_version) values ($1, 0, $2, 1) on conflict do nothing",
    )
    .bind(tenant.as_str())
    .bind(GENESIS)
    .execute(&mut *db)
    .await?;
    if first.rows_affected() > 0 {
        return Ok(None);
    }
    sqlx::query_scalar("select books_version from fis_chain_head where tenant_id = $1 for update")
        .bind(tenant.as_str())
        .fetch_one(db)
        .await
        .map(Some)
}

/// Puts a version of the books in force.
///
/// # Errors
/// The database is away.
pub async fn set_books_version(db: &mut PgConnection, tenant: &TenantId, version: i32) -> Result<(), sqlx::Error> {
    sqlx::query("update fis_chain_head set books_version = $2 where tenant_id = $1")
        .bind(tenant.as_str())
        .bind(version)
        .execute(db)
        .await?;
    Ok(())
}

/// The last sequence of a tenant; `None`: there is no such tenant. Entries up to it never change and have no gap, so a walk
/// up to it sees one moment of the ledger without holding a transaction open.
///
/// # Errors
/// The database is away.
pub async fn last_seq(db: &mut PgConnection, tenant: &TenantId) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("select seq from fis_chain_head where tenant_id = $1")
        .bind(tenant.as_str())
        .fetch_optional(db)
        .await
}

/// The end of every chain that has entries, in tenant order.
///
/// # Errors
/// The database is away.
pub async fn all(pool: &PgPool) -> Result<Vec<Head>, sqlx::Error> {
    let rows = sqlx::query(
        "select h.tenant_id, h.seq, h.hash, h.books_version, b.hash as books_hash
           from fis_chain_head h
           left join fis_books b on b.tenant_id = h.tenant_id and b.version = h.books_version
          where h.seq > 0
          order by h.tenant_id",
    )
    .fetch_all(pool)
    .await?;
    let head = |row: &sqlx::postgres::PgRow| {
        let (version, seal): (i32, Option<String>) = (row.try_get("books_version")?, row.try_get("books_hash")?);
        Ok(Head {
            tenant_id: row.try_get("tenant_id")?,
            sequence: row.try_get("seq")?,
            hash: row.try_get("hash")?,
            // Books that are gone are a fault for the audit; the chain is signed all the same.
            books: Some(BooksHead { version, hash: seal.unwrap_or_default() }),
        })
    };
    rows.iter().map(head).collect()
}

/// The version of the books that a head says is in force.
///
/// # Errors
/// The database is away.
pub async fn books_version(db: &mut PgConnection, tenant: &str) -> Result<Option<i32>, sqlx::Error> {
    sqlx::query_scalar("select books_version from fis_chain_head where tenant_id = $1")
        .bind(tenant)
        .fetch_optional(db)
        .await
}

/// The end of one chain, as the table keeps it.
///
/// # Errors
/// The database is away.
pub async fn find(db: &mut PgConnection, tenant: &str) -> Result<Option<ChainHead>, sqlx::Error> {
    let row = sqlx::query("select seq, hash from fis_chain_head where tenant_id = $1")
        .bind(tenant)
        .fetch_optional(db)
        .await?;
    row.map(|row| Ok(ChainHead { seq: row.try_get("seq")?, hash: row.try_get("hash")? })).transpose()
}
