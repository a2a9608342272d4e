//! The SQL of parking.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::PgConnection;

use crate::domain::dead_letter::DeadLetter;
use crate::domain::ids::{EventId, EventType, TenantId};

/// An edited copy goes by the name of the letter it was made from.
pub async fn adopt(db: &mut PgConnection, letters: &mut [DeadLetter]) -> Result<(), sqlx::Error> {
    let ids: Vec<&str> = letters.iter().map(|letter| letter.id.as_str()).collect();
    let copies: HashMap<String, String> =
        sqlx::query_as("select copy_id, letter_id from fis_dead_letter_edit where copy_id = any($1) order by edit_no")
            .bind(ids)
            .fetch_all(db)
            .await?
            .into_iter()
            .collect();
    for letter in letters {
        if let Some(original) = copies.get(&letter.id) {
            letter.id.clone_from(original);
        }
    }
    Ok(())
}

/// A letter and the tenant's day on which it was received; `None`: it names no tenant, and is not counted.
pub type Dated<'a> = (&'a DeadLetter, Option<NaiveDate>);

/// Writes down what the pipeline has not written down already; returns the ids of those that were new.
pub async fn insert_unrecorded(
    db: &mut PgConnection,
    letters: &[Dated<'_>],
    now: DateTime<Utc>,
) -> Result<HashSet<String>, sqlx::Error> {
    insert(db, letters, &[], now, "on conflict (id) do nothing").await
}

/// Writes down what the broker gave up by itself: one more attempt, and open again if it was closed. Returns their ids.
pub async fn upsert_given_up(
    db: &mut PgConnection,
    letters: &[Dated<'_>],
    now: DateTime<Utc>,
) -> Result<HashSet<String>, sqlx::Error> {
    if letters.is_empty() {
        return Ok(HashSet::new());
    }
    // Locked, so that they are still resolved when they are opened again.
    let resolved: Vec<String> = sqlx::query_scalar(
        "select id from fis_dead_letter where id = any($1) and status = 'resolved' order by id for update",
    )
    .bind(letters.iter().map(|(letter, _)| letter.id.as_str()).collect::<Vec<_>>())
    .fetch_all(&mut *db)
    .await?;
    let conflict = "on conflict (id) do update set reason = excluded.reason, detail = excluded.detail,
                        attempts = d.attempts + 1, status = 'parked', resolved_as = null, entry_id = null,
                        settled_at = null, last_seen_at = excluded.last_seen_at,
                        received_on = case d.status when 'resolved' then excluded.received_on else d.received_on end,
                        event_date = coalesce(d.event_date, excluded.event_date)";
    insert(db, letters, &resolved, now, conflict).await
}

/// Writes and counts in one statement: what is new, or open again after it was resolved, is parked from today on; the others are
/// copies of what is counted already.
async fn insert(
    db: &mut PgConnection,
    letters: &[Dated<'_>],
    resolved: &[String],
    now: DateTime<Utc>,
    conflict: &'static str,
) -> Result<HashSet<String>, sqlx::Error> {
    if letters.is_empty() {
        return Ok(HashSet::new());
    }
    macro_rules! column {
        ($letter:ident => $value:expr) => {
            letters.iter().map(|($letter, _)| $value).collect::<Vec<_>>()
        };
    }
    let days: Vec<Option<NaiveDate>> = letters.iter().map(|(_, day)| *day).collect();
    // The text is put together from constants only.
    let written: Vec<String> = sqlx::query_scalar(&format!(
        "with written as (
             insert into fis_dead_letter as d
                    (id, tenant_id, event_id, event_type, routing_key, lane, reason, detail, message_id, correlation_id,
                     properties, body, amount, currency, payload_hash, received_on, event_date, first_seen_at, last_seen_at)
             select *, coalesce(received_on, ($17 at time zone 'UTC')::date), $17, $17
               from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                           $9::text[], $10::text[], $11::text[], $12::bytea[], $13::numeric[], $14::text[], $15::text[],
                           $16::date[])
                 as l (id, tenant_id, event_id, event_type, routing_key, lane, reason, detail, message_id, correlation_id,
                       properties, body, amount, currency, payload_hash, received_on)
                 {conflict}
           returning d.id, d.tenant_id, d.amount, d.currency, d.xmax = 0 or d.id = any($18) as fresh),
         counted as (
             insert into fis_received as r (tenant_id, received_on, outcome, currency, events, amount)
             select *
               from (select w.tenant_id, l.received_on, case when w.fresh then 'parked' else 'duplicate' end as outcome,
                            coalesce(w.currency, '') as currency, count(*), coalesce(sum(w.amount), 0)
                       from written w
                       join unnest($1::text[], $16::date[]) as l (id, received_on) using (id)
                      where w.tenant_id is not null and l.received_on is not null
                      group by 1, 2, 3, 4) news
              order by tenant_id collate \"C\", received_on, outcome collate \"C\", currency collate \"C\"
                 on conflict (tenant_id, received_on, outcome, currency)
                 do update set events = r.events + excluded.events, amount = r.amount + excluded.amount)
         select id from written"
    ))
    .bind(column!(letter => letter.id.as_str()))
    .bind(column!(letter => letter.identity.tenant_id.as_ref().map(TenantId::as_str)))
    .bind(column!(letter => letter.identity.event_id.as_ref().map(EventId::as_str)))
    .bind(column!(letter => letter.identity.event_type.as_ref().map(EventType::as_str)))
    .bind(column!(letter => letter.routing_key.as_str()))
    .bind(column!(letter => letter.lane))
    .bind(column!(letter => letter.failure.reason.code()))
    .bind(column!(letter => letter.failure.detail.as_str()))
    .bind(column!(letter => letter.message_id.as_deref()))
    .bind(column!(letter => letter.identity.correlation_id.as_deref()))
    .bind(column!(letter => letter.properties.as_str()))
    .bind(column!(letter => letter.body.as_slice()))
    .bind(column!(letter => letter.money.map(|(amount, _)| amount)))
    .bind(column!(letter => letter.money.map(|(_, currency)| currency.code())))
    .bind(column!(letter => letter.payload_hash.as_deref()))
    .bind(days)
    .bind(now)
    .bind(resolved)
    .fetch_all(db)
    .await?;
    Ok(written.into_iter().collect())
}
