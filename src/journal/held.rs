//! Held events: listed, and called back before their time, by a person or because their cause is gone. A release moves the
//! due time of the row that waits in the outbox; the relay does the rest. It touches a row only while that still waits, and
//! only under the lock of the tenant's head, so it can neither send a retry twice nor race with a posting.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool, Row};

use super::statements::lock_heads;
use crate::domain::books::Books;
use crate::domain::chain::ChainedEntry;
use crate::domain::disposition::Reason;
use crate::domain::ids::{EventId, TenantId};
use crate::domain::waits_for::WaitsFor;

/// Events released by one transaction: more would keep the tenant's postings waiting for longer than a moment.
pub const RELEASED_MAX: u64 = 10_000;

/// A held event in a list.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
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

/// Which held events; `None` means all.
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
) -> Result<(Vec<Held>, i64), sqlx::Error> {
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
    Ok((rows.iter().map(held).collect::<Result<_, _>>()?, total))
}

pub(super) fn held(row: &sqlx::postgres::PgRow) -> Result<Held, sqlx::Error> {
    let reason: &str = row.try_get("reason")?;
    Ok(Held {
        tenant_id: row.try_get("tenant_id")?,
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        reason: Reason::from_code(reason)
            .ok_or_else(|| sqlx::Error::Decode(format!("`{reason}` is no reason to hold an event").into()))?,
        detail: row.try_get("detail")?,
        waits_for: row.try_get("waits_for")?,
        attempts: row.try_get("attempts")?,
        due_at: row.try_get("due_at")?,
        first_held_at: row.try_get("first_held_at")?,
        last_held_at: row.try_get("last_held_at")?,
    })
}

/// The fate of the wish to release an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Released {
    #[serde(rename = "released")]
    Now,
    /// It is due, or on its way back already.
    #[serde(rename = "due already")]
    Before,
    #[serde(rename = "not held")]
    NotHeld,
}

impl Released {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Now => "released",
            Self::Before => "due already",
            Self::NotHeld => "not held",
        }
    }
}

/// Calls back the named events of one tenant.
///
/// # Errors
/// The database is away; nothing was released.
pub async fn release_events(
    pool: &PgPool,
    tenant: &TenantId,
    events: &[EventId],
) -> Result<Vec<Released>, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    lock_heads(&mut transaction, &[tenant.as_str()]).await?;
    let events: Vec<&str> = events.iter().map(EventId::as_str).collect();
    let held: Vec<String> =
        sqlx::query_scalar("select event_id from fis_held where tenant_id = $1 and event_id = any($2)")
            .bind(tenant.as_str())
            .bind(&events)
            .fetch_all(&mut *transaction)
            .await?;
    let freed: Vec<(String, String)> = sqlx::query_as(&free("h.tenant_id = $1 and h.event_id = any($2)"))
        .bind(tenant.as_str())
        .bind(&events)
        .fetch_all(&mut *transaction)
        .await?;
    follow(&mut transaction, &freed).await?;
    transaction.commit().await?;
    let is_held = |event: &str| held.iter().any(|held| held == event);
    let is_freed = |event: &str| freed.iter().any(|(_, freed)| freed == event);
    let outcome = |event: &&str| match (is_freed(event), is_held(event)) {
        (true, _) => Released::Now,
        (false, true) => Released::Before,
        (false, false) => Released::NotHeld,
    };
    Ok(events.iter().map(outcome).collect())
}

/// Calls back whatever matches, some at a time; returns how many.
///
/// # Errors
/// The database is away; some may have been released.
pub async fn release_matching(pool: &PgPool, filter: &HeldFilter) -> Result<u64, sqlx::Error> {
    let mut released = 0;
    loop {
        let some = release_some(pool, filter).await?;
        released += some;
        // Each round takes what the one before has left, so the rounds have an end.
        if some < RELEASED_MAX {
            return Ok(released);
        }
    }
}

async fn release_some(pool: &PgPool, filter: &HeldFilter) -> Result<u64, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    let tenants: Vec<String> = sqlx::query_scalar(
        "select distinct tenant_id from fis_held where $1::text is null or tenant_id = $1 order by tenant_id",
    )
    .bind(filter.tenant.as_ref().map(TenantId::as_str))
    .fetch_all(&mut *transaction)
    .await?;
    let tenants: Vec<&str> = tenants.iter().map(String::as_str).collect();
    lock_heads(&mut transaction, &tenants).await?;
    // Only the tenants that are locked: one that came since is left alone.
    let freed: Vec<(String, String)> =
        sqlx::query_as(&free("h.tenant_id = any($1) and ($2::text is null or h.reason = $2)"))
            .bind(&tenants)
            .bind(filter.reason.map(Reason::code))
            .fetch_all(&mut *transaction)
            .await?;
    let released = follow(&mut transaction, &freed).await?;
    transaction.commit().await?;
    Ok(released)
}

/// Calls back the events that wait for one of these entries, now that it is posted. Inside the posting transaction.
pub async fn free_waiting_for(db: &mut PgConnection, entries: &[ChainedEntry]) -> Result<u64, sqlx::Error> {
    let tenants: Vec<&str> = entries.iter().map(|entry| entry.origin.tenant_id.as_str()).collect();
    let causes: Vec<String> =
        entries.iter().map(|entry| WaitsFor::Event(entry.origin.event_id.clone()).to_string()).collect();
    let freed: Vec<(String, String)> =
        sqlx::query_as(&free("(h.tenant_id, h.waits_for) in (select * from unnest($1::text[], $2::text[]))"))
            .bind(tenants)
            .bind(causes)
            .fetch_all(&mut *db)
            .await?;
    follow(db, &freed).await
}

/// Calls back the events whose cause is gone under new books, the first of them where there are many. The others stay: a retry that cannot succeed would only spend
/// their attempts. Inside the transaction that puts the books in force, with the tenant's head locked.
pub async fn free_by_books(db: &mut PgConnection, books: &Books) -> Result<u64, sqlx::Error> {
    // Few causes hold many events.
    let causes: Vec<String> = sqlx::query_scalar(
        "select distinct waits_for from fis_held where tenant_id = $1 and waits_for is not null and due_at > now()",
    )
    .bind(books.tenant_id.as_str())
    .fetch_all(&mut *db)
    .await?;
    let is_gone = |cause: &String| WaitsFor::parse(cause).is_some_and(|cause| cause.is_gone(books));
    let gone: Vec<String> = causes.into_iter().filter(is_gone).collect();
    if gone.is_empty() {
        return Ok(0);
    }
    let freed: Vec<(String, String)> = sqlx::query_as(&free("h.tenant_id = $1 and h.waits_for = any($2)"))
        .bind(books.tenant_id.as_str())
        .bind(gone)
        .fetch_all(&mut *db)
        .await?;
    follow(db, &freed).await
}

/// The chosen events whose retry still waits: makes that due, in the outbox. A row that is due is left alone, and so is one
/// that the relay has locked: it is being sent. The text is put together from constants only.
fn free(chosen: &'static str) -> String {
    format!(
        "with waiting as (
             select h.tenant_id, h.event_id, o.due_at, o.id
               from fis_held h
               join fis_outbox o on o.due_at = h.due_at and o.id = h.outbox_id
              where h.due_at > now() and o.due_at is not null and {chosen}
              order by o.id
              limit {RELEASED_MAX}
                for update of o skip locked)
         update fis_outbox o
            set due_at = now()
           from waiting w
          where o.due_at is not null and o.due_at = w.due_at and o.id = w.id
      returning w.tenant_id, w.event_id"
    )
}

/// Keeps the due times of held events those of their retries. Its own statement, and rarely needed: joined to the one before,
/// PostgreSQL would read all that is held (measured with 200,000: 180 ms instead of 12).
async fn follow(db: &mut PgConnection, freed: &[(String, String)]) -> Result<u64, sqlx::Error> {
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
