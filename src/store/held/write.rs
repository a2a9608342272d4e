//! The writing of held events: they are held, come back before their time, and are held no more.

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::PgConnection;

use super::{CountedHold, HeldContent, LetterCopy};
use crate::domain::ids::{EventKey, TenantId};
use crate::store::column;

/// Removes the events that are held no more; returns the letters that waited with them.
///
/// # Errors
/// The database is away.
pub async fn remove(db: &mut PgConnection, released: &[HeldContent]) -> Result<Vec<String>, sqlx::Error> {
    if released.is_empty() {
        return Ok(Vec::new());
    }
    let letters: Vec<Option<String>> = sqlx::query_scalar(
        "delete from fis_held h
          using unnest($1::text[], $2::text[], $3::text[]) as done (tenant_id, event_id, payload_hash)
          where h.tenant_id = done.tenant_id and h.event_id = done.event_id and h.payload_hash = done.payload_hash
      returning h.letter_id",
    )
    .bind(column!(released, ((tenant, _), _) => tenant.as_str()))
    .bind(column!(released, ((_, event), _) => event.as_str()))
    .bind(column!(released, (_, hash) => hash.as_str()))
    .fetch_all(db)
    .await?;
    Ok(letters.into_iter().flatten().collect())
}

/// Removes events that are held as they were read, and no others; returns how many.
///
/// # Errors
/// The database is away.
pub async fn remove_as_read(
    db: &mut PgConnection,
    read: &[(&HeldContent, DateTime<Utc>)],
) -> Result<usize, sqlx::Error> {
    let removed = sqlx::query(
        "delete from fis_held h
          using unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[]) as done (tenant_id, event_id, payload_hash, due_at)
          where h.tenant_id = done.tenant_id and h.event_id = done.event_id and h.payload_hash = done.payload_hash
            -- Thousands are due at the same moment: no index is to lead there by it.
            and h.due_at is not distinct from done.due_at",
    )
    .bind(column!(read, (((tenant, _), _), _) => tenant.as_str()))
    .bind(column!(read, (((_, event), _), _) => event.as_str()))
    .bind(column!(read, ((_, hash), _) => hash.as_str()))
    .bind(column!(read, (_, due_at) => *due_at))
    .execute(db)
    .await?;
    Ok(usize::try_from(removed.rows_affected()).unwrap_or(usize::MAX))
}

/// A row of a held event, to be written.
pub struct HoldRow<'a> {
    pub tenant_id: &'a str,
    pub event_id: &'a str,
    pub event_type: &'a str,
    pub payload_hash: &'a str,
    pub routing_key: &'a str,
    pub properties: &'a str,
    pub body: &'a [u8],
    pub reason: &'static str,
    pub detail: &'a str,
    pub attempts: i32,
    pub due_at: DateTime<Utc>,
    pub lane: &'static str,
    pub message_id: Option<&'a str>,
    pub correlation_id: Option<&'a str>,
    pub waits_for: Option<String>,
    pub received_at: DateTime<Utc>,
    pub counted: CountedHold,
    pub event_date: NaiveDate,
    pub letter: Option<&'a LetterCopy>,
}

/// Writes held events; each content once, because an upsert cannot touch a row twice. The message of what is held already stays.
///
/// # Errors
/// The database is away.
pub async fn upsert(db: &mut PgConnection, held: &[HoldRow<'_>], now: DateTime<Utc>) -> Result<(), sqlx::Error> {
    if held.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into fis_held (tenant_id, event_id, event_type, payload_hash, routing_key, properties, body, reason, detail,
                               attempts, due_at, lane, message_id, correlation_id, waits_for, received_at, received_on,
                               event_date, amount, currency, letter_id, edit_no, first_held_at, last_held_at)
         select *, $23, $23
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::text[],
                       $9::text[], $10::integer[], $11::timestamptz[], $12::text[], $13::text[], $14::text[], $15::text[],
                       $16::timestamptz[], $17::date[], $18::date[], $19::numeric[], $20::text[], $21::text[], $22::integer[])
             on conflict (tenant_id, event_id, payload_hash)
             do update set reason = excluded.reason, detail = excluded.detail, attempts = excluded.attempts,
                           due_at = excluded.due_at, waits_for = excluded.waits_for, last_held_at = excluded.last_held_at,
                           letter_id = coalesce(excluded.letter_id, fis_held.letter_id),
                           edit_no = case when excluded.letter_id is null then fis_held.edit_no else excluded.edit_no end",
    )
    .bind(column!(held, row => row.tenant_id))
    .bind(column!(held, row => row.event_id))
    .bind(column!(held, row => row.event_type))
    .bind(column!(held, row => row.payload_hash))
    .bind(column!(held, row => row.routing_key))
    .bind(column!(held, row => row.properties))
    .bind(column!(held, row => row.body))
    .bind(column!(held, row => row.reason))
    .bind(column!(held, row => row.detail))
    .bind(column!(held, row => row.attempts))
    .bind(column!(held, row => row.due_at))
    .bind(column!(held, row => row.lane))
    .bind(column!(held, row => row.message_id))
    .bind(column!(held, row => row.correlation_id))
    .bind(column!(held, row => row.waits_for.as_deref()))
    .bind(column!(held, row => row.received_at))
    .bind(column!(held, row => row.counted.day))
    .bind(column!(held, row => row.event_date))
    .bind(column!(held, row => row.counted.money.map(|(amount, _)| amount)))
    .bind(column!(held, row => row.counted.money.map(|(_, currency)| currency.code())))
    .bind(column!(held, row => row.letter.map(|letter| letter.letter_id.as_str())))
    .bind(column!(held, row => row.letter.and_then(|letter| letter.edit_no)))
    .bind(now)
    .execute(db)
    .await?;
    Ok(())
}

/// Puts off an event that is held as it was read; the head of its tenant is locked. `None`: it is held no more, or not like that.
///
/// # Errors
/// The database is away.
pub async fn put_off(
    db: &mut PgConnection,
    ((tenant, event), hash): &HeldContent,
    due_at: DateTime<Utc>,
    seconds: i32,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar(
        "update fis_held
            set due_at = now() + $5 * interval '1 second'
          where tenant_id = $1 and event_id = $2 and payload_hash = $3 and due_at = $4
      returning due_at",
    )
    .bind(tenant.as_str())
    .bind(event.as_str())
    .bind(hash)
    .bind(due_at)
    .bind(seconds)
    .fetch_optional(db)
    .await
}

/// Events released by one transaction: more would keep the tenant's postings waiting for longer than a moment.
pub const RELEASED_MAX: u64 = 10_000;

/// Makes a tenant's named events due; returns their ids.
///
/// # Errors
/// The database is away.
pub async fn free_events(
    db: &mut PgConnection,
    tenant: &TenantId,
    events: &[&str],
) -> Result<Vec<String>, sqlx::Error> {
    let free = free("h.tenant_id = $1 and h.event_id = any($2)");
    let freed: Vec<(String,)> = sqlx::query_as(&free).bind(tenant.as_str()).bind(events).fetch_all(db).await?;
    Ok(freed.into_iter().map(|(event,)| event).collect())
}

/// Makes these tenants' events due, all or those held for a reason.
///
/// # Errors
/// The database is away.
pub async fn free_matching(db: &mut PgConnection, tenants: &[&str], reason: Option<&str>) -> Result<u64, sqlx::Error> {
    let free = free("h.tenant_id = any($1) and ($2::text is null or h.reason = $2)");
    Ok(sqlx::query(&free).bind(tenants).bind(reason).execute(db).await?.rows_affected())
}

/// Makes the events due that wait for one of these causes; tenants and causes side by side.
///
/// # Errors
/// The database is away.
pub async fn free_causes(db: &mut PgConnection, tenants: &[&str], causes: &[String]) -> Result<u64, sqlx::Error> {
    let freed = sqlx::query(
        "update fis_held
            set due_at = now()
          where due_at > now()
            and ctid = any(array(
                select h.ctid
                  from unnest($1::text[], $2::text[]) as gone (tenant_id, cause)
                 cross join lateral (select ctid from fis_held
                                      where tenant_id = gone.tenant_id and waits_for = gone.cause
                                     offset 0) h))",
    );
    Ok(freed.bind(tenants).bind(causes).execute(db).await?.rows_affected())
}

/// Makes whatever is held under these ids due.
///
/// # Errors
/// The database is away.
pub async fn free_ids(db: &mut PgConnection, events: &[EventKey]) -> Result<u64, sqlx::Error> {
    let freed = sqlx::query(
        "update fis_held h
            set due_at = now()
           from unnest($1::text[], $2::text[]) as posted (tenant_id, event_id)
          where h.tenant_id = posted.tenant_id and h.event_id = posted.event_id and h.due_at > now()",
    );
    let freed =
        freed.bind(column!(events, (tenant, _) => tenant.as_str())).bind(column!(events, (_, event) => event.as_str()));
    Ok(freed.execute(db).await?.rows_affected())
}

/// Makes a tenant's events due that wait for one of these causes.
///
/// # Errors
/// The database is away.
pub async fn free_tenant_causes(
    db: &mut PgConnection,
    tenant: &TenantId,
    causes: &[String],
) -> Result<u64, sqlx::Error> {
    let free = free("h.tenant_id = $1 and h.waits_for = any($2)");
    Ok(sqlx::query(&free).bind(tenant.as_str()).bind(causes).execute(db).await?.rows_affected())
}

/// The statement that makes the chosen events due that are not, a bounded number of them. A row's place is as good as its key: under the lock of the
/// heads nobody else moves it. The text is put together from constants only.
fn free(chosen: &'static str) -> String {
    format!(
        "update fis_held
            set due_at = now()
          where ctid = any(array(select h.ctid from fis_held h where h.due_at > now() and {chosen} limit {RELEASED_MAX}))
      returning event_id"
    )
}
