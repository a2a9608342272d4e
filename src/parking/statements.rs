//! The SQL of parking.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
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

/// Writes down what the pipeline has not written down already; returns the ids of those that were new.
pub async fn insert_unrecorded(
    db: &mut PgConnection,
    letters: &[DeadLetter],
    now: DateTime<Utc>,
) -> Result<HashSet<String>, sqlx::Error> {
    insert(db, letters, now, "on conflict (id) do nothing").await
}

/// Writes down what the broker gave up by itself: one more attempt, and open again if it was closed. Returns their ids.
pub async fn upsert_given_up(
    db: &mut PgConnection,
    letters: &[DeadLetter],
    now: DateTime<Utc>,
) -> Result<HashSet<String>, sqlx::Error> {
    // An upsert cannot touch a row twice: the same letter twice in a batch is one.
    let mut unique: Vec<DeadLetter> = Vec::with_capacity(letters.len());
    for letter in letters {
        if !unique.iter().any(|known| known.id == letter.id) {
            unique.push(letter.clone());
        }
    }
    let conflict = "on conflict (id) do update set reason = excluded.reason, detail = excluded.detail,
                        attempts = fis_dead_letter.attempts + 1, status = 'parked', resolved_as = null, entry_id = null,
                        settled_at = null, last_seen_at = excluded.last_seen_at";
    insert(db, &unique, now, conflict).await
}

async fn insert(
    db: &mut PgConnection,
    letters: &[DeadLetter],
    now: DateTime<Utc>,
    conflict: &'static str,
) -> Result<HashSet<String>, sqlx::Error> {
    if letters.is_empty() {
        return Ok(HashSet::new());
    }
    macro_rules! column {
        ($letter:ident => $value:expr) => {
            letters.iter().map(|$letter| $value).collect::<Vec<_>>()
        };
    }
    // The text is put together from constants only.
    let written: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
        "insert into fis_dead_letter
             (id, tenant_id, event_id, event_type, routing_key, lane, reason, detail, message_id, correlation_id,
              properties, body, amount, currency, payload_hash, first_seen_at, last_seen_at)
         select *, $16, $16
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                       $9::text[], $10::text[], $11::text[], $12::bytea[], $13::numeric[], $14::text[], $15::text[])
             {conflict}
       returning id"
    )))
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
    .bind(now)
    .fetch_all(db)
    .await?;
    Ok(written.into_iter().collect())
}
