//! Rows of what does not end in the journal: held events, announcements of rejections and complete batches. The plan of a batch
//! enters, rows for the store leave.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::plan::{HeldRow, Plan};
use crate::domain::outbound::{self, OutboundEvent};
use crate::store::held::{self, HoldRow};
use crate::store::outbox::{self, PropertiesText};

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

/// Writes held events.
pub async fn upsert_held(db: &mut PgConnection, held: &[HeldRow], now: DateTime<Utc>) -> Result<(), sqlx::Error> {
    held::upsert(db, &held.iter().map(hold_row).collect::<Vec<_>>(), now).await
}

fn hold_row(row: &HeldRow) -> HoldRow<'_> {
    HoldRow {
        tenant_id: row.facts.tenant_id.as_str(),
        event_id: row.facts.event_id.as_str(),
        event_type: row.facts.event_type.as_str(),
        payload_hash: &row.facts.payload_hash,
        routing_key: &row.message.routing_key,
        properties: &row.message.properties,
        body: &row.message.body,
        reason: row.failure.reason.code(),
        detail: &row.failure.detail,
        attempts: i32::try_from(row.attempts).unwrap_or(i32::MAX),
        due_at: row.due_at,
        lane: row.facts.lane,
        message_id: row.facts.message_id.as_deref(),
        correlation_id: row.facts.correlation_id.as_deref(),
        waits_for: row.failure.waits_for.as_ref().map(ToString::to_string),
        received_at: row.message.received_at,
        counted: row.counted,
        event_date: row.event_date,
        letter: row.letter.as_ref(),
    }
}
