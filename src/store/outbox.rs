//! The outbox: what leaves. Rows are written in the transaction that decided them. The relay reads a row, publishes its message, and removes
//! the row after the confirm, each statement in a transaction of its own. Whoever removes a row has seen the confirm of that
//! row's own message, so that removing needs no lock and no fence: it is right whoever relays by now.

use std::collections::HashMap;

use sqlx::{PgConnection, Row as _};

use super::column;
use crate::domain::ids::TenantId;
use crate::domain::names::DOMAIN_EXCHANGE;
use crate::domain::outbound::OutboundEvent;

/// The database's transactions at a moment: all before `oldest` have ended, none from `next` on had begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    pub oldest: i64,
    pub next: i64,
}

/// A wish for rows: with a greater id than `after`, oldest first, at most `limit` of them, none of these rows (they are in
/// the air) and none of these tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    pub after: i64,
    pub limit: usize,
    pub aloft: Vec<i64>,
    pub without: Vec<String>,
}

/// A row on its way out.
pub struct OutboxRow {
    pub id: i64,
    pub tenant_id: Option<String>,
    /// About how many bytes its message will have.
    pub bytes: i64,
    pub content: RowContent,
}

/// So many rows are removed without waiting for the disk (ADR 27).
const UNFLUSHED_MAX: usize = 100;
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
    /// No version of this program has written it.
    Unreadable,
}

/// Rows that may leave. Within a tenant the id order is the commit order, because the ids were drawn under the lock of the
/// tenant's head; a row that commits late is simply there next time. `not in (select …)` is hashed, also in a generic plan;
/// `<> all` of a parameter would compare each row with each id in the air.
pub async fn rows(db: &mut PgConnection, read: &Read) -> Result<Vec<OutboxRow>, sqlx::Error> {
    let limit = i64::try_from(read.limit).unwrap_or(i64::MAX);
    let query = sqlx::query(
        "select id, tenant_id, seq, lines, exchange, routing_key, message_id, properties, octet_length(body)
           from fis_outbox
          where id > $1 and id not in (select unnest($3::bigint[])) and coalesce(tenant_id, '') <> all($4)
          order by id
          limit $2",
    );
    let query = query.bind(read.after).bind(limit).bind(&read.aloft).bind(&read.without);
    query.fetch_all(db).await?.iter().map(outbox_row).collect()
}

/// A posting transaction locks a head before it draws an id, and locking gives it its number: so one that has drawn an id of
/// some tenant is among those counted here.
pub async fn horizon(db: &mut PgConnection) -> Result<Horizon, sqlx::Error> {
    let row = sqlx::query(
        "select pg_snapshot_xmin(now)::text::bigint, pg_snapshot_xmax(now)::text::bigint
           from pg_current_snapshot() as now",
    )
    .fetch_one(db)
    .await?;
    Ok(Horizon { oldest: row.try_get(0)?, next: row.try_get(1)? })
}

/// By place, not by name: it is done for every row that leaves.
fn outbox_row(row: &sqlx::postgres::PgRow) -> Result<OutboxRow, sqlx::Error> {
    let tenant_id: Option<String> = row.try_get(1)?;
    let bytes = match row.try_get::<Option<i32>, _>(3)? {
        Some(lines) => LINE_BYTES * (i64::from(lines) + 10),
        None => i64::from(row.try_get::<Option<i32>, _>(8)?.unwrap_or(0)),
    };
    let content = match row.try_get::<Option<i64>, _>(2)? {
        Some(seq) => match TenantId::parse(tenant_id.as_deref().unwrap_or_default()) {
            Ok(tenant_id) => RowContent::Entry { tenant_id, seq },
            Err(_) => RowContent::Unreadable,
        },
        None => RowContent::Message {
            exchange: row.try_get(4)?,
            routing_key: row.try_get(5)?,
            message_id: row.try_get(6)?,
            properties: row.try_get(7)?,
        },
    };
    Ok(OutboxRow { id: row.try_get(0)?, tenant_id, bytes, content })
}

/// The bodies of the messages among the rows.
pub async fn bodies(db: &mut PgConnection, ids: &[i64]) -> Result<HashMap<i64, Vec<u8>>, sqlx::Error> {
    let rows = sqlx::query("select id, body from fis_outbox where id = any($1)").bind(ids).fetch_all(db).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// By id and never by range: in between may be the row of a transaction that commits only now.
///
/// A few rows do not wait for the disk: the next posting's commit takes them along, or the server within a second. Should it crash
/// before that, they leave once more, as after any crash. Of more rows than that, too many would.
pub async fn remove(db: &mut PgConnection, ids: &[i64]) -> Result<(), sqlx::Error> {
    // For this transaction alone, which is this statement: whoever has the connection next waits for the disk.
    let without_waiting = match ids.len() {
        0..=UNFLUSHED_MAX => " and (select set_config('synchronous_commit', 'off', true)) is not null",
        _ => "",
    };
    // Put together from constants only.
    let query = format!("delete from fis_outbox where id = any($1){without_waiting}");
    sqlx::query(&query).bind(ids).execute(db).await?;
    Ok(())
}

/// The oldest row that still has to leave.
///
/// # Errors
/// The database is away.
pub async fn oldest(db: &mut PgConnection) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("select id from fis_outbox order by id limit 1").fetch_optional(db).await
}

/// The outbox rows that still have to leave.
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
                coalesce(extract(epoch from now() - min(created_at)), 0)::bigint as oldest
           from fis_outbox",
    )
    .fetch_one(db)
    .await?;
    Ok(Backlog { pending: row.try_get("pending")?, oldest_seconds: row.try_get("oldest")? })
}

/// The text of an announcement's message properties; the room that sends it knows.
pub type PropertiesText = fn(&OutboundEvent) -> String;

/// Writes announcements that leave at once: rejections, complete batches.
///
/// # Errors
/// The database is away.
pub async fn insert_announcements(
    db: &mut PgConnection,
    told: &[OutboundEvent],
    properties: PropertiesText,
) -> Result<(), sqlx::Error> {
    if told.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into fis_outbox (tenant_id, exchange, routing_key, message_id, properties, body)
         select t, $6, k, m, p, b
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[]) as told (t, k, m, p, b)",
    )
    .bind(column!(told, event => event.tenant_id.as_deref()))
    .bind(column!(told, event => event.kind.routing_key()))
    .bind(column!(told, event => event.message_id.as_str()))
    .bind(column!(told, event => properties(event)))
    .bind(column!(told, event => event.body.as_slice()))
    .bind(DOMAIN_EXCHANGE)
    .execute(db)
    .await?;
    Ok(())
}

/// The first entry of each tenant that has not been announced yet. Whatever lies before it has been confirmed.
///
/// # Errors
/// The database is away.
pub async fn first_pending(db: &mut PgConnection) -> Result<HashMap<String, i64>, sqlx::Error> {
    let rows = sqlx::query(
        "select tenant_id, min(seq) as first
           from fis_outbox
          where seq is not null
          group by tenant_id",
    )
    .fetch_all(db)
    .await?;
    rows.iter().map(|row| Ok((row.try_get("tenant_id")?, row.try_get("first")?))).collect()
}
