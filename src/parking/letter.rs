//! The letter that a message is or would be, and the message that a letter would be again. A delivery enters, a `DeadLetter` leaves, or the
//! other way round. The pipeline and the parking both make their letters here, so that one message never has two.

use crate::domain::canonical::sha256_text;
use crate::domain::dead_letter::{DeadLetter, dead_letter_id};
use crate::domain::disposition::Failure;
use crate::domain::event::{BODY_BYTES_MAX, BODY_CUT, DAMAGED, Identity};
use crate::domain::money::Worth;
use crate::domain::names::{CLOUD_EVENT_HEADERS, DAMAGED_HEADER, TENANT_HEADER, TRACEPARENT_HEADER, UNREADABLE_HEADER};
use crate::faults::mutants::{self, mutant};
use crate::platform::amqp::{Delivery, Properties};

/// The longest `traceparent`: the W3C form has 55 characters, and anything much longer is not one.
const TRACEPARENT_BYTES_MAX: usize = 64;

/// The facts about an event that could be read from its message.
#[derive(Debug, Clone, Default)]
pub struct EventFacts {
    pub identity: Identity,
    pub money: Worth,
    pub payload_hash: Option<String>,
}

/// The letter of a message that first came by `routing_key`.
#[must_use]
pub fn dead_letter(
    delivery: &Delivery,
    routing_key: &str,
    lane: &'static str,
    facts: EventFacts,
    failure: Failure,
) -> DeadLetter {
    let EventFacts { mut identity, money, payload_hash } = facts;
    identity.correlation_id = correlation_id(delivery, &identity);
    DeadLetter {
        id: letter_id(delivery, routing_key),
        payload_hash,
        identity,
        routing_key: storable(routing_key),
        lane,
        failure,
        money,
        message_id: own_message_id(delivery).map(ToOwned::to_owned),
        traceparent: traceparent(delivery),
        properties: kept_properties(delivery),
        body: kept_body(delivery).to_vec(),
    }
}

/// The part of a body that a letter keeps: all of it, unless no event could have it.
fn kept_body(delivery: &Delivery) -> &[u8] {
    delivery.body.get(..BODY_BYTES_MAX).unwrap_or(&delivery.body)
}

/// The properties that a letter keeps. Those of a message that is not kept whole bear the mark by which it is refused: the beginning of a body may
/// look like an event of its own.
fn kept_properties(delivery: &Delivery) -> String {
    if kept_body(delivery).len() == delivery.body.len() {
        return delivery.properties.to_text();
    }
    let mark = format!("{BODY_CUT}{} bytes, {}", delivery.body.len(), sha256_text(&delivery.body));
    delivery.properties.clone().with_header(UNREADABLE_HEADER, &mark).to_text()
}

/// The id of the dead letter that a message is or would be.
#[must_use]
pub fn letter_id(delivery: &Delivery, routing_key: &str) -> String {
    content_id(routing_key, &delivery.properties, &delivery.body)
}

/// The content id of a message: made from everything that decides how it is read, and by whom it was sent.
fn content_id(routing_key: &str, properties: &Properties, body: &[u8]) -> String {
    // Those of its envelope, and the mark of one that lost some of its headers.
    let identifying = [CLOUD_EVENT_HEADERS, TENANT_HEADER, UNREADABLE_HEADER];
    let headers = identifying.into_iter().flat_map(|prefix| properties.headers_starting(prefix));
    // Two users' messages are two letters, or one who may not send for a tenant would put his name on the letter of one who may.
    let user = properties.user_id().map(|user| ("user_id", user));
    let content_type = properties.content_type().filter(|_| !mutant(mutants::CONTENT_TYPE_IGNORED));
    dead_letter_id(routing_key, content_type, headers.chain(user), body)
}

/// The message id that the publisher gave.
#[must_use]
pub fn own_message_id(delivery: &Delivery) -> Option<&str> {
    // PostgreSQL text cannot hold NUL; an id that has one is of no use to anybody.
    delivery.properties.message_id().filter(|id| !id.contains('\0'))
}

/// The trace that the message belongs to.
#[must_use]
pub fn traceparent(delivery: &Delivery) -> Option<String> {
    let sent = delivery.properties.header(TRACEPARENT_HEADER);
    sent.filter(|text| text.len() <= TRACEPARENT_BYTES_MAX && !text.contains('\0')).map(ToOwned::to_owned)
}

/// The correlation id that the event names, or else its message.
#[must_use]
pub fn correlation_id(delivery: &Delivery, identity: &Identity) -> Option<String> {
    let sent = || delivery.properties.correlation_id().filter(|id| !id.contains('\0')).map(ToOwned::to_owned);
    identity.correlation_id.clone().or_else(sent)
}

/// PostgreSQL text cannot hold NUL, and a routing key may.
#[must_use]
pub fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The message that waited, as it would come off the broker. One whose properties cannot be read any more bears the mark by which it is refused,
/// and the text that it was stored with.
#[must_use]
pub fn imagined(routing_key: &str, properties: &str, body: Vec<u8>) -> Delivery {
    let read = Properties::from_text(properties).map(|read| read.carried());
    let damaged = [(UNREADABLE_HEADER, Some(DAMAGED)), (DAMAGED_HEADER, Some(properties))];
    let properties = read.unwrap_or_else(|| Properties::default().with_headers(damaged, []));
    Delivery::imagined(routing_key.to_owned(), properties, body)
}
