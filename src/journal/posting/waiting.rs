//! Rows of what does not end in the journal: retries and held events, announcements of rejections and complete batches. The plan of a batch
//! enters, rows for the store leave.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::plan::{HeldRow, Plan};
use crate::domain::outbound::{self, OutboundEvent};
use crate::store::held::{self, HoldRow};
use crate::store::outbox::{self, PropertiesText, RetryPlaces, RetryRow};

/// Writes the retries of held events, due later.
pub async fn insert_retries(db: &mut PgConnection, held: &[HeldRow]) -> Result<RetryPlaces, sqlx::Error> {
    outbox::insert_retries(db, &held.iter().map(retry_row).collect::<Vec<_>>()).await
}

fn retry_row(row: &HeldRow) -> RetryRow<'_> {
    RetryRow {
        tenant_id: row.facts.tenant_id.as_str(),
        routing_key: &row.retry.routing_key,
        message_id: &row.retry.message_id,
        properties: &row.retry.properties,
        body: &row.retry.body,
        due_at: row.due_at,
    }
}

/// Writes rejections and complete batches, which are told to their publishers at once.
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
    outbox::insert_announcements(db, &told, properties).await
}

/// Writes held events, each linked to its retry.
pub async fn upsert_held(
    db: &mut PgConnection,
    held: &[HeldRow],
    places: &RetryPlaces,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    // The same event twice in one batch is one row: the last word counts.
    let newest: BTreeMap<_, _> = held.iter().map(|row| ((&row.facts.tenant_id, &row.facts.event_id), row)).collect();
    let rows: Vec<HoldRow<'_>> = newest.into_values().map(|row| hold_row(row, places)).collect();
    held::upsert(db, &rows, now).await
}

fn hold_row<'a>(row: &'a HeldRow, places: &RetryPlaces) -> HoldRow<'a> {
    let place = places.get(&row.retry.message_id);
    HoldRow {
        tenant_id: row.facts.tenant_id.as_str(),
        event_id: row.facts.event_id.as_str(),
        event_type: row.facts.event_type.as_str(),
        payload_hash: &row.facts.payload_hash,
        routing_key: &row.retry.routing_key,
        reason: row.failure.reason.code(),
        detail: &row.failure.detail,
        attempts: i32::try_from(row.attempts).unwrap_or(i32::MAX),
        due_at: place.map_or(row.due_at, |(_, due_at)| *due_at),
        lane: row.facts.lane,
        message_id: row.facts.message_id.as_deref(),
        correlation_id: row.facts.correlation_id.as_deref(),
        waits_for: row.failure.waits_for.as_ref().map(ToString::to_string),
        outbox_id: place.map(|(id, _)| *id),
        counted: row.counted,
        event_date: row.event_date,
    }
}
