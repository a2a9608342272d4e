//! Stage 3: it leaves. Rows of `fis_outbox` enter, confirmed messages leave, in order per tenant. A row is removed only after
//! the broker has confirmed its message and has not given it back: confirm, then remove. A crash in between sends a
//! window again, with the same ids and the same bytes.

mod relay;
mod statements;
mod window;

pub use relay::{Entries, Relay};
pub use statements::{Backlog, backlog};

use crate::domain::outbound::{CONTENT_TYPE, OutboundEvent};
use crate::platform::amqp::Properties;

/// The message properties of an outbound event.
#[must_use]
pub fn properties(event: &OutboundEvent) -> Properties {
    let mut properties = Properties::default()
        .with_content_type(CONTENT_TYPE)
        .with_kind(event.kind.routing_key())
        .with_message_id(&event.message_id)
        .with_timestamp(event.time.timestamp());
    if let Some(tenant) = &event.tenant_id {
        properties = properties.with_header("x-fis-tenant", tenant);
    }
    if let Some(sequence) = event.sequence {
        properties = properties.with_number("x-fis-sequence", sequence);
    }
    if let Some(correlation_id) = &event.correlation_id {
        properties = properties.with_correlation_id(correlation_id);
    }
    if let Some(traceparent) = &event.traceparent {
        properties = properties.with_header("traceparent", traceparent);
    }
    properties
}

/// The same, as the outbox stores it.
#[must_use]
pub fn properties_text(event: &OutboundEvent) -> String {
    properties(event).to_text()
}
