//! Held events: why each waits, since when, and until when. The message itself waits in `fis_outbox`; `due_at` here is that row's.

use std::collections::HashMap;

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::domain::disposition::Reason;
use crate::domain::ids::{EventId, EventKey, TenantId};
use crate::domain::money::Worth;
use crate::store::outbox::FreedEvent;
use crate::store::{column, rows};

/// A held event as the control totals count it.
#[derive(Debug, Clone, Copy)]
pub struct CountedHold {
    /// `None`: it is not counted, a dead letter stands for it.
    pub day: Option<NaiveDate>,
    pub money: Worth,
}

/// An event that is held, as the ledger knows it.
#[derive(Debug)]
pub struct KnownHold {
    pub payload_hash: String,
    pub counted: CountedHold,
}

/// The events among these that are held.
///
/// # Errors
/// The database is away, or holds what no version of this program has written.
pub async fn find(
    db: &mut PgConnection,
    wanted: impl Iterator<Item = (&TenantId, &EventId)>,
) -> Result<HashMap<EventKey, KnownHold>, sqlx::Error> {
    let (tenants, events): (Vec<&str>, Vec<&str>) =
        wanted.map(|(tenant, event)| (tenant.as_str(), event.as_str())).unzip();
    let rows = sqlx::query(
        "select wanted.tenant_id, wanted.event_id, h.payload_hash, h.received_on, h.amount, h.currency
           from unnest($1::text[], $2::text[]) as wanted (tenant_id, event_id)
          cross join lateral (
                select payload_hash, received_on, amount, currency
                  from fis_held
                 where tenant_id = wanted.tenant_id and event_id = wanted.event_id
                offset 0) h",
    )
    .bind(tenants)
    .bind(events)
    .fetch_all(db)
    .await?;
    let mut held = HashMap::with_capacity(rows.len());
    for row in rows {
        let counted = CountedHold { day: row.try_get("received_on")?, money: rows::worth(&row)? };
        held.insert(rows::event_key(&row)?, KnownHold { payload_hash: row.try_get("payload_hash")?, counted });
    }
    Ok(held)
}

/// Removes the events that are held no more.
///
/// # Errors
/// The database is away.
pub async fn remove(db: &mut PgConnection, released: &[EventKey]) -> Result<(), sqlx::Error> {
    if released.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "delete from fis_held h
          using unnest($1::text[], $2::text[]) as done (tenant_id, event_id)
          where h.tenant_id = done.tenant_id and h.event_id = done.event_id",
    )
    .bind(column!(released, (tenant, _) => tenant.as_str()))
    .bind(column!(released, (_, event) => event.as_str()))
    .execute(db)
    .await?;
    Ok(())
}

/// A row of a held event, to be written.
pub struct HoldRow<'a> {
    pub tenant_id: &'a str,
    pub event_id: &'a str,
    pub event_type: &'a str,
    pub payload_hash: &'a str,
    pub routing_key: &'a str,
    pub reason: &'static str,
    pub detail: &'a str,
    pub attempts: i32,
    /// The due time of exactly the retry that is linked: the same message may wait twice.
    pub due_at: DateTime<Utc>,
    pub lane: &'static str,
    pub message_id: Option<&'a str>,
    pub correlation_id: Option<&'a str>,
    pub waits_for: Option<String>,
    /// The retry in the outbox.
    pub outbox_id: Option<i64>,
    pub counted: CountedHold,
    pub event_date: NaiveDate,
}

/// Writes held events; each event once, because an upsert cannot touch a row twice.
///
/// # Errors
/// The database is away.
pub async fn upsert(db: &mut PgConnection, held: &[HoldRow<'_>], now: DateTime<Utc>) -> Result<(), sqlx::Error> {
    if held.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into fis_held (tenant_id, event_id, event_type, payload_hash, routing_key, reason, detail, attempts,
                               due_at, lane, message_id, correlation_id, waits_for, outbox_id, received_on, event_date,
                               amount, currency, first_held_at, last_held_at)
         select *, $19, $19
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::integer[],
                       $9::timestamptz[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bigint[],
                       $15::date[], $16::date[], $17::numeric[], $18::text[])
             on conflict (tenant_id, event_id)
             do update set reason = excluded.reason, detail = excluded.detail, attempts = excluded.attempts,
                           payload_hash = excluded.payload_hash, due_at = excluded.due_at, last_held_at = excluded.last_held_at,
                           waits_for = excluded.waits_for, outbox_id = excluded.outbox_id",
    )
    .bind(column!(held, row => row.tenant_id))
    .bind(column!(held, row => row.event_id))
    .bind(column!(held, row => row.event_type))
    .bind(column!(held, row => row.payload_hash))
    .bind(column!(held, row => row.routing_key))
    .bind(column!(held, row => row.reason))
    .bind(column!(held, row => row.detail))
    .bind(column!(held, row => row.attempts))
    .bind(column!(held, row => row.due_at))
    .bind(column!(held, row => row.lane))
    .bind(column!(held, row => row.message_id))
    .bind(column!(held, row => row.correlation_id))
    .bind(column!(held, row => row.waits_for.as_deref()))
    .bind(column!(held, row => row.outbox_id))
    .bind(column!(held, row => row.counted.day))
    .bind(column!(held, row => row.event_date))
    .bind(column!(held, row => row.counted.money.map(|(amount, _)| amount)))
    .bind(column!(held, row => row.counted.money.map(|(_, currency)| currency.code())))
    .bind(now)
    .execute(db)
    .await?;
    Ok(())
}

/// A held event in a list.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldEvent {
    pub tenant_id: String,
    pub event_id: String,
    pub event_type: String,
    pub reason: Reason,
    pub detail: String,
    pub waits_for: Option<String>,
    pub attempts: i32,
    pub due_at: DateTime<Utc>,
    pub first_held_at: DateTime<Utc>,
    pub last_held_at: DateTime<Utc>,
}

/// A filter of held events; `None` means all.
#[derive(Debug, Clone, Default)]
pub struct HeldFilter {
    pub tenant: Option<TenantId>,
    pub reason: Option<Reason>,
}

/// A page, the next to come back first, and how many there are in all.
///
/// # Errors
/// The database is away.
pub async fn list(
    db: &mut PgConnection,
    filter: &HeldFilter,
    limit: i64,
    offset: i64,
) -> Result<(Vec<HeldEvent>, i64), sqlx::Error> {
    let total = sqlx::query_scalar(
        "select count(*) from fis_held where ($1::text is null or tenant_id = $1) and ($2::text is null or reason = $2)",
    )
    .bind(filter.tenant.as_ref().map(TenantId::as_str))
    .bind(filter.reason.map(Reason::code))
    .fetch_one(&mut *db)
    .await?;
    let rows = sqlx::query(
        "select tenant_id, event_id, event_type, reason, detail, waits_for, attempts, due_at, first_held_at, last_held_at
           from fis_held
          where ($1::text is null or tenant_id = $1) and ($2::text is null or reason = $2)
          order by due_at, tenant_id, event_id
          limit $3 offset $4",
    )
    .bind(filter.tenant.as_ref().map(TenantId::as_str))
    .bind(filter.reason.map(Reason::code))
    .bind(limit)
    .bind(offset)
    .fetch_all(db)
    .await?;
    Ok((rows.iter().map(held_event).collect::<Result<_, _>>()?, total))
}

pub(super) fn held_event(row: &PgRow) -> Result<HeldEvent, sqlx::Error> {
    Ok(HeldEvent {
        tenant_id: row.try_get("tenant_id")?,
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        reason: Reason::from_code(row.try_get("reason")?).ok_or_else(|| rows::impossible("reason"))?,
        detail: row.try_get("detail")?,
        waits_for: row.try_get("waits_for")?,
        attempts: row.try_get("attempts")?,
        due_at: row.try_get("due_at")?,
        first_held_at: row.try_get("first_held_at")?,
        last_held_at: row.try_get("last_held_at")?,
    })
}

/// Finds the held ones among these events of a tenant.
///
/// # Errors
/// The database is away.
pub async fn among(db: &mut PgConnection, tenant: &TenantId, events: &[&str]) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar("select event_id from fis_held where tenant_id = $1 and event_id = any($2)")
        .bind(tenant.as_str())
        .bind(events)
        .fetch_all(db)
        .await
}

/// The tenants that have held events, or the one that is asked for if it has.
///
/// # Errors
/// The database is away.
pub async fn tenants(db: &mut PgConnection, tenant: Option<&TenantId>) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select distinct tenant_id from fis_held where $1::text is null or tenant_id = $1 order by tenant_id",
    )
    .bind(tenant.map(TenantId::as_str))
    .fetch_all(db)
    .await
}

/// The causes for which a tenant's events wait. Few causes hold many events.
///
/// # Errors
/// The database is away.
pub async fn causes(db: &mut PgConnection, tenant: &TenantId) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select distinct waits_for from fis_held where tenant_id = $1 and waits_for is not null and due_at > now()",
    )
    .bind(tenant.as_str())
    .fetch_all(db)
    .await
}

/// Keeps the due times of held events those of their retries, which have just become due. Its own statement, and rarely needed: joined to
/// `outbox::free`, PostgreSQL would read all that is held (measured with 200,000: 180 ms instead of 12).
///
/// # Errors
/// The database is away.
pub async fn follow_retries(db: &mut PgConnection, freed: &[FreedEvent]) -> Result<u64, sqlx::Error> {
    if freed.is_empty() {
        return Ok(0);
    }
    let (tenants, events): (Vec<&str>, Vec<&str>) =
        freed.iter().map(|(tenant, event)| (tenant.as_str(), event.as_str())).unzip();
    let followed = sqlx::query(
        "update fis_held h
            set due_at = now()
           from unnest($1::text[], $2::text[]) as freed (tenant_id, event_id)
          where h.tenant_id = freed.tenant_id and h.event_id = freed.event_id",
    )
    .bind(tenants)
    .bind(events)
    .execute(db)
    .await?;
    Ok(followed.rows_affected())
}
