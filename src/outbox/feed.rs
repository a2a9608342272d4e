//! What the feed is made of: an entry enters, the message that announces it leaves. The relay and a resend both come through
//! here, so that a message sent again next year has the same bytes, the same id and the same properties.

use super::properties;
use crate::domain::chain::ChainedEntry;
use crate::domain::names::DOMAIN_EXCHANGE;
use crate::domain::outbound::{journal_event, key_of_tenant};
use crate::platform::amqp::OutMessage;

/// The setting `outbox.tenant_keys`: whether announcements can be bound by tenant as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantKeys(pub bool);

impl TenantKeys {
    /// The second key of an announcement, where it has one.
    #[must_use]
    pub fn of(self, routing_key: &str, tenant: &str) -> Option<String> {
        self.0.then(|| key_of_tenant(routing_key, tenant))
    }
}

/// The message that announces an entry.
#[must_use]
pub fn journal_message(entry: &ChainedEntry, keys: TenantKeys) -> OutMessage {
    let event = journal_event(entry);
    OutMessage {
        exchange: DOMAIN_EXCHANGE.to_owned(),
        routing_key: event.kind.routing_key().to_owned(),
        hidden_key: keys.of(event.kind.routing_key(), entry.origin.tenant_id.as_str()),
        properties: properties(&event),
        message_id: event.message_id,
        body: event.body,
    }
}
