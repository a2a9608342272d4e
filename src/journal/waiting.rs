//! The SQL of what does not end in the journal: announcements and retries on their way out, held events, dead letters.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, Row};

use super::decide::{EventKey, HeldRow, Plan};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::ids::{EventId, EventType, TenantId};
use crate::domain::outbound::{self, DOMAIN_EXCHANGE, OutboundEvent};

/// Where retries go: never to the publishers' exchange, where other consumers would get them again.
const RETRY_EXCHANGE: &str = "fis.backfill.exchange";

/// How an announcement's message properties are written down; the outbox knows.
pub type PropertiesText = fn(&OutboundEvent) -> String;

macro_rules! column {
    ($rows:expr, $row:pat => $value:expr) => {
        $rows.iter().map(|$row| $value).collect::<Vec<_>>()
    };
}

/// Where each retry waits, and until when, by its message id.
pub type RetryPlaces = HashMap<String, (i64, DateTime<Utc>)>;

/// Retries of held events, due later.
pub async fn insert_retries(db: &mut PgConnection, held: &[HeldRow]) -> Result<RetryPlaces, sqlx::Error> {
    if held.is_empty() {
        return Ok(RetryPlaces::new());
    }
    let rows = sqlx::query(
        "insert into fis_outbox (tenant_id, exchange, routing_key, message_id, properties, body, due_at)
         select t, $7, k, m, p, b, d
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::timestamptz[]) as held (t, k, m, p, b, d)
      returning message_id, id, due_at",
    )
    .bind(column!(held, row => row.facts.tenant_id.as_str()))
    .bind(column!(held, row => row.retry.routing_key.as_str()))
    .bind(column!(held, row => row.retry.message_id.as_str()))
    .bind(column!(held, row => row.retry.properties.as_str()))
    .bind(column!(held, row => row.retry.body.as_slice()))
    .bind(column!(held, row => row.due_at))
    .bind(RETRY_EXCHANGE)
    .fetch_all(db)
    .await?;
    rows.iter().map(|row| Ok((row.try_get("message_id")?, (row.try_get("id")?, row.try_get("due_at")?)))).collect()
}

/// Rejections and complete batches, told to their publishers at once.
pub async fn insert_announcements(
    db: &mut PgConnection,
    plan: &Plan,
    now: DateTime<Utc>,
    properties: PropertiesText,
) -> Result<(), sqlx::Error> {
    let rejected = plan.rejected.iter().enumerate();
    let rejected = rejected.map(|(index, letter)| outbound::rejected_event(letter, now, index));
    let completed = plan.tally.completed.iter().map(|batch| batch.announcement(now));
    let told: Vec<OutboundEvent> = rejected.chain(completed).collect();
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

/// Forgets what is held no more.
pub async fn release_held(db: &mut PgConnection, released: &[EventKey]) -> Result<(), sqlx::Error> {
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

pub async fn upsert_held(
    db: &mut PgConnection,
    held: &[HeldRow],
    places: &RetryPlaces,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    // The same event twice in one batch is one row (an upsert cannot touch a row twice): the last word counts.
    let newest: BTreeMap<_, _> = held.iter().map(|row| ((&row.facts.tenant_id, &row.facts.event_id), row)).collect();
    let held: Vec<&HeldRow> = newest.into_values().collect();
    if held.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into fis_held (tenant_id, event_id, event_type, payload_hash, routing_key, reason, detail, attempts,
                               due_at, lane, message_id, correlation_id, waits_for, outbox_id, first_held_at, last_held_at)
         select *, $15, $15
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::integer[],
                       $9::timestamptz[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bigint[])
             on conflict (tenant_id, event_id)
             do update set reason = excluded.reason, detail = excluded.detail, attempts = excluded.attempts,
                           payload_hash = excluded.payload_hash, due_at = excluded.due_at, last_held_at = excluded.last_held_at,
                           waits_for = excluded.waits_for, outbox_id = excluded.outbox_id",
    )
    .bind(column!(held, row => row.facts.tenant_id.as_str()))
    .bind(column!(held, row => row.facts.event_id.as_str()))
    .bind(column!(held, row => row.facts.event_type.as_str()))
    .bind(column!(held, row => row.facts.payload_hash.as_str()))
    .bind(column!(held, row => row.retry.routing_key.as_str()))
    .bind(column!(held, row => row.failure.reason.code()))
    .bind(column!(held, row => row.failure.detail.as_str()))
    .bind(column!(held, row => i32::try_from(row.attempts).unwrap_or(i32::MAX)))
    // The due time of exactly the row that is linked: the same message may wait twice.
    .bind(column!(held, row => places.get(&row.retry.message_id).map_or(row.due_at, |(_, due_at)| *due_at)))
    .bind(column!(held, row => row.facts.lane))
    .bind(column!(held, row => row.facts.message_id.as_deref()))
    .bind(column!(held, row => row.facts.correlation_id.as_deref()))
    .bind(column!(held, row => row.failure.waits_for.as_ref().map(ToString::to_string)))
    .bind(column!(held, row => places.get(&row.retry.message_id).map(|(id, _)| *id)))
    .bind(now)
    .execute(db)
    .await?;
    Ok(())
}

/// The same message again is one more attempt of the same dead letter, and opens it again.
pub async fn upsert_dead_letters(
    db: &mut PgConnection,
    rejected: &[DeadLetter],
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let mut counted: BTreeMap<&str, (&DeadLetter, i32)> = BTreeMap::new();
    for letter in rejected {
        counted.entry(&letter.id).and_modify(|known| *known = (letter, known.1 + 1)).or_insert((letter, 1));
    }
    let letters: Vec<(&DeadLetter, i32)> = counted.into_values().collect();
    if letters.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into fis_dead_letter as d
             (id, tenant_id, event_id, event_type, routing_key, lane, reason, detail, attempts, amount, currency,
              message_id, correlation_id, properties, body, payload_hash, first_seen_at, last_seen_at)
         select *, $17, $17
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                       $9::integer[], $10::numeric[], $11::text[], $12::text[], $13::text[], $14::text[], $15::bytea[],
                       $16::text[])
             on conflict (id)
             do update set reason = excluded.reason, detail = excluded.detail, attempts = d.attempts + excluded.attempts,
                           status = 'parked', resolved_as = null, entry_id = null, settled_at = null,
                           last_seen_at = excluded.last_seen_at
             -- What was superseded or edited conflicts with what was booked instead of it: that is no news.
             where not (d.status = 'resolved' and d.resolved_as <> 'ignored' and excluded.reason = 'idempotency_conflict')",
    )
    .bind(column!(letters, (letter, _) => letter.id.as_str()))
    .bind(column!(letters, (letter, _) => letter.identity.tenant_id.as_ref().map(TenantId::as_str)))
    .bind(column!(letters, (letter, _) => letter.identity.event_id.as_ref().map(EventId::as_str)))
    .bind(column!(letters, (letter, _) => letter.identity.event_type.as_ref().map(EventType::as_str)))
    .bind(column!(letters, (letter, _) => letter.routing_key.as_str()))
    .bind(column!(letters, (letter, _) => letter.lane))
    .bind(column!(letters, (letter, _) => letter.failure.reason.code()))
    .bind(column!(letters, (letter, _) => letter.failure.detail.as_str()))
    .bind(column!(letters, (_, attempts) => *attempts))
    .bind(column!(letters, (letter, _) => letter.money.map(|(amount, _)| amount)))
    .bind(column!(letters, (letter, _) => letter.money.map(|(_, currency)| currency.code())))
    .bind(column!(letters, (letter, _) => letter.message_id.as_deref()))
    .bind(column!(letters, (letter, _) => letter.identity.correlation_id.as_deref()))
    .bind(column!(letters, (letter, _) => letter.properties.as_str()))
    .bind(column!(letters, (letter, _) => letter.body.as_slice()))
    .bind(column!(letters, (letter, _) => letter.payload_hash.as_deref()))
    .bind(now)
    .execute(db)
    .await?;
    Ok(())
}
