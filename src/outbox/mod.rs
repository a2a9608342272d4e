//! Stage 3: it leaves. Rows of `fis_outbox` enter, confirmed messages leave, in order per tenant. A row is removed only after
//! the broker has confirmed its message and has not given it back: confirm, then remove. A crash in between sends a
//! window again, with the same ids and the same bytes.

mod feed;
mod handover;
mod messages;
mod mirror;
mod relay;

pub use feed::{TenantKeys, journal_message};
pub use handover::Handover;
pub use mirror::{Mirror, MirrorSettings, WrongSetting};
pub use relay::{Relay, flight};

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::names::{SEQUENCE_HEADER, TENANT_HEADER, TRACEPARENT_HEADER};
use crate::domain::outbound::{CONTENT_TYPE, OutboundEvent};
use crate::platform::amqp::Properties;

/// The time that an instance that is not the owner waits before it asks again: about a second, and not all at once.
fn stand_by() -> Duration {
    Duration::from_millis(fastrand::u64(750..=1250))
}

/// Waits; true: told to stop.
async fn wait(duration: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(duration) => false,
        () = stop.cancelled() => true,
    }
}

/// The message properties of an outbound event.
#[must_use]
pub fn properties(event: &OutboundEvent) -> Properties {
    let properties = Properties::default()
        .with_content_type(CONTENT_TYPE)
        .with_kind(event.kind.routing_key())
        .with_message_id(&event.message_id)
        .with_timestamp(event.time.timestamp())
        .with_headers(
            [(TENANT_HEADER, event.tenant_id.as_deref()), (TRACEPARENT_HEADER, event.traceparent.as_deref())],
            [(SEQUENCE_HEADER, event.sequence)],
        );
    match &event.correlation_id {
        Some(correlation_id) => properties.with_correlation_id(correlation_id),
        None => properties,
    }
}

/// The message properties of an outbound event, as the outbox stores them.
#[must_use]
pub fn properties_text(event: &OutboundEvent) -> String {
    properties(event).to_text()
}
