//! The SQL of what does not end in the journal: announcements and retries on their way out, held events. Dead letters: `rejected`.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, Row};

use super::decide::{EventKey, HeldRow, Plan};
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
    let rejected = rejected.map(|(index, row)| outbound::rejected_event(&row.letter, now, index));
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
    .bind(column!(held, row => row.standing.day))
    .bind(column!(held, row => row.event_date))
    .bind(column!(held, row => row.standing.money.map(|(amount, _)| amount)))
    .bind(column!(held, row => row.standing.money.map(|(_, currency)| currency.code())))
    .bind(now)
    .execute(db)
    .await?;
    Ok(())
}
