//! The feed as its readers get it: watched, proven, sent again. Reading takes nothing from anybody; a resend sends the identical bytes, so
//! that a reader recognises what it has.

mod against;
mod resend;
mod stopped;
mod tail;
mod verify;
mod walk;

pub use against::FeedDebt;
pub use resend::{ReaderQueue, Resend, Resent};
pub use stopped::{ResendCause, ResendStopped};
pub use tail::{Announcement, LAST_MAX, Tail, TailFeed};
pub use verify::{FaultPlace, FeedFault, FeedProof, ProvenTenant, VerifyFeed, verify};

pub use crate::platform::amqp::Offset;

use crate::domain::feed::Message;
use crate::domain::names::{JOURNAL_STREAM, SEQUENCE_HEADER, TENANT_HEADER};
use crate::platform::amqp::Delivery;

/// The stream that keeps everything that fis has announced, for whoever comes later.
const STREAM: &str = JOURNAL_STREAM;

/// The part of a delivery that the proof needs.
fn message(delivery: &Delivery) -> Message<'_> {
    Message {
        kind: delivery.properties.kind(),
        message_id: delivery.properties.message_id(),
        tenant: delivery.properties.header(TENANT_HEADER),
        sequence: delivery.properties.header_number(SEQUENCE_HEADER),
        body: &delivery.body,
    }
}
