//! The SQL of parking.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use crate::domain::dead_letter::DeadLetter;
use crate::domain::ids::{EventId, EventType, TenantId};

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
                        attempts = fis_dead_letter.attempts + 1, status = 'parked', last_seen_at = excluded.last_seen_at";
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
              properties, body, first_seen_at, last_seen_at)
         select *, $13, $13
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                       $9::text[], $10::text[], $11::text[], $12::bytea[])
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
    .bind(now)
    .fetch_all(db)
    .await?;
    Ok(written.into_iter().collect())
}
