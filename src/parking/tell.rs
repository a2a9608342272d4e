//! What the broker gave up by itself is told to its publisher too, by an outbox row in the transaction that records it: the
//! publisher need not care who refused an event.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use crate::domain::dead_letter::DeadLetter;
use crate::domain::outbound::{DOMAIN_EXCHANGE, OutboundEvent, rejected_event};

/// Writes the properties of an outbound event; given by the caller, because the stages do not know one another.
pub type PropertiesText = fn(&OutboundEvent) -> String;

/// Announces the rejection of these letters.
pub async fn insert_rejections(
    db: &mut PgConnection,
    letters: impl Iterator<Item = &DeadLetter>,
    now: DateTime<Utc>,
    properties: PropertiesText,
) -> Result<(), sqlx::Error> {
    let told: Vec<OutboundEvent> =
        letters.enumerate().map(|(index, letter)| rejected_event(letter, now, index)).collect();
    if told.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into fis_outbox (tenant_id, exchange, routing_key, message_id, properties, body)
         select t, $6, k, m, p, b
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[]) as told (t, k, m, p, b)",
    )
    .bind(told.iter().map(|event| event.tenant_id.as_deref()).collect::<Vec<_>>())
    .bind(told.iter().map(|event| event.kind.routing_key()).collect::<Vec<_>>())
    .bind(told.iter().map(|event| event.message_id.as_str()).collect::<Vec<_>>())
    .bind(told.iter().map(properties).collect::<Vec<_>>())
    .bind(told.iter().map(|event| event.body.as_slice()).collect::<Vec<_>>())
    .bind(DOMAIN_EXCHANGE)
    .execute(db)
    .await?;
    Ok(())
}
