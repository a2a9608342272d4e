//! The reading of held events: those that a batch meets, and lists for people.

use std::collections::HashMap;

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::domain::disposition::Reason;
use crate::domain::ids::{EventId, EventKey, TenantId};
use crate::domain::money::Worth;
use crate::faults::mutants::{self, mutant};
use crate::store::rows;

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
    pub attempts: u32,
    pub due_at: DateTime<Utc>,
    pub counted: CountedHold,
    /// The dead letter that waits with it.
    pub letter_id: Option<String>,
}

/// The events of a batch that are held. Content under an id is held once, and other content may be held beside it.
#[derive(Debug, Default)]
pub struct Holds(HashMap<EventKey, Vec<KnownHold>>);

impl Holds {
    /// The hold of this very content.
    #[must_use]
    pub fn copy(&self, key: &EventKey, payload_hash: &str) -> Option<&KnownHold> {
        self.0.get(key)?.iter().find(|held| held.payload_hash == payload_hash)
    }

    /// Takes the hold of this very content out.
    pub fn take(&mut self, key: &EventKey, payload_hash: &str) -> Option<KnownHold> {
        let holds = self.0.get_mut(key)?;
        let is_it = |held: &KnownHold| held.payload_hash == payload_hash || mutant(mutants::HOLD_KNOWN_BY_ID);
        let place = holds.iter().position(is_it)?;
        Some(holds.swap_remove(place))
    }

    /// Puts a hold in the place of the one with the same content.
    pub fn put(&mut self, key: EventKey, hold: KnownHold) {
        self.take(&key, &hold.payload_hash);
        self.0.entry(key).or_default().push(hold);
    }

    /// Tells whether anything is held under the id.
    #[must_use]
    pub fn any(&self, key: &EventKey) -> bool {
        self.0.get(key).is_some_and(|holds| !holds.is_empty())
    }
}

/// The events among these that are held.
///
/// # Errors
/// The database is away, or holds what no version of this program has written.
pub async fn find(
    db: &mut PgConnection,
    wanted: impl Iterator<Item = (&TenantId, &EventId)>,
) -> Result<Holds, sqlx::Error> {
    let (tenants, events): (Vec<&str>, Vec<&str>) =
        wanted.map(|(tenant, event)| (tenant.as_str(), event.as_str())).unzip();
    let rows = sqlx::query(
        "select wanted.tenant_id, wanted.event_id, h.payload_hash, h.attempts, h.due_at, h.received_on, h.amount, h.currency,
                h.letter_id
           from (select distinct * from unnest($1::text[], $2::text[])) as wanted (tenant_id, event_id)
          cross join lateral (
                select payload_hash, attempts, due_at, received_on, amount, currency, letter_id
                  from fis_held
                 where tenant_id = wanted.tenant_id and event_id = wanted.event_id
                 -- The primary key alone has this order. In a table that was small when this was planned the index of turns would do as
                 -- well, and lead through everything that the tenant has held.
                 order by payload_hash
                offset 0) h",
    )
    .bind(tenants)
    .bind(events)
    .fetch_all(db)
    .await?;
    let mut held = Holds::default();
    for row in rows {
        let hold = KnownHold {
            payload_hash: row.try_get("payload_hash")?,
            attempts: u32::try_from(row.try_get::<i32, _>("attempts")?).unwrap_or(0),
            due_at: row.try_get("due_at")?,
            counted: CountedHold { day: row.try_get("received_on")?, money: rows::worth(&row)? },
            letter_id: row.try_get("letter_id")?,
        };
        held.put(rows::event_key(&row)?, hold);
    }
    Ok(held)
}

/// Tells whether anything of these tenants waits for an event. Mostly what is held waits for something else.
///
/// # Errors
/// The database is away.
pub async fn any_waits_for_event(db: &mut PgConnection, tenants: &[&str]) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (select
                          from unnest($1::text[]) as tenant (id)
                         cross join lateral (select from fis_held
                                              where tenant_id = tenant.id and waits_for >= 'event:' and waits_for < 'event;'
                                              limit 1) h)",
    )
    .bind(tenants)
    .fetch_one(db)
    .await
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

pub(in crate::store) fn held_event(row: &PgRow) -> Result<HeldEvent, sqlx::Error> {
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

/// The causes for which a tenant's events wait. Few causes hold many events: it walks from cause to cause, not from row to row.
///
/// # Errors
/// The database is away.
pub async fn causes(db: &mut PgConnection, tenant: &TenantId) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "with recursive cause (waits_for) as (
             (select waits_for from fis_held where tenant_id = $1 and waits_for is not null order by waits_for limit 1)
              union all
             select next.waits_for
               from cause
              cross join lateral (select waits_for from fis_held where tenant_id = $1 and waits_for > cause.waits_for
                                   order by waits_for limit 1) next)
         select waits_for from cause",
    )
    .bind(tenant.as_str())
    .fetch_all(db)
    .await
}
