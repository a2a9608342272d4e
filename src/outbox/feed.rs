//! What the feed is made of: an entry enters, the message that announces it leaves. The relay and a resend both come through
//! here, so that a message sent again next year has the same bytes, the same id and the same properties.

use std::collections::HashMap;

use sqlx::{PgConnection, Row};

use super::properties;
use crate::domain::chain::ChainedEntry;
use crate::domain::outbound::{DOMAIN_EXCHANGE, journal_event};
use crate::platform::amqp::OutMessage;

/// The message that announces an entry.
#[must_use]
pub fn journal_message(entry: &ChainedEntry) -> OutMessage {
    let event = journal_event(entry);
    OutMessage {
        exchange: DOMAIN_EXCHANGE.to_owned(),
        routing_key: event.kind.routing_key().to_owned(),
        properties: properties(&event),
        message_id: event.message_id,
        body: event.body,
    }
}

/// The first entry of each tenant that has not been announced yet. Whatever lies before it has been confirmed.
///
/// # Errors
/// The database is away.
pub async fn first_pending(db: &mut PgConnection) -> Result<HashMap<String, i64>, sqlx::Error> {
    let rows = sqlx::query(
        "select tenant_id, min(seq) as first
           from fis_outbox
          where seq is not null
          group by tenant_id",
    )
    .fetch_all(db)
    .await?;
    rows.iter().map(|row| Ok((row.try_get("tenant_id")?, row.try_get("first")?))).collect()
}
