//! The hostile publisher: he has no right but to publish, and sends whatever the broker takes. What must become of each kind is known before: most
//! are ordinary events in disguise and are posted once, the others are dead letters, and none stops anything.

mod content;
mod envelope;

use std::sync::Arc;

use crate::books::TENANTS;
use crate::dialects::{self, Written};
use crate::json::{number, text};
use crate::model::{Draft, Entry, Fate, Meaning, Message, Odd};
use crate::script::Writer;
use crate::tree::{entry, tagged};
use crate::wire::Properties;

const ORDER: &str = "ecommerce.order.completed";

pub type Kind = fn(&mut Writer);

/// Every kind; a schedule has each of them at least once.
const KINDS: [Kind; 20] = [
    envelope::deep_headers,
    envelope::many_values,
    envelope::full_frame,
    envelope::not_utf8,
    envelope::forged_death,
    envelope::forged_headers,
    envelope::forged_mark,
    envelope::content_types,
    envelope::expiring,
    content::oversized,
    content::many_members,
    content::deep_payload,
    content::many_items,
    content::many_steps,
    content::vast_batch,
    content::texts,
    content::tenants,
    content::worth_nothing,
    content::residue,
    held,
];

pub fn one(writer: &mut Writer) {
    if writer.hand.is_empty() {
        writer.hand = KINDS.to_vec();
        writer.rng.shuffle(&mut writer.hand);
    }
    if let Some(kind) = writer.hand.pop() {
        writer.script.hostile += 1;
        kind(writer);
    }
}

/// The message with these headers beside its own.
fn odd(message: Message, headers: &[u8]) -> Message {
    let own = message.headers.iter().map(|(name, value)| entry(name.as_bytes(), &tagged(b'S', value.as_bytes())));
    let properties = Properties {
        content_type: Some(message.content_type.as_bytes().to_vec()),
        headers: [&own.collect::<Vec<_>>().concat()[..], headers].concat(),
        message_id: b"hostile".to_vec(),
        ..Properties::default()
    };
    let routing_key = message.routing_key.clone().into_bytes();
    Message { odd: Some(Arc::new(Odd { routing_key, properties })), ..message }
}

/// An order that nothing is wrong with, and the entry that it must become.
fn sound_order(writer: &mut Writer) -> (Draft, Fate) {
    let tenant = writer.tenant();
    let (payload, lines) = writer.order_of(tenant, "EUR");
    let (draft, date) = writer.draft(tenant, ORDER, payload);
    let entry = Entry { rule: "order-completed", date: Some(date), original_date: None, lines };
    (draft, Fate::Posted(entry))
}

/// A message that is refused for what is around it: its body would be an order.
fn refused_order(writer: &mut Writer, reason: &'static str) -> Message {
    let (draft, _) = sound_order(writer);
    let written = dialects::canonical(&draft, &mut writer.rng);
    dialects::message(written, Meaning::Poison(reason), &mut writer.rng)
}

fn posted_order(writer: &mut Writer) -> Message {
    let (draft, fate) = sound_order(writer);
    writer.case(draft, fate).1
}

/// A body that is no event, or none that can be booked.
fn refused_bytes(writer: &mut Writer, key: &str, body: Vec<u8>, reason: &'static str) {
    let written = Written { routing_key: key.to_owned(), content_type: "application/json", headers: Vec::new(), body };
    let message = dialects::message(written, Meaning::Poison(reason), &mut writer.rng);
    writer.publish(message);
}

/// What is held, and then the same many times, or something else under its id. Nothing that comes later ends a hold but its own content.
fn held(writer: &mut Writer) {
    let first = writer.script.messages.len();
    let for_ever = writer.rng.bool();
    if for_ever {
        writer.held_for_ever();
    } else {
        writer.awaits_a_rate();
    }
    let Some(message) = writer.script.messages.get(first).cloned() else { return };
    let Meaning::Event { case, .. } = message.meaning else { return };
    // It stands for itself: nobody else contradicts or reverses it.
    writer.plain.retain(|plain| *plain != case);
    match writer.rng.u8(..4) {
        0 => (0..writer.rng.usize(10..40)).for_each(|_| writer.publish(message.clone())),
        1 => contradicted(writer, case, "ecommerce.cart.updated", Fate::Ignored),
        2 if for_ever => {
            // Both wait, each for itself.
            let first = writer.script.cases[case].variants[0].clone();
            let payload = first.draft.payload.clone().with("again", number(writer.number));
            let other = writer.variant(case, Draft { payload, ..first.draft }, first.fate);
            later(writer, other);
        }
        _ => contradicted(writer, case, ORDER, Fate::Dead("bad_amount")),
    }
}

/// Other content under the id of a held event, with the headers by which such a message was once believed to be its retry.
fn contradicted(writer: &mut Writer, case: usize, event_type: &str, fate: Fate) {
    let held = writer.script.cases[case].variants[0].draft.clone();
    let (payload, _) = writer.order_of(held.tenant, "EUR");
    let payload = payload.with("total", text("119.001"));
    let (time, event_type) = (Some("2026-02-01T10:00:00Z".to_owned()), event_type.to_owned());
    let draft = Draft { payload, event_type, time, batch: None, attempts_max: None, ..held };
    let other = writer.variant(case, draft, fate);
    let attempt = entry(b"x-fis-attempt", &[&b"l"[..], &1_i64.to_be_bytes()].concat());
    let message = odd(other, &attempt);
    later(writer, message);
}

fn later(writer: &mut Writer, message: Message) {
    let after = writer.number + writer.rng.usize(..150);
    writer.later.push((after, message));
}

fn strict_tenant(writer: &mut Writer) -> usize {
    let strict: Vec<usize> = (0..TENANTS.len()).filter(|tenant| !TENANTS[*tenant].unmatched_ignored).collect();
    strict[writer.rng.usize(..strict.len())]
}
