//! From bytes to events: the five dialects, where the tenant comes from, the limits, and the reason for everything that is
//! no event. A row is a message and what decoding tells of it.

mod malformed;

use fis::domain::canonical::write_canonical;
use fis::domain::disposition::Reason;
use fis::domain::event::{BODY_BYTES_MAX, Identity, InboundEvent, RawMessage, Undecodable, decode};
use fis::domain::ids::{EventType, TenantId};
use fis::domain::names::UNREADABLE_HEADER;
use fis::platform::amqp::wire::{self, Unreadable};

/// Every reason that decoding can give.
pub const REASONS: [Reason; 5] =
    [Reason::MalformedJson, Reason::NotUtf8, Reason::TooLarge, Reason::MissingField, Reason::BadField];

const KEY: &str = "ecommerce.order.completed";
const CLOUD: &str = "application/cloudevents+json";

/// A message on the wire; what a row does not say is absent.
#[derive(Clone, Copy, Default)]
struct Message<'m> {
    content_type: Option<&'m str>,
    headers: &'m [(&'m str, &'m str)],
    default_tenant: Option<&'m str>,
}

impl<'m> Message<'m> {
    fn decode<'b>(self, body: &'b [u8]) -> Result<InboundEvent<'b>, Box<Undecodable>>
    where
        'm: 'b,
    {
        let header = |name: &str| self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let default = self.default_tenant.map(|name| TenantId::parse(name).unwrap());
        let message = RawMessage { body, routing_key: KEY, content_type: self.content_type, header: &header };
        decode(message, default.as_ref())
    }

    /// What a row compares: the event's members in one line, or the reason with its detail.
    fn told(self, body: &str) -> String {
        self.decode(body.as_bytes()).map_or_else(|u| u.failure.to_string(), |event| line(&event))
    }
}

fn line(event: &InboundEvent<'_>) -> String {
    let mut payload = Vec::new();
    write_canonical(&event.payload, &mut payload);
    let mut text = format!("{:?} {} of {}", event.dialect, event.event_id, event.tenant_id);
    if event.event_type.as_str() != KEY {
        text.push_str(&format!(" type {}", event.event_type));
    }
    if let Some(at) = event.occurred_at {
        text.push_str(&format!(" at {}", at.to_rfc3339()));
    }
    if let Some(id) = &event.correlation_id {
        text.push_str(&format!(" for {id}"));
    }
    if let Some(batch) = &event.batch {
        let size = batch.size.map_or("?".to_owned(), |size| size.to_string());
        text.push_str(&format!(" in {}/{size}", batch.id));
    }
    if let Some(most) = event.max_attempts {
        text.push_str(&format!(" at most {most}"));
    }
    format!("{text} {}", String::from_utf8(payload).unwrap())
}

#[track_caller]
fn rows(message: Message<'_>, rows: &[(&str, &str)]) {
    for (body, expected) in rows {
        let told = message.told(body);
        // A reason is compared by its beginning: how the detail ends is for people.
        let same = if expected.contains(": ") { told.contains(expected) } else { told == *expected };
        assert!(same, "\n{body}\n  expected {expected}\n  told     {told}");
    }
}

fn reason(body: &[u8]) -> Option<Reason> {
    Message::default().decode(body).err().map(|undecodable| undecodable.failure.reason)
}

fn with_payload(payload: &str) -> String {
    format!(r#"{{"eventId":"e","tenantId":"t","payload":{payload}}}"#)
}

fn payload_hash(payload: &str) -> String {
    let body = with_payload(payload);
    Message::default().decode(body.as_bytes()).unwrap_or_else(|u| panic!("{payload}: {}", u.failure)).payload_hash
}

#[test]
fn a_message_that_lost_headers_is_no_event_however_whole_it_looks() {
    assert_eq!(UNREADABLE_HEADER, wire::UNREADABLE_HEADER);
    let rows = [
        (Unreadable::TooDeep, Reason::BadField),
        (Unreadable::Garbled, Reason::BadField),
        (Unreadable::TooLarge, Reason::TooLarge),
    ];
    for (why, reason) in rows {
        let headers = [("x-fis-tenant", "header"), (UNREADABLE_HEADER, why.name())];
        let message = Message { headers: &headers, default_tenant: Some("other"), ..Message::default() };
        let undecodable = message.decode(with_payload("{}").as_bytes()).unwrap_err();
        assert_eq!((undecodable.failure.reason, undecodable.identity), (reason, Identity::default()));
        assert!(undecodable.failure.detail.contains("left out"), "{}", undecodable.failure);
    }
}

#[test]
#[rustfmt::skip]
fn the_canonical_form_names_its_id_tenant_and_payload() {
    rows(Message { default_tenant: Some("other"), headers: &[("x-fis-tenant", "header")], ..Message::default() }, &[
        (r#"{"eventId":"e","tenantId":"t","payload":{}}"#, "Canonical e of t {}"),
        (r#"{"eventId":"e","tenantId":"t","eventType":"a.b.c","occurredAt":"2026-02-25T11:00:00+01:00","correlationId":"o","schemaVersion":1,"batch":{"id":"b","size":1200},"payload":{"x":1.10}}"#, "Canonical e of t type a.b.c at 2026-02-25T10:00:00+00:00 for o in b/1200 {\"x\":1.1}"),
        (r#"{"eventId":"e","tenantId":"t","occurredAt":null,"correlationId":null,"eventType":null,"batch":null,"payload":{}}"#, "Canonical e of t {}"),
        (r#"{"eventId":"e","tenantId":"t","payload":{},"more":[1,2]}"#, "Canonical e of t {}"),
        (r#"{"eventId":"ünï {x}:y","tenantId":"t","payload":{}}"#, "Canonical ünï {x}:y of t {}"),
        // This form names its tenant itself; a default would hide the mistake.
        (r#"{"eventId":"e","payload":{}}"#, "missing_field: `tenantId`"),
        (r#"{"tenantId":"t","payload":{}}"#, "missing_field: `eventId`"),
        (r#"{"payload":{}}"#, "missing_field: `eventId`"),
        (r#"{"eventId":"e","tenantId":"t"}"#, "missing_field: `payload`"),
        (r#"{"eventId":null,"tenantId":"t","payload":{}}"#, "missing_field: `eventId`"),
        (r#"{"eventId":7,"tenantId":"t","payload":{}}"#, "bad_field: `eventId` is not a string"),
        (r#"{"eventId":"","tenantId":"t","payload":{}}"#, "bad_field: `eventId` is empty"),
        (r#"{"eventId":"a\nb","tenantId":"t","payload":{}}"#, "bad_field: `eventId` contains"),
        (r#"{"eventId":"e","tenantId":"a:b","payload":{}}"#, "bad_field: `tenantId` contains"),
        (r#"{"eventId":"e","tenantId":"t","eventType":7,"payload":{}}"#, "bad_field: `eventType`"),
        (r#"{"eventId":"e","tenantId":"t","eventType":"","payload":{}}"#, "bad_field: `eventType`"),
        (r#"{"eventId":"e","tenantId":"t","correlationId":"","payload":{}}"#, "bad_field: `correlationId`"),
        (r#"{"eventId":"e","tenantId":"t","occurredAt":"2026-02-25","payload":{}}"#, "bad_field: `occurredAt`"),
        (r#"{"eventId":"e","tenantId":"t","occurredAt":"2026-02-30T10:00:00Z","payload":{}}"#, "bad_field: `occurredAt`"),
        (r#"{"eventId":"e","tenantId":"t","occurredAt":1772013600,"payload":{}}"#, "bad_field: `occurredAt`"),
        (r#"{"eventId":"e","tenantId":"t","payload":[]}"#, "bad_field: `payload` is not an object"),
        (r#"{"eventId":"e","tenantId":"t","payload":"{}"}"#, "bad_field: `payload` is not an object"),
        (r#"{"eventId":"e","tenantId":"t","payload":null}"#, "bad_field: `payload` is not an object"),
        (r#"[{"eventId":"e","tenantId":"t","payload":{}}]"#, "bad_field: the body is not a JSON object"),
        ("7", "bad_field: the body is not a JSON object"),
        ("null", "bad_field: the body is not a JSON object"),
    ]);
}

#[test]
#[rustfmt::skip]
fn snake_case_is_told_by_its_names() {
    rows(Message { default_tenant: Some("d"), ..Message::default() }, &[
        (r#"{"event_id":"e","timestamp":"2026-02-25T10:00:00Z","payload":{"x":1}}"#, "SnakeCase e of d at 2026-02-25T10:00:00+00:00 {\"x\":1}"),
        (r#"{"event_id":"e","tenant_id":"t","event_type":"a.b.c","correlation_id":"o","batch":{"id":"b"},"payload":{}}"#, "SnakeCase e of t type a.b.c for o in b/? {}"),
        (r#"{"timestamp":"2026-02-25T10:00:00Z","payload":{}}"#, "missing_field: `event_id`"),
        (r#"{"event_id":"e","timestamp":"today","payload":{}}"#, "bad_field: `timestamp`"),
        (r#"{"event_id":"e"}"#, "missing_field: `payload`"),
        (r#"{"event_id":"e","tenant_id":7,"payload":{}}"#, "bad_field: `tenant_id`"),
    ]);
}

#[test]
#[rustfmt::skip]
fn the_queue_envelope_caps_its_own_retries() {
    rows(Message { default_tenant: Some("d"), ..Message::default() }, &[
        (r#"{"id":"j","action":"a.b.c","correlation_id":"o","idempotency_key":"k","created_at":"2026-02-25T10:00:00Z","attempts":1,"max_attempts":3,"payload":{"x":1}}"#, "QueueEnvelope k of d type a.b.c at 2026-02-25T10:00:00+00:00 for o at most 3 {\"x\":1}"),
        (r#"{"id":"j","action":"complete","payload":{}}"#, "QueueEnvelope j of d {}"),
        (r#"{"id":"j","action":"a.b.","payload":{}}"#, "QueueEnvelope j of d {}"),
        (r#"{"id":"j","action":"a.b.c","tenant_id":"t","payload":{}}"#, "QueueEnvelope j of t type a.b.c {}"),
        (r#"{"id":"j","action":"a.b.c","event_type":"x.y.z","payload":{}}"#, "QueueEnvelope j of d type x.y.z {}"),
        (r#"{"id":"j","idempotency_key":null,"attempts":0,"max_attempts":null,"payload":{}}"#, "QueueEnvelope j of d {}"),
        (r#"{"idempotency_key":"k","action":"x","batch":{"id":"b","size":2},"payload":{}}"#, "QueueEnvelope k of d in b/2 {}"),
        (r#"{"id":"j","action":"x","max_attempts":0,"payload":{}}"#, "QueueEnvelope j of d at most 0 {}"),
        (r#"{"id":"j","action":"x","max_attempts":1000,"payload":{}}"#, "QueueEnvelope j of d at most 1000 {}"),
        (r#"{"id":"j","action":"x","max_attempts":1001,"payload":{}}"#, "bad_field: `max_attempts`"),
        (r#"{"id":"j","action":"x","max_attempts":-1,"payload":{}}"#, "bad_field: `max_attempts`"),
        (r#"{"id":"j","action":"x","max_attempts":2.5,"payload":{}}"#, "bad_field: `max_attempts`"),
        (r#"{"id":"j","action":"x","max_attempts":"3","payload":{}}"#, "bad_field: `max_attempts`"),
        (r#"{"id":7,"action":"x","payload":{}}"#, "bad_field: `id`"),
        (r#"{"id":"j","action":"x","created_at":"today","payload":{}}"#, "bad_field: `created_at`"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_structured_cloud_event_is_told_by_content_type_or_shape() {
    let plain = Message { default_tenant: Some("d"), ..Message::default() };
    let typed = Message { content_type: Some(CLOUD), ..plain };
    let charset = Message { content_type: Some("application/cloudevents+json; charset=utf-8"), ..plain };
    let whole = r#"{"specversion":"1.0","id":"e","source":"/shop","type":"a.b.c","time":"2026-02-25T10:00:00Z","tenantid":"t","correlationid":"o","data":{"x":1}}"#;
    for message in [plain, typed, charset] {
        rows(message, &[(whole, "CloudEventStructured e of t type a.b.c at 2026-02-25T10:00:00+00:00 for o {\"x\":1}")]);
    }
    rows(typed, &[
        (r#"{"id":"e","data":{}}"#, "CloudEventStructured e of d {}"),
        (r#"{"id":"e","type":"a.b.c"}"#, "missing_field: `data`"),
        (r#"{"id":"e","data":"text"}"#, "bad_field: `data` is not an object"),
        (r#"{"id":"e","data_base64":"e30="}"#, "bad_field: `data_base64`"),
        (r#"{"data":{}}"#, "missing_field: `id`"),
        (r#"{"id":"e","time":"today","data":{}}"#, "bad_field: `time`"),
        (r#"[{"id":"e","data":{}}]"#, "bad_field: the body is not a JSON object"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_binary_cloud_event_is_told_by_its_headers() {
    for prefix in ["cloudEvents:", "cloudEvents_"] {
        let names = ["specversion", "id", "type", "time", "tenantid", "correlationid"].map(|name| format!("{prefix}{name}"));
        let values = ["1.0", "e", "a.b.c", "2026-02-25T10:00:00Z", "t", "o"];
        let headers: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(values).collect();
        rows(Message { headers: &headers, ..Message::default() }, &[
            // The whole body is the payload, whatever it looks like.
            (r#"{"eventId":"x","payload":{}}"#, "CloudEventBinary e of t type a.b.c at 2026-02-25T10:00:00+00:00 for o {\"eventId\":\"x\",\"payload\":{}}"),
            ("[]", "bad_field: the body is not a JSON object"),
        ]);
        rows(Message { headers: &headers[..1], default_tenant: Some("d"), ..Message::default() }, &[("{}", "missing_field: `id`")]);
        rows(Message { headers: &headers[..2], default_tenant: Some("d"), ..Message::default() }, &[("{}", "CloudEventBinary e of d {}")]);
    }
}

#[test]
#[rustfmt::skip]
fn a_raw_object_is_its_own_id() {
    // printf '{"x":1}' | sha256sum
    let id = "sha256:5041bf1f713df204784353e82f6a4a535931cb64f1f4b4a5aeaffcb720918b22";
    rows(Message { default_tenant: Some("d"), ..Message::default() }, &[
        (r#"{"x":1}"#, &format!("Raw {id} of d {{\"x\":1}}")),
        (r#"{"tenantId":7}"#, "bad_field: `tenantId`"),
    ]);
    let told = |body: &str| Message::default().told(body);
    assert!(told(r#"{"tenantId":"t"}"#).ends_with(r#" of t {"tenantId":"t"}"#));
    assert!(told(r#"{"tenant_id":"t"}"#).ends_with(r#" of t {"tenant_id":"t"}"#));
    assert_ne!(told(r#"{"tenant_id":"t"}"#), told(r#"{"tenant_id": "t"}"#), "other bytes are another event");
}

#[test]
fn the_tenant_comes_from_the_body_the_header_or_the_configuration() {
    let header: &[(&str, &str)] = &[("x-fis-tenant", "header")];
    let cloud = Some(CLOUD);
    for (content_type, with, without) in [
        (None, r#"{"event_id":"e","tenant_id":"body","payload":{}}"#, r#"{"event_id":"e","payload":{}}"#),
        (None, r#"{"id":"e","action":"x","tenant_id":"body","payload":{}}"#, r#"{"id":"e","action":"x","payload":{}}"#),
        (cloud, r#"{"id":"e","tenantid":"body","data":{}}"#, r#"{"id":"e","data":{}}"#),
        (None, r#"{"tenantId":"body"}"#, r#"{"x":1}"#),
    ] {
        let tenant = |body: &str, headers, default_tenant| {
            let message = Message { content_type, headers, default_tenant };
            message.decode(body.as_bytes()).map(|e| e.tenant_id.to_string()).map_err(|u| u.failure.reason)
        };
        assert_eq!(tenant(with, header, Some("default")), Ok("body".to_owned()), "{with}");
        assert_eq!(tenant(without, header, Some("default")), Ok("header".to_owned()), "{without}");
        assert_eq!(tenant(without, &[], Some("default")), Ok("default".to_owned()), "{without}");
        assert_eq!(tenant(without, &[], None), Err(Reason::MissingField), "{without}");
        assert_eq!(tenant(without, &[("x-fis-tenant", "a b")], None), Err(Reason::BadField), "{without}");
    }
}

#[test]
fn a_batch_has_an_id_and_may_tell_its_size() {
    for (batch, expected) in [
        (r#"{"id":"b","size":1}"#, Ok(Some(("b", Some(1))))),
        (r#"{"id":"b","size":100000000}"#, Ok(Some(("b", Some(100_000_000))))),
        (r#"{"id":"b","size":null}"#, Ok(Some(("b", None)))),
        (r#"{"id":"b"}"#, Ok(Some(("b", None)))),
        ("null", Ok(None)),
        ("{}", Err(Reason::MissingField)),
        (r#"{"size":1}"#, Err(Reason::MissingField)),
        (r#"{"id":7}"#, Err(Reason::BadField)),
        (r#"{"id":""}"#, Err(Reason::BadField)),
        (r#"{"id":"b","size":0}"#, Err(Reason::BadField)),
        (r#"{"id":"b","size":-1}"#, Err(Reason::BadField)),
        (r#"{"id":"b","size":1.5}"#, Err(Reason::BadField)),
        (r#"{"id":"b","size":100000001}"#, Err(Reason::BadField)),
        (r#"{"id":"b","size":"1"}"#, Err(Reason::BadField)),
    ] {
        let body = format!(r#"{{"eventId":"e","tenantId":"t","batch":{batch},"payload":{{}}}}"#);
        let told = Message::default().decode(body.as_bytes());
        let told = told.map(|event| event.batch.map(|batch| (batch.id.to_string(), batch.size)));
        let expected = expected.map(|batch| batch.map(|(id, size)| (id.to_owned(), size)));
        assert_eq!(told.map_err(|u| u.failure.reason), expected, "{batch}");
    }
}

#[test]
fn a_body_of_256_kib_is_taken_and_one_byte_more_is_not() {
    let around = with_payload(r#"{"x":""}"#).len();
    let body = with_payload(&format!(r#"{{"x":"{}"}}"#, "y".repeat(256 * 1024 - around)));
    assert_eq!((body.len(), BODY_BYTES_MAX), (262_144, 262_144));
    assert_eq!(reason(body.as_bytes()), None);
    assert_eq!(reason(format!("{body} ").as_bytes()), Some(Reason::TooLarge));
    // The size is looked at before anything else.
    assert_eq!(reason(&vec![0xFF; BODY_BYTES_MAX + 1]), Some(Reason::TooLarge));
}

#[test]
fn names_of_the_greatest_length_are_taken_and_longer_ones_are_not() {
    for (name, most) in [("eventId", 255), ("tenantId", 64), ("eventType", 255), ("correlationId", 255)] {
        for (length, expected) in [(most, None), (most + 1, Some(Reason::BadField))] {
            let mut members = vec![("eventId", "e".to_owned()), ("tenantId", "t".to_owned())];
            members.retain(|(known, _)| *known != name);
            members.push((name, "x".repeat(length)));
            let members: Vec<String> = members.iter().map(|(name, value)| format!(r#""{name}":"{value}""#)).collect();
            let body = format!(r#"{{{},"payload":{{}}}}"#, members.join(","));
            assert_eq!(reason(body.as_bytes()), expected, "{name} of {length}");
        }
    }
}

#[test]
fn what_is_not_utf_8_is_told_with_its_byte() {
    for (body, byte) in [
        (&b"{\"x\":\"\xFF\"}"[..], 6),
        (b"{\"x\":\"\xC0\x80\"}", 6),
        (b"{\"x\":\"\xED\xA0\x80\"}", 6),
        (b"{\"x\":\"\xE2\x82", 6),
        (b"\xFF\xFE{\0}\0", 0),
    ] {
        let failure = Message::default().decode(body).unwrap_err().failure;
        assert_eq!(failure.reason, Reason::NotUtf8, "{body:?}");
        assert!(failure.detail.ends_with(&format!("byte {byte}")), "{}", failure.detail);
    }
}

#[test]
fn numbers_are_equal_by_value_and_never_by_a_floats_precision() {
    for (one, other) in [
        ("1.10", "1.1"),
        ("-0", "0"),
        ("-0.0e-5", "0"),
        ("1e2", "100"),
        ("1E+2", "100.0"),
        ("1234567890123456789012345678901234567890", "1.23456789012345678901234567890123456789e39"),
    ] {
        assert_eq!(payload_hash(&format!(r#"{{"x":{one}}}"#)), payload_hash(&format!(r#"{{"x":{other}}}"#)), "{one}");
    }
    for (one, other) in [
        ("9007199254740992", "9007199254740993"),
        ("1234567890123456789012345678901234567890", "1234567890123456789012345678901234567891"),
        ("0.1", "0.10000000000000001"),
        ("1", "\"1\""),
        ("0", "false"),
        ("0", "null"),
        ("1e9999", "1e9998"),
    ] {
        assert_ne!(payload_hash(&format!(r#"{{"x":{one}}}"#)), payload_hash(&format!(r#"{{"x":{other}}}"#)), "{one}");
    }
}

#[test]
fn a_re_serialised_duplicate_has_the_same_hash_and_nothing_else_has() {
    let hash = |body: &str| Message::default().decode(body.as_bytes()).unwrap().payload_hash;
    let canonical = hash(r#"{"eventId":"e","tenantId":"t","payload":{"a":1,"b":{"c":"é"}}}"#);
    for same in [
        r#"{ "payload" : { "b" : { "c" : "\u00e9" } , "a" : 1.0 } , "tenantId" : "t" , "eventId" : "e" }"#,
        // The hash is of what happened, not of the envelope it came in.
        r#"{"eventId":"other","occurredAt":"2026-01-01T00:00:00Z","tenantId":"t","payload":{"a":1,"b":{"c":"é"}}}"#,
        r#"{"event_id":"e","tenant_id":"t","payload":{"a":1,"b":{"c":"é"}}}"#,
    ] {
        assert_eq!(hash(same), canonical, "{same}");
    }
    for other in [
        r#"{"eventId":"e","tenantId":"u","payload":{"a":1,"b":{"c":"é"}}}"#,
        r#"{"eventId":"e","tenantId":"t","eventType":"a.b.c","payload":{"a":1,"b":{"c":"é"}}}"#,
        r#"{"eventId":"e","tenantId":"t","payload":{"a":1,"b":{"c":"e"}}}"#,
        r#"{"eventId":"e","tenantId":"t","payload":{"a":1,"b":{"c":"e\u0301"}}}"#,
        r#"{"eventId":"e","tenantId":"t","payload":{"a":1,"b":{"c":"é","d":null}}}"#,
    ] {
        assert_ne!(hash(other), canonical, "{other}");
    }
}

#[test]
fn what_could_be_read_of_a_bad_event_is_kept_for_the_admin() {
    let identity = |body: &str| Message::default().decode(body.as_bytes()).unwrap_err().identity;
    let read = identity(r#"{"eventId":"e","tenantId":"t","eventType":"a.b.c","correlationId":"o","payload":[]}"#);
    assert_eq!(read.tenant_id.unwrap().as_str(), "t");
    assert_eq!(read.event_id.unwrap().as_str(), "e");
    assert_eq!(read.event_type.unwrap().as_str(), "a.b.c");
    assert_eq!(read.correlation_id.unwrap(), "o");
    let read = identity(r#"{"eventId":"","tenantId":"t","payload":{}}"#);
    assert_eq!((read.tenant_id.unwrap().as_str(), read.event_id), ("t", None));
    assert_eq!(read.event_type.unwrap().as_str(), KEY);
    // Of a body that is no JSON only the routing key tells something, and no id is made up.
    let event_type = EventType::parse(KEY).ok();
    assert_eq!(identity("no JSON"), Identity { event_type, ..Identity::default() });
}

#[test]
fn every_reason_of_decoding_has_an_example() {
    let examples: [&[u8]; 5] = [b"{", b"\xFF", &[b' '; BODY_BYTES_MAX + 1], br#"{"eventId":"e"}"#, b"[]"];
    assert_eq!(examples.map(|body| reason(body).unwrap()), REASONS);
}
