//! The schemas of `topology/schemas` against the bytes that the code makes. Every outbound schema is closed, so that a member
//! that is new, gone or of another kind is a failing test and not a surprised reader.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use fis::domain::chain::ChainedEntry;
use fis::domain::dead_letter::{DeadLetter, dead_letter_id};
use fis::domain::disposition::{Disposition, Failure, Reason};
use fis::domain::event::{Identity, RawMessage, decode};
use fis::domain::feed::{FeedEvent, Message, read as read_feed};
use fis::domain::ids::{EventId, EventType, TenantId};
use fis::domain::outbound::{
    BatchCounts, OutboundEvent, OutboundKind, batch_completed_event, journal_event, rejected_event,
};
use serde_json::{Value, json};

use crate::hashes::{entry, golden};
use crate::read;

pub fn schema(name: &str) -> Value {
    serde_json::from_str(&read(&format!("topology/schemas/{name}.json"))).unwrap()
}

fn time() -> DateTime<Utc> {
    DateTime::from_timestamp_micros(1_772_013_601_234_567).unwrap()
}

fn rejection(tenant: Option<&str>, event: Option<&str>, reason: Reason) -> OutboundEvent {
    let letter = DeadLetter {
        id: dead_letter_id("ecommerce.order.completed", None, std::iter::empty(), b"{}"),
        payload_hash: None,
        identity: Identity {
            tenant_id: tenant.map(|text| TenantId::parse(text).unwrap()),
            event_id: event.map(|text| EventId::parse(text).unwrap()),
            event_type: event.map(|_| EventType::parse("ecommerce.order.completed").unwrap()),
            correlation_id: Some("ord-1001".to_owned()),
        },
        routing_key: "ecommerce.order.completed".to_owned(),
        lane: "live",
        failure: Failure::new(reason, "account `9999` is not in the books"),
        money: None,
        message_id: event.map(|_| "shop-17".to_owned()),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
        properties: "{}".to_owned(),
        body: b"{}".to_vec(),
    };
    rejected_event(&letter, time(), 0)
}

/// A golden entry with the hash that the other program gave it.
fn posted(row: &Value) -> ChainedEntry {
    ChainedEntry { hash: row["hash"].as_str().unwrap().to_owned(), ..entry(row) }
}

/// Events as the code makes them, the telling example of each kind first. A new kind has to be added here.
pub fn made(kind: OutboundKind) -> Vec<Value> {
    let value = |event: OutboundEvent| {
        assert_eq!(event.kind, kind);
        serde_json::from_slice::<Value>(&event.body).unwrap()
    };
    let entries = || golden("entries").iter().map(|row| journal_event(&posted(row))).collect::<Vec<_>>();
    match kind {
        OutboundKind::JournalPosted | OutboundKind::JournalReverted => {
            entries().into_iter().filter(|event| event.kind == kind).map(value).collect()
        }
        OutboundKind::EventRejected => {
            let first = rejection(Some("acme"), Some("evt_987654321"), Reason::UnknownAccount);
            let rejected = Reason::ALL.iter().filter(|reason| reason.disposition() == Disposition::Reject);
            let others = rejected.map(|reason| rejection(None, None, *reason));
            std::iter::once(first).chain(others).map(value).collect()
        }
        OutboundKind::BatchCompleted => {
            let counts = BatchCounts { total: 1200, posted: 1198, rejected: 1, ignored: 1 };
            vec![value(batch_completed_event("acme", "pay_run_2026_03", counts, time()))]
        }
    }
}

/// The canonical example of the contract.
pub fn inbound() -> Value {
    json!({
        "eventId": "evt_987654321",
        "tenantId": "acme",
        "eventType": "ecommerce.order.completed",
        "occurredAt": "2026-02-25T10:00:00Z",
        "correlationId": "ord-1001",
        "schemaVersion": 1,
        "batch": { "id": "pay_run_2026_03", "size": 1200 },
        "payload": { "orderId": "ord-1001", "currency": "EUR", "total": "119.00", "tax": "19.00" },
    })
}

/// What a schema has against a value. It knows the words that our schemas use and stops at any other, so that nothing is
/// taken for checked that is not. Patterns and formats are left to the validator that `asyncapi` asks.
fn complaints(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut hold = |holds: bool, what: &str| {
        if !holds {
            found.push(format!("{path}: {value} breaks {what}"));
        }
    };
    let kind_of = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let mut deeper: Vec<(&Value, &Value, String)> = Vec::new();
    for (word, limit) in schema.as_object().unwrap() {
        let number = || limit.as_i64().unwrap();
        let length = || value.as_str().map(|text| i64::try_from(text.chars().count()).unwrap());
        match word.as_str() {
            "$schema" | "title" | "description" | "pattern" | "format" => {}
            "type" => {
                let is = limit == kind_of(value)
                    || limit.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == kind_of(value)));
                hold(is, "type");
            }
            "const" => hold(value == limit, "const"),
            "enum" => hold(limit.as_array().unwrap().contains(value), "enum"),
            "minimum" => hold(value.as_i64().is_none_or(|n| n >= number()), "minimum"),
            "maximum" => hold(value.as_i64().is_none_or(|n| n <= number()), "maximum"),
            "minLength" => hold(length().is_none_or(|n| n >= number()), "minLength"),
            "maxLength" => hold(length().is_none_or(|n| n <= number()), "maxLength"),
            "minItems" => hold(value.as_array().is_none_or(|items| !items.is_empty() || number() == 0), "minItems"),
            "required" => {
                for name in limit.as_array().unwrap() {
                    let has = value.as_object().is_none_or(|object| object.contains_key(name.as_str().unwrap()));
                    hold(has, &format!("required {name}"));
                }
            }
            "additionalProperties" => {
                assert_eq!(limit, false);
                for name in value.as_object().into_iter().flat_map(|object| object.keys()) {
                    hold(schema["properties"].get(name).is_some(), &format!("additionalProperties: {name}"));
                }
            }
            "properties" => {
                for (name, schema) in limit.as_object().unwrap() {
                    deeper.extend(value.get(name).map(|value| (schema, value, format!("{path}/{name}"))));
                }
            }
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                deeper.extend(items.map(|(place, value)| (limit, value, format!("{path}/{place}"))));
            }
            other => panic!("{path}: the test does not know the word `{other}`"),
        }
    }
    found.extend(deeper.into_iter().flat_map(|(schema, value, path)| complaints(schema, value, &path)));
    found
}

#[test]
fn what_the_code_sends_is_what_the_schemas_say() {
    for kind in OutboundKind::ALL {
        let schema = schema(kind.routing_key());
        let events = made(kind);
        assert!(!events.is_empty(), "{kind:?} has an example");
        for event in &events {
            assert_eq!(complaints(&schema, event, ""), [""; 0], "{event}");
        }
        // What the schema describes occurs, so that a member that is gone from the code is gone from the schema.
        let data = &schema["properties"]["data"];
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(data["additionalProperties"], false);
        for name in data["properties"].as_object().unwrap().keys() {
            let occurs = events.iter().any(|event| event["data"].get(name).is_some());
            // A reversal is dated as its original or at its own date, and has another date only in a closed period.
            let rare = kind == OutboundKind::JournalReverted && name == "originalDate";
            assert!(occurs || rare, "no {kind:?} has `{name}`");
        }
    }
}

#[test]
fn a_schema_bites_at_every_member() {
    for kind in OutboundKind::ALL {
        let schema = schema(kind.routing_key());
        let event = made(kind).remove(0);
        for part in ["", "/data"] {
            for name in event.pointer(part).unwrap().as_object().unwrap().keys() {
                let mut without = event.clone();
                without.pointer_mut(part).unwrap().as_object_mut().unwrap().remove(name);
                assert_ne!(complaints(&schema, &without, ""), [""; 0], "{kind:?} without {part}/{name}");
                let mut other = event.clone();
                other.pointer_mut(part).unwrap()[name] = json!(1.5);
                assert_ne!(complaints(&schema, &other, ""), [""; 0], "{kind:?} with another {part}/{name}");
            }
            let mut more = event.clone();
            more.pointer_mut(part).unwrap()["news"] = json!("x");
            assert_ne!(complaints(&schema, &more, ""), [""; 0], "{kind:?} with {part}/news");
        }
    }
}

#[test]
fn the_reasons_of_the_schema_are_those_of_the_code() {
    let rejected = Reason::ALL.iter().filter(|reason| reason.disposition() == Disposition::Reject);
    let codes: Vec<&str> = rejected.map(|reason| reason.code()).collect();
    assert_eq!(schema("fis.event.rejected")["properties"]["data"]["properties"]["reason"]["enum"], json!(codes));
}

#[test]
fn what_the_inbound_schema_allows_is_decoded_and_what_it_requires_is_required() {
    let schema = schema("event");
    let decodes = |event: &Value| {
        let body = event.to_string();
        let header = |_: &str| None;
        let message = RawMessage {
            body: body.as_bytes(),
            routing_key: "ecommerce.order.completed",
            content_type: Some("application/json"),
            header: &header,
        };
        decode(message, None).is_ok()
    };
    let with = |name: &str, value: Value| {
        let mut event = inbound();
        event[name] = value;
        event
    };
    let without = |name: &str| {
        let mut event = inbound();
        event.as_object_mut().unwrap().remove(name);
        event
    };
    let names: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>(), inbound().as_object().unwrap().keys().collect::<BTreeSet<_>>());
    let mut cases =
        vec![inbound(), with("more", json!(1)), with("batch", json!({"id": "b"})), with("batch", json!({}))];
    cases.push(with("batch", json!({"id": "b", "size": 0})));
    cases.extend(names.iter().map(|name| without(name)));
    let open = |name: &&String| name.as_str() != "schemaVersion";
    for name in names.iter().filter(open) {
        cases.extend([json!(1), json!([]), json!(""), json!("x"), json!(null)].map(|value| with(name, value)));
    }
    for case in cases {
        let allowed = complaints(&schema, &case, "").is_empty();
        // A time that is none is left to `format`, which the reader here does not know.
        if case["occurredAt"].as_str().is_some_and(|text| text.len() < 2) {
            continue;
        }
        assert_eq!(allowed, decodes(&case), "{case}: the schema says {allowed}");
    }
}

/// The hashes in these events were made by another program, from the documentation alone.
#[test]
fn a_reader_recomputes_the_hash_of_every_golden_entry_from_its_event() {
    for row in golden("entries") {
        let event = journal_event(&posted(&row));
        let message = Message {
            kind: Some(event.kind.routing_key()),
            message_id: Some(&event.message_id),
            tenant: event.tenant_id.as_deref(),
            sequence: event.sequence,
            body: &event.body,
        };
        let FeedEvent::Journal(read) = read_feed(&message).unwrap() else { panic!("it announces an entry") };
        assert_eq!(read.hash, row["hash"]);
        // What was read makes the same bytes again.
        assert_eq!(journal_event(&read).body, event.body);
    }
}

#[test]
fn every_member_is_explained_in_the_documentation() {
    let page = read("docs/events.md");
    for kind in OutboundKind::ALL {
        let schema = schema(kind.routing_key());
        assert!(page.contains(&format!("`{}`", kind.routing_key())), "{kind:?}");
        for name in schema["properties"]["data"]["properties"].as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{name}")), "docs/events.md says nothing about `{name}` of {kind:?}");
        }
    }
}
