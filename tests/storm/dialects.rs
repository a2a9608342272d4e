//! The five ways of writing an event down.

use fastrand::Rng;

use crate::books::TENANTS;
use crate::json::{Json, number, object, text};
use crate::model::{Draft, Meaning, Message};

pub const EXCHANGES: [&str; 3] = ["fis.events.exchange", "fis.urgent.exchange", "fis.backfill.exchange"];

#[derive(Debug, Clone, Copy)]
enum Dialect {
    Canonical,
    SnakeCase,
    Queue,
    CloudEvent,
    CloudEventBinary,
    Raw,
}

/// A message but for its lane.
pub struct Written {
    pub routing_key: String,
    pub content_type: &'static str,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

pub fn message(written: Written, meaning: Meaning, rng: &mut Rng) -> Message {
    let Written { routing_key, content_type, headers, body } = written;
    let exchange = match rng.u8(..20) {
        0..14 => EXCHANGES[0],
        14..17 => EXCHANGES[1],
        _ => EXCHANGES[2],
    };
    Message { exchange, routing_key, content_type, headers, body, meaning, rush: false, odd: None }
}

/// The way in which its own publisher writes it.
pub fn first(draft: &Draft, rng: &mut Rng) -> Written {
    write(draft, dialect(draft, rng), rng, Json::compact)
}

/// In the canonical form.
pub fn canonical(draft: &Draft, rng: &mut Rng) -> Written {
    write(draft, Dialect::Canonical, rng, Json::compact)
}

/// The same event from somebody else; none where the bytes themselves are the event.
pub fn again(draft: &Draft, rng: &mut Rng) -> Option<Written> {
    draft.time.as_ref()?;
    let dialect = dialect(draft, rng);
    let mut own = rng.fork();
    Some(write(draft, dialect, rng, |json| json.rewritten(&mut own)))
}

fn dialect(draft: &Draft, rng: &mut Rng) -> Dialect {
    if draft.time.is_none() {
        return Dialect::Raw;
    }
    if draft.attempts_max.is_some() {
        return Dialect::Queue;
    }
    // Only the first three can name a batch.
    let known = if draft.batch.is_some() { 4 } else { 7 };
    match rng.u8(..known) {
        0 | 1 => Dialect::Canonical,
        2 => Dialect::SnakeCase,
        3 => Dialect::Queue,
        4 | 5 => Dialect::CloudEvent,
        _ => Dialect::CloudEventBinary,
    }
}

fn write(draft: &Draft, dialect: Dialect, rng: &mut Rng, spell: impl FnOnce(&Json) -> String) -> Written {
    let tenant = TENANTS[draft.tenant].name;
    let id = || text(draft.event_id.as_str());
    let kind = || text(draft.event_type.as_str());
    let time = || text(draft.time.clone().unwrap_or_default());
    let mut headers = Vec::new();
    // The other dialects may leave the tenant to a header.
    let by_header = !matches!(dialect, Dialect::Canonical | Dialect::Raw) && rng.u8(..4) == 0;
    if by_header {
        headers.push(("x-fis-tenant".to_owned(), tenant.to_owned()));
    }
    let named = |json: Json, name: &str| if by_header { json } else { json.with(name, text(tenant)) };
    let body = match dialect {
        Dialect::Canonical => object([
            ("eventId", id()),
            ("tenantId", text(tenant)),
            ("eventType", kind()),
            ("occurredAt", time()),
            ("correlationId", text(format!("corr-{}", draft.event_id))),
            ("schemaVersion", number(1)),
            ("payload", draft.payload.clone()),
        ]),
        Dialect::SnakeCase => {
            let body = object([("event_id", id()), ("timestamp", time()), ("payload", draft.payload.clone())]);
            named(if rng.bool() { body.with("event_type", kind()) } else { body }, "tenant_id")
        }
        Dialect::Queue => {
            let body = object([
                ("id", text(format!("job-{}", rng.u64(..)))),
                ("action", kind()),
                ("idempotency_key", id()),
                ("created_at", time()),
                ("attempts", number(0)),
                ("payload", draft.payload.clone()),
            ]);
            let body = match draft.attempts_max {
                Some(max) => body.with("max_attempts", number(max)),
                None => body,
            };
            named(body, "tenant_id")
        }
        Dialect::CloudEvent => {
            let body = object([
                ("specversion", text("1.0")),
                ("id", id()),
                ("source", text("/storm")),
                ("type", kind()),
                ("time", time()),
                ("data", draft.payload.clone()),
            ]);
            named(body, "tenantid")
        }
        Dialect::CloudEventBinary => {
            let separator = if rng.bool() { ':' } else { '_' };
            let mut put = |name: &str, value: &str| {
                headers.push((format!("cloudEvents{separator}{name}"), value.to_owned()));
            };
            put("specversion", "1.0");
            put("id", &draft.event_id);
            put("source", "/storm");
            put("type", &draft.event_type);
            put("time", draft.time.as_deref().unwrap_or_default());
            if !by_header {
                put("tenantid", tenant);
            }
            draft.payload.clone()
        }
        Dialect::Raw => draft.payload.clone(),
    };
    let body = match (&draft.batch, dialect) {
        (Some((batch, size)), Dialect::Canonical | Dialect::SnakeCase | Dialect::Queue) => {
            let member = object([("id", text(batch.as_str()))]);
            body.with("batch", if let Some(size) = size { member.with("size", number(size)) } else { member })
        }
        _ => body,
    };
    let content_type = match dialect {
        Dialect::CloudEvent => "application/cloudevents+json",
        _ => "application/json",
    };
    Written { routing_key: draft.event_type.clone(), content_type, headers, body: spell(&body).into_bytes() }
}
