//! The mirror's beginning and its cursors. Each statement is a transaction of its own; none is open while publishing.

use sqlx::{PgConnection, Row as _};

use super::rows;
use crate::domain::ids::TenantId;

/// A tenant with entries that are not mirrored yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    pub tenant_id: TenantId,
    /// The last one that is.
    pub seq: i64,
    pub head: i64,
}

/// Remembers the heads of this moment the first time; afterwards it does nothing. One statement, so that no entry can fall
/// between the beginning and its cursors: what commits later is beyond the head that was seen.
///
/// # Errors
/// The database is away.
pub async fn begin(db: &mut PgConnection, exchange: &str) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with began as (
             insert into fis_mirror (exchange)
             values ($1)
             on conflict do nothing
             returning exchange)
         insert into fis_mirror_cursor (exchange, tenant_id, seq)
         select began.exchange, head.tenant_id, head.seq
           from began
          cross join fis_chain_head head
          where head.seq > 0",
    )
    .bind(exchange)
    .execute(db)
    .await?;
    Ok(())
}

/// Tenants with entries beyond their cursor, those behind `after` first, so that each has its turn.
///
/// # Errors
/// The database is away.
pub async fn due(
    db: &mut PgConnection,
    exchange: &str,
    without: &[String],
    after: &str,
    limit: i64,
) -> Result<Vec<Due>, sqlx::Error> {
    let found = sqlx::query(
        "select head.tenant_id, coalesce(cursor.seq, 0) as seq, head.seq as head
           from fis_chain_head head
           left join fis_mirror_cursor cursor on cursor.exchange = $1 and cursor.tenant_id = head.tenant_id
          where head.seq > coalesce(cursor.seq, 0) and head.tenant_id <> all($2)
          order by head.tenant_id > $3 desc, head.tenant_id
          limit $4",
    )
    .bind(exchange)
    .bind(without)
    .bind(after)
    .bind(limit)
    .fetch_all(db)
    .await?;
    found
        .iter()
        .map(|row| Ok(Due { tenant_id: rows::tenant(row)?, seq: row.try_get("seq")?, head: row.try_get("head")? }))
        .collect()
}

/// Moves the cursors, never backwards: whoever moves one has seen the confirms of all before it.
///
/// # Errors
/// The database is away.
pub async fn advance(db: &mut PgConnection, exchange: &str, moved: &[(TenantId, i64)]) -> Result<(), sqlx::Error> {
    let (tenants, seqs): (Vec<&str>, Vec<i64>) = moved.iter().map(|(tenant, seq)| (tenant.as_str(), *seq)).unzip();
    sqlx::query(
        "insert into fis_mirror_cursor as cursor (exchange, tenant_id, seq)
         select $1, moved.tenant_id, moved.seq
           from unnest($2::text[], $3::bigint[]) as moved (tenant_id, seq)
          order by moved.tenant_id
         on conflict (exchange, tenant_id) do update
            set seq = excluded.seq
          where cursor.seq < excluded.seq",
    )
    .bind(exchange)
    .bind(tenants)
    .bind(seqs)
    .execute(db)
    .await?;
    Ok(())
}

/// Entries beyond the cursors.
///
/// # Errors
/// The database is away.
pub async fn left(db: &mut PgConnection, exchange: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select coalesce(sum(greatest(head.seq - coalesce(cursor.seq, 0), 0)), 0)::bigint
           from fis_chain_head head
           left join fis_mirror_cursor cursor on cursor.exchange = $1 and cursor.tenant_id = head.tenant_id",
    )
    .bind(exchange)
    .fetch_one(db)
    .await
}
