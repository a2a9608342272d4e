//! The SQL of rejections: dead letters as the posting transaction records them, once per rejection.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::decide::RejectedRow;
use super::received::{Column, Counts};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::ids::{EventId, EventType, TenantId};
use crate::store::rows;

macro_rules! column {
    ($rows:expr, $row:pat => $value:expr) => {
        $rows.iter().map(|$row| $value).collect::<Vec<_>>()
    };
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
            fresh.insert(id, (day, rows::worth(row)?));
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
