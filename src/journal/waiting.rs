//! The SQL of what does not end in the journal: announcements and retries on their way out, held events, dead letters.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::decide::{EventKey, HeldRow, Plan, RejectedRow};
use super::received::{Column, Counts, money};
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

/// What the batch says of one dead letter.
struct Told<'a> {
    letter: &'a DeadLetter,
    rows: Vec<&'a RejectedRow>,
}

impl Told<'_> {
    /// The day on which it is counted if it is new: that of the held event that it was, else of its receipt.
    fn day(&self) -> Option<NaiveDate> {
        let passage = &self.rows.first()?.passage;
        self.letter.identity.tenant_id.as_ref().map(|_| passage.day())
    }

    fn event_date(&self) -> Option<NaiveDate> {
        self.rows.first().map(|row| row.passage.arrival.event_date)
    }

    fn deliveries(&self) -> i64 {
        self.rows.iter().map(|row| row.passage.arrival.deliveries).max().unwrap_or(0)
    }

    fn attempts(&self) -> i32 {
        i32::try_from(self.rows.len()).unwrap_or(i32::MAX)
    }
}

/// Drops the rejections that are committed already: the session ended before the broker heard of them, so the message came once
/// more. A publisher that sends it again is another matter: that message has not been delivered before. Returns which
/// letters there are, and in which state; locked, so that it stays so.
pub async fn forget_told(
    db: &mut PgConnection,
    rejected: &mut Vec<RejectedRow>,
) -> Result<HashMap<String, String>, sqlx::Error> {
    if rejected.is_empty() {
        return Ok(HashMap::new());
    }
    let known: Vec<(String, String, i64)> =
        sqlx::query_as("select id, status, deliveries from fis_dead_letter where id = any($1) order by id for update")
            .bind(column!(rejected, row => row.letter.id.as_str()))
            .fetch_all(&mut *db)
            .await?;
    let mut parked: HashMap<&str, i64> =
        known.iter().filter(|(_, status, _)| status == "parked").map(|(id, _, count)| (id.as_str(), *count)).collect();
    let mut again: HashMap<String, i64> = HashMap::new();
    rejected.retain(|row| {
        let deliveries = row.passage.arrival.deliveries;
        let is_told = parked.get_mut(row.letter.id.as_str()).filter(|told| deliveries > **told);
        if let Some(told) = is_told {
            *told = deliveries;
            again.insert(row.letter.id.clone(), deliveries);
            return false;
        }
        true
    });
    if !again.is_empty() {
        sqlx::query(
            "update fis_dead_letter d
                set deliveries = again.deliveries
               from unnest($1::text[], $2::bigint[]) as again (id, deliveries)
              where d.id = again.id",
        )
        .bind(column!(again, (id, _) => id.as_str()))
        .bind(column!(again, (_, deliveries) => *deliveries))
        .execute(db)
        .await?;
    }
    Ok(known.into_iter().map(|(id, status, _)| (id, status)).collect())
}

/// The same message again is one more attempt of the same dead letter, and opens it again.
pub async fn upsert_dead_letters(
    db: &mut PgConnection,
    rejected: &[RejectedRow],
    before: &HashMap<String, String>,
    now: DateTime<Utc>,
    counts: &mut Counts,
) -> Result<(), sqlx::Error> {
    let mut told: BTreeMap<&str, Told<'_>> = BTreeMap::new();
    for row in rejected {
        let letter = &row.letter;
        let known = told.entry(&letter.id).or_insert_with(|| Told { letter, rows: Vec::new() });
        known.letter = letter;
        known.rows.push(row);
    }
    let letters: Vec<Told<'_>> = told.into_values().collect();
    if letters.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query(
        "insert into fis_dead_letter as d
             (id, tenant_id, event_id, event_type, routing_key, lane, reason, detail, attempts, amount, currency,
              message_id, correlation_id, properties, body, payload_hash, received_on, event_date, deliveries,
              first_seen_at, last_seen_at)
         select *, $20, $20
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                       $9::integer[], $10::numeric[], $11::text[], $12::text[], $13::text[], $14::text[], $15::bytea[],
                       $16::text[], $17::date[], $18::date[], $19::bigint[])
             on conflict (id)
             do update set reason = excluded.reason, detail = excluded.detail, attempts = d.attempts + excluded.attempts,
                           status = 'parked', resolved_as = null, entry_id = null, settled_at = null,
                           last_seen_at = excluded.last_seen_at, deliveries = excluded.deliveries,
                           received_on = case d.status when 'resolved' then excluded.received_on else d.received_on end,
                           event_date = coalesce(d.event_date, excluded.event_date)
             -- What was superseded or edited conflicts with what was booked instead of it: that is no news.
             where not (d.status = 'resolved' and d.resolved_as <> 'ignored' and excluded.reason = 'idempotency_conflict')
      returning d.id, d.received_on, d.amount, d.currency, d.xmax = 0 as inserted",
    )
    .bind(column!(letters, told => told.letter.id.as_str()))
    .bind(column!(letters, told => told.letter.identity.tenant_id.as_ref().map(TenantId::as_str)))
    .bind(column!(letters, told => told.letter.identity.event_id.as_ref().map(EventId::as_str)))
    .bind(column!(letters, told => told.letter.identity.event_type.as_ref().map(EventType::as_str)))
    .bind(column!(letters, told => told.letter.routing_key.as_str()))
    .bind(column!(letters, told => told.letter.lane))
    .bind(column!(letters, told => told.letter.failure.reason.code()))
    .bind(column!(letters, told => told.letter.failure.detail.as_str()))
    .bind(column!(letters, told => told.attempts()))
    .bind(column!(letters, told => told.letter.money.map(|(amount, _)| amount)))
    .bind(column!(letters, told => told.letter.money.map(|(_, currency)| currency.code())))
    .bind(column!(letters, told => told.letter.message_id.as_deref()))
    .bind(column!(letters, told => told.letter.identity.correlation_id.as_deref()))
    .bind(column!(letters, told => told.letter.properties.as_str()))
    .bind(column!(letters, told => told.letter.body.as_slice()))
    .bind(column!(letters, told => told.letter.payload_hash.as_deref()))
    .bind(column!(letters, told => told.day()))
    .bind(column!(letters, told => told.event_date()))
    .bind(column!(letters, told => told.deliveries()))
    .bind(now)
    .fetch_all(db)
    .await?;
    count_letters(&letters, before, &rows, counts)
}

/// A letter that is new, or was resolved and is open again, is counted as parked; every other message of it is a copy.
fn count_letters(
    letters: &[Told<'_>],
    before: &HashMap<String, String>,
    rows: &[PgRow],
    counts: &mut Counts,
) -> Result<(), sqlx::Error> {
    let mut fresh = HashMap::with_capacity(rows.len());
    for row in rows {
        let id: &str = row.try_get("id")?;
        let is_fresh = match before.get(id).map(String::as_str) {
            Some(status) => status == "resolved",
            None => row.try_get("inserted")?,
        };
        if let (true, Some(day)) = (is_fresh, row.try_get::<Option<NaiveDate>, _>("received_on")?) {
            fresh.insert(id, (day, money(row)?));
        }
    }
    for told in letters {
        let Some(tenant) = &told.letter.identity.tenant_id else { continue };
        let mut own = fresh.remove(told.letter.id.as_str());
        for row in &told.rows {
            match own.take() {
                Some((day, money)) => {
                    counts.add(tenant, day, Column::Parked, 1, money);
                    counts.no_longer_held(tenant, &row.passage);
                }
                None => {
                    counts.copy(tenant, &row.passage);
                    counts.held_to(tenant, row.passage.held, Column::Duplicate);
                }
            }
        }
    }
    Ok(())
}
