//! Decoding: the bytes of a message enter, an `InboundEvent` leaves. Five dialects are told apart by shape, once, here;
//! behind this file there is one kind of event. A body that is too large, not UTF-8, not strict JSON or not an
//! event is named with its reason and never guessed at.

use super::canonical::payload_hash;
use super::disposition::{Failure, Reason};
use super::ids::{EventId, EventType, TenantId};
use super::json::{self, Json};
use super::names::UNREADABLE_HEADER;
use fields::Fields;
mod fields;

use chrono::{DateTime, Utc};

/// Larger bodies are refused: an event is a fact, not a file.
pub const BODY_BYTES_MAX: usize = 256 * 1024;

/// Properties and headers beyond this are refused: they travel in one frame, and a retry or a dead letter adds to them.
pub const PROPERTIES_BYTES_MAX: usize = 16 * 1024;

/// A message as it came off the wire, before anything is believed about it.
#[derive(Clone, Copy)]
pub struct RawMessage<'a, 'h> {
    pub body: &'a [u8],
    pub routing_key: &'a str,
    pub content_type: Option<&'a str>,
    /// The value of a text header.
    pub header: &'h dyn Fn(&str) -> Option<&'a str>,
}

/// The beginning of the content types that choose a dialect, whatever the body looks like.
pub(super) const CLOUD_EVENT_TYPES: &str = "application/cloudevents";

/// Tells whether a message is a structured CloudEvent by its content type alone.
pub(super) fn is_cloud_event_type(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|kind| kind.starts_with(CLOUD_EVENT_TYPES))
}

/// The form in which the event was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Canonical,
    SnakeCase,
    QueueEnvelope,
    CloudEventStructured,
    CloudEventBinary,
    Raw,
}

impl Dialect {
    /// The name by which programs know the form; `docs/events.md` describes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Canonical => "canonical",
            Self::SnakeCase => "snake_case",
            Self::QueueEnvelope => "queue_envelope",
            Self::CloudEventStructured => "cloud_event_structured",
            Self::CloudEventBinary => "cloud_event_binary",
            Self::Raw => "raw",
        }
    }
}

/// Membership in a publisher's batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRef {
    pub id: EventId,
    pub size: Option<i64>,
}

/// An event whose envelope has been proven: it has an id, a tenant's name, a type and an object as its payload.
#[derive(Debug, Clone)]
pub struct InboundEvent<'a> {
    pub dialect: Dialect,
    pub event_id: EventId,
    pub tenant_id: TenantId,
    pub event_type: EventType,
    pub occurred_at: Option<DateTime<Utc>>,
    pub correlation_id: Option<String>,
    pub batch: Option<BatchRef>,
    pub max_attempts: Option<u32>,
    pub payload: Json<'a>,
    pub payload_hash: String,
}

/// The parts that could be read of an event that could not be decoded: enough for an admin to find it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    pub tenant_id: Option<TenantId>,
    pub event_id: Option<EventId>,
    pub event_type: Option<EventType>,
    pub correlation_id: Option<String>,
}

impl Identity {
    /// Tenant and event id, where both could be read.
    #[must_use]
    pub fn event(&self) -> Option<(&TenantId, &EventId)> {
        self.tenant_id.as_ref().zip(self.event_id.as_ref())
    }
}

/// The decoder's answer for a message that is not an event.
#[derive(Debug, Clone)]
pub struct Undecodable {
    pub failure: Failure,
    pub identity: Identity,
    /// Its publisher's batch, which counts it all the same.
    pub batch: Option<BatchRef>,
}

/// # Errors
/// The reason and whatever identity could be read.
pub fn decode<'a>(
    message: RawMessage<'a, '_>,
    default_tenant: Option<&TenantId>,
) -> Result<InboundEvent<'a>, Box<Undecodable>> {
    if let Some(why) = (message.header)(UNREADABLE_HEADER) {
        // Without all of its headers it may be anybody's.
        return Err(Box::new(Undecodable { failure: unreadable(why), identity: Identity::default(), batch: None }));
    }
    let bare = |failure| {
        let identity = Fields::without_body(message).identity(message, default_tenant);
        Box::new(Undecodable { failure, identity, batch: None })
    };
    if message.body.len() > BODY_BYTES_MAX {
        let detail = format!("the body has {} bytes, at most {BODY_BYTES_MAX} are taken", message.body.len());
        return Err(bare(Failure::new(Reason::TooLarge, detail)));
    }
    let text = std::str::from_utf8(message.body).map_err(|error| {
        let detail = format!("the body is not UTF-8 at byte {}", error.valid_up_to());
        bare(Failure::new(Reason::NotUtf8, detail))
    })?;
    let root = json::parse(text).map_err(|error| bare(Failure::new(Reason::MalformedJson, error.to_string())))?;
    if !matches!(root, Json::Object(_)) {
        return Err(bare(Failure::new(Reason::BadField, "the body is not a JSON object")));
    }
    let fields = Fields::of(message, &root);
    fields
        .event(message, default_tenant)
        .map_err(|failure| {
            let identity = fields.identity(message, default_tenant);
            let batch = fields.batch.clone().and_then(Result::ok);
            Box::new(Undecodable { failure, identity, batch })
        })
        .map(|mut event| {
            event.payload = fields.take_payload(root);
            event.payload_hash = payload_hash(event.event_type.as_str(), &event.payload, event.tenant_id.as_str());
            event
        })
}

/// The tenant that a message names, in whichever dialect it is written.
#[must_use]
pub fn tenant_of(message: RawMessage<'_, '_>) -> Option<TenantId> {
    let root = json::parse(std::str::from_utf8(message.body).ok()?).ok()?;
    Fields::of(message, &root).identity(message, None).tenant_id
}

/// The mark of a message whose stored properties cannot be read any more.
pub const DAMAGED: &str = "damaged";
/// The beginning of the mark of a message of whose body only the beginning was kept; what the whole body was follows.
pub const BODY_CUT: &str = "body_cut ";

fn unreadable(why: &str) -> Failure {
    if let Some(whole) = why.strip_prefix(BODY_CUT) {
        let detail = format!("only the beginning of its body was kept, of {whole}; it cannot be booked");
        return Failure::new(Reason::TooLarge, detail);
    }
    match why {
        DAMAGED => {
            let detail = "its stored properties cannot be read, and without them it may be another event; put them back or have it sent again";
            Failure::new(Reason::BadField, detail)
        }
        "too_large" => Failure::new(Reason::TooLarge, "its headers are too large or too many, and were left out"),
        "too_deep" => Failure::new(Reason::BadField, "a header has tables or arrays nested too deep, and was left out"),
        _ => Failure::new(Reason::BadField, "a header could not be read, and was left out"),
    }
}
