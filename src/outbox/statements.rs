//! The SQL of the relay. Every statement runs on the connection that holds the relay's lock: an instance that lost the
//! lock cannot remove what it did not send.

use std::collections::HashMap;

use sqlx::{PgConnection, Row};

use crate::domain::ids::TenantId;

/// One relay at a time per database: `fis` and `rely` in ASCII.
const RELAY_LOCK: i64 = 0x6669_7372_656c_7900;

/// A row on its way out.
pub struct OutboxRow {
    pub id: i64,
    pub tenant_id: Option<String>,
    /// About how many bytes its message will have.
    pub bytes: i64,
    pub content: RowContent,
}

/// A line takes about this much in the outbound JSON, and the rest of an event about ten times that.
const LINE_BYTES: i64 = 130;

pub enum RowContent {
    /// The bytes are made from the journal.
    Entry {
        tenant_id: TenantId,
        seq: i64,
    },
    Message {
        exchange: String,
        routing_key: String,
        message_id: String,
        properties: String,
    },
}

pub async fn try_lock_relay(db: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select pg_try_advisory_lock($1)").bind(RELAY_LOCK).fetch_one(db).await
}

pub async fn unlock_relay(db: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select pg_advisory_unlock($1)").bind(RELAY_LOCK).fetch_one(db).await
}

/// Rows that leave at once, oldest first. Within a tenant the id order is the commit order, because the ids were drawn
/// under the lock of the tenant's head; a row that commits late is simply there next time.
pub async fn ready_rows(db: &mut PgConnection, limit: i64) -> Result<Vec<OutboxRow>, sqlx::Error> {
    let rows = sqlx::query(
        "select id, tenant_id, seq, lines, exchange, routing_key, message_id, properties, octet_length(body) as body_bytes
           from fis_outbox
          where due_at is null
          order by id
          limit $1",
    )
    .bind(limit)
    .fetch_all(db)
    .await?;
    rows.iter().map(outbox_row).collect()
}

/// Rows whose time has come.
pub async fn due_rows(db: &mut PgConnection, limit: i64) -> Result<Vec<OutboxRow>, sqlx::Error> {
    let rows = sqlx::query(
        "select id, tenant_id, seq, lines, exchange, routing_key, message_id, properties, octet_length(body) as body_bytes
           from fis_outbox
          where due_at is not null and due_at <= now()
          order by due_at, id
          limit $1",
    )
    .bind(limit)
    .fetch_all(db)
    .await?;
    rows.iter().map(outbox_row).collect()
}

fn outbox_row(row: &sqlx::postgres::PgRow) -> Result<OutboxRow, sqlx::Error> {
    let tenant_id: Option<String> = row.try_get("tenant_id")?;
    let bytes = match row.try_get::<Option<i32>, _>("lines")? {
        Some(lines) => LINE_BYTES * (i64::from(lines) + 10),
        None => i64::from(row.try_get::<Option<i32>, _>("body_bytes")?.unwrap_or(0)),
    };
    let content = match row.try_get::<Option<i64>, _>("seq")? {
        Some(seq) => {
            let tenant = TenantId::parse(tenant_id.as_deref().unwrap_or_default());
            RowContent::Entry { tenant_id: tenant.map_err(|error| sqlx::Error::Decode(Box::new(error)))?, seq }
        }
        None => RowContent::Message {
            exchange: row.try_get("exchange")?,
            routing_key: row.try_get("routing_key")?,
            message_id: row.try_get("message_id")?,
            properties: row.try_get("properties")?,
        },
    };
    Ok(OutboxRow { id: row.try_get("id")?, tenant_id, bytes, content })
}

/// The bodies of the messages among the rows.
pub async fn bodies(db: &mut PgConnection, ids: &[i64], waiting: bool) -> Result<HashMap<i64, Vec<u8>>, sqlx::Error> {
    let query = if waiting {
        "select id, body from fis_outbox where due_at is not null and due_at <= now() and id = any($1)"
    } else {
        "select id, body from fis_outbox where due_at is null and id = any($1)"
    };
    let rows = sqlx::query(query).bind(ids).fetch_all(db).await?;
    rows.iter().map(|row| Ok((row.try_get("id")?, row.try_get("body")?))).collect()
}

pub async fn remove_ready(db: &mut PgConnection, ids: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query("delete from fis_outbox where due_at is null and id = any($1)").bind(ids).execute(db).await?;
    Ok(())
}

pub async fn remove_due(db: &mut PgConnection, ids: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query("delete from fis_outbox where due_at is not null and due_at <= now() and id = any($1)")
        .bind(ids)
        .execute(db)
        .await?;
    Ok(())
}

/// What still has to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    pub pending: i64,
    pub oldest_seconds: i64,
}

/// # Errors
/// The database is away.
pub async fn backlog(db: &mut PgConnection) -> Result<Backlog, sqlx::Error> {
    let row = sqlx::query(
        "select count(*) as pending,
                coalesce(extract(epoch from now() - min(coalesce(due_at, created_at))), 0)::bigint as oldest
           from fis_outbox
          where due_at is null or due_at <= now()",
    )
    .fetch_one(db)
    .await?;
    Ok(Backlog { pending: row.try_get("pending")?, oldest_seconds: row.try_get("oldest")? })
}
