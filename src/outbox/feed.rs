//! What the feed is made of: an entry enters, the message that announces it leaves. The relay and a resend both come through
//! here, so that a message sent again next year has the same bytes, the same id and the same properties.

use super::properties;
use crate::domain::chain::ChainedEntry;
use crate::domain::names::DOMAIN_EXCHANGE;
use crate::domain::outbound::journal_event;
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
