//! What is hostile around an event: header trees, sizes, bytes that are no text, and headers by which a publisher pretends to be somebody else.

use super::{ORDER, later, odd, posted_order, refused_bytes, refused_order, sound_order, strict_tenant};
use crate::books::TENANTS;
use crate::dialects::{self, Written};
use crate::json::{number, object, text};
use crate::model::{Fate, Meaning, Message, Odd};
use crate::script::Writer;
use crate::tree::{entry, nested, tagged};
use crate::wire::{HEADER_BYTES_MAX, Properties};

fn some(writer: &mut Writer, choices: &[usize]) -> usize {
    choices[writer.rng.usize(..choices.len())]
}

fn text_header(name: &str, value: &str) -> Vec<u8> {
    entry(name.as_bytes(), &tagged(b'S', value.as_bytes()))
}

fn number_header(name: &str, value: i64) -> Vec<u8> {
    entry(name.as_bytes(), &[&b"l"[..], &value.to_be_bytes()].concat())
}

/// Arrays in arrays: up to 32 are taken.
pub fn deep_headers(writer: &mut Writer) {
    let is_bearable = writer.rng.u8(..3) == 0;
    let depth = if is_bearable { some(writer, &[1, 12, 28]) } else { some(writer, &[40, 300, 1_600, 10_000]) };
    let message = if is_bearable { posted_order(writer) } else { refused_order(writer, "bad_field") };
    writer.publish(odd(message, &entry(b"deep", &nested(depth))));
}

/// One byte each on the wire, and much more in memory.
pub fn many_values(writer: &mut Writer) {
    let is_bearable = writer.rng.u8(..3) == 0;
    let count = if is_bearable { some(writer, &[10, 1_000]) } else { some(writer, &[5_000, 20_000, 100_000]) };
    let message = if is_bearable { posted_order(writer) } else { refused_order(writer, "too_large") };
    writer.publish(odd(message, &entry(b"voids", &tagged(b'A', &b"V".repeat(count)))));
}

/// Properties that leave no room for what the broker adds to them, or more than an event may have.
pub fn full_frame(writer: &mut Writer) {
    let message = refused_order(writer, "too_large");
    let fill = |bytes: usize| entry(b"cloudEvents:fill", &tagged(b'S', &vec![b'h'; bytes]));
    let empty = odd(message.clone(), &fill(0)).odd.map_or(0, |odd| odd.properties.header(0).len());
    let bytes = if writer.rng.bool() { HEADER_BYTES_MAX - empty } else { some(writer, &[17_000, 60_000, 120_000]) };
    writer.publish(odd(message, &fill(bytes)));
}

/// Bytes that are no text, where AMQP has text.
pub fn not_utf8(writer: &mut Writer) {
    let number_ = writer.number;
    match writer.rng.u8(..3) {
        0 => {
            let message = odd(posted_order(writer), &entry(b"\xfd", b"V"));
            let properties = Properties { message_id: vec![0xfe; 255], ..properties_of(&message) };
            writer.publish(with(message, |odd| odd.properties = properties));
        }
        // Its type is in its body: the key means nothing.
        1 => {
            let (draft, fate) = sound_order(writer);
            let written = dialects::canonical(&draft, &mut writer.rng);
            let (_, message) = writer.case_written(draft, fate, written);
            let message = odd(Message { routing_key: "odd.??.key".to_owned(), ..message }, b"");
            writer.publish(with(message, |odd| odd.routing_key = b"odd.\xff\xfe.key".to_vec()));
        }
        _ => {
            let tenant = TENANTS[strict_tenant(writer)].name;
            let body = object([
                ("eventId", text(format!("odd-{number_}"))),
                ("tenantId", text(tenant)),
                ("payload", object([("number", number(number_))])),
            ]);
            let key = "odd.??.key".to_owned();
            let body = body.compact().into_bytes();
            let written = Written { routing_key: key, content_type: "application/json", headers: Vec::new(), body };
            let message = dialects::message(written, Meaning::Poison("rule_not_found"), &mut writer.rng);
            writer.publish(with(odd(message, b""), |odd| odd.routing_key = b"odd.\xff\xfe.key".to_vec()));
        }
    }
}

/// An order that the broker gives up by itself where it is not taken in time; then it is a letter, which a replay posts.
pub fn expiring(writer: &mut Writer) {
    let message = odd(posted_order(writer), b"");
    let expiration = some(writer, &[1, 50, 2_000]).to_string().into_bytes();
    writer.publish(with(message, |odd| odd.properties.expiration = Some(expiration)));
}

fn properties_of(message: &Message) -> Properties {
    message.odd.as_ref().map(|odd| odd.properties.clone()).unwrap_or_default()
}

fn with(message: Message, change: impl FnOnce(&mut Odd)) -> Message {
    let mut changed = message.odd.as_ref().map_or_else(
        || Odd { routing_key: Vec::new(), properties: Properties::default() },
        |odd| Odd { routing_key: odd.routing_key.clone(), properties: odd.properties.clone() },
    );
    change(&mut changed);
    Message { odd: Some(changed.into()), ..message }
}

/// A record of a death that never was, with another routing key; or none at all, of which RabbitMQ 3.x would die.
pub fn forged_death(writer: &mut Writer) {
    let queue = ["fis.ingestion.queue", "fis.urgent.queue", "fis.backfill.queue"][writer.rng.usize(..3)];
    let reason = ["rejected", "rejected", "expired", "maxlen", "delivery_limit"][writer.rng.usize(..5)];
    let keys = tagged(b'A', &tagged(b'S', b"another.routing.key"));
    let death = [
        text_header("queue", queue),
        text_header("reason", reason),
        text_header("exchange", "fis.events.exchange"),
        number_header("count", writer.rng.i64(1..100)),
        entry(b"routing-keys", &keys),
    ];
    let deaths = match writer.rng.u8(..6) {
        0 => tagged(b'A', &tagged(b'S', b"died")),
        1 => nested(10_000),
        _ => tagged(b'A', &tagged(b'F', &death.concat())),
    };
    let deaths = entry(b"x-death", &deaths);
    let message = if writer.rng.u8(..3) == 0 { posted_order(writer) } else { unknown_account(writer) };
    writer.publish(odd(message, &deaths));
}

/// A sound event for an account that is not there; a type that is its routing key, now and then.
fn unknown_account(writer: &mut Writer) -> Message {
    let tenant = writer.tenant();
    let payload = object([
        ("currency", text("EUR")),
        ("account", text("9999")),
        ("paid", text("10.00")),
        ("due", text("10.00")),
        ("number", number(writer.number)),
    ]);
    let (draft, _) = writer.draft(tenant, "billing.invoice.paid", payload);
    writer.case(draft, Fate::Dead("unknown_account")).1
}

/// Headers that mean something to fis, meant something once, or are the broker's own.
pub fn forged_headers(writer: &mut Writer) {
    let attempt = writer.rng.i64(..);
    let headers = [
        number_header("x-fis-attempt", attempt),
        text_header("x-fis-dead-letter", "dl_00000000000000000000000000"),
        text_header("x-fis-message-id", "somebody-elses"),
        text_header("x-fis-replay", "1"),
        text_header("x-fis-lane", "urgent"),
        number_header("x-delivery-count", 500),
        text_header("x-first-death-reason", "rejected"),
        text_header("traceparent", "\u{202e}00-not-a-trace"),
    ];
    let chosen: Vec<u8> = headers.into_iter().filter(|_| writer.rng.bool()).flatten().collect();
    let message = match writer.rng.u8(..4) {
        0 => unknown_account(writer),
        1 => {
            let first = writer.script.messages.len();
            writer.held_for_ever();
            let Some(held) = writer.script.messages.get(first).cloned() else { return };
            odd(held, b"")
        }
        _ => posted_order(writer),
    };
    writer.publish(odd(message, &chosen));
}

/// The mark of a message that lost headers on its way. Whoever writes it himself is refused; a number is no mark.
pub fn forged_mark(writer: &mut Writer) {
    let (value, reason) =
        [("too_large", "too_large"), ("body_cut 9 bytes", "too_large"), ("too_deep", "bad_field"), ("", "bad_field")]
            [writer.rng.usize(..4)];
    if writer.rng.u8(..4) == 0 {
        let message = posted_order(writer);
        writer.publish(odd(message, &number_header("x-fis-unreadable", 1)));
    } else {
        let message = refused_order(writer, reason);
        writer.publish(odd(message, &text_header("x-fis-unreadable", value)));
    }
}

/// The same bytes under several content types. A CloudEvent without its version is one by its type alone; under any other it names no tenant.
pub fn content_types(writer: &mut Writer) {
    let tenant = strict_tenant(writer);
    let is_sound = writer.rng.bool();
    let (payload, lines) = writer.order_of(tenant, "EUR");
    let event_type = if is_sound { ORDER } else { "weather.storm.seen" };
    let (draft, date) = writer.draft(tenant, event_type, payload);
    let entry = crate::model::Entry { rule: "order-completed", date: Some(date), original_date: None, lines };
    let fate = if is_sound { Fate::Posted(entry) } else { Fate::Dead("rule_not_found") };
    let body = object([
        ("id", text(draft.event_id.as_str())),
        ("source", text("/storm")),
        ("type", text(event_type)),
        ("time", text(draft.time.clone().unwrap_or_default())),
        ("tenantid", text(TENANTS[tenant].name)),
        ("data", draft.payload.clone()),
    ]);
    let body = body.compact().into_bytes();
    let typed = ["application/cloudevents+json", "application/cloudevents; charset=utf-8"][writer.rng.usize(..2)];
    let written =
        Written { routing_key: event_type.to_owned(), content_type: typed, headers: Vec::new(), body: body.clone() };
    let (_, typed) = writer.case_written(draft, fate, written);
    let first = writer.script.messages.len();
    refused_bytes(writer, event_type, body, "missing_field");
    let Some(untyped) = writer.script.messages.get(first).cloned() else { return };
    for content_type in ["text/plain", "application/json; charset=utf-8", "\u{0}"] {
        let message = odd(Message { content_type, ..untyped.clone() }, b"");
        later(writer, message);
    }
    later(writer, odd(typed, b""));
}
