//! Fuzzing on the wire: whatever the broker takes (any bytes, any property, header tables of every type that AMQP has) the
//! service survives, and each message is posted, held or parked. Made from a seed, which is printed; `FIS_TEST_FUZZ=20000`
//! sends more.

use fastrand::Rng;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable};

use crate::support::events::{BACKFILL, Expect, LIVE, Message, URGENT, order_of};
use crate::support::load::{QUICK_RETRIES, TENANTS};
use crate::support::world::{Setup, World};

/// Messages, where the environment does not say otherwise.
const MESSAGES: usize = 1500;
/// How deep tables lie in tables, where nothing else is said.
const DEPTH_MAX: u8 = 3;
/// Some headers lie as deep as this, about what is taken at most.
const ARRAYS_MAX: usize = 50;
/// Names that mean something to us, to the broker or to a dialect; what is in them is anything.
const HEADERS: [&str; 16] = [
    "x-fis-tenant",
    "x-fis-attempt",
    "x-fis-lane",
    "x-fis-replay",
    "x-delivery-count",
    "x-fis-unreadable",
    "x-death",
    "x-first-death-reason",
    "traceparent",
    "cloudEvents:id",
    "cloudEvents:specversion",
    "cloudEvents_type",
    "cloudEvents:source",
    "",
    "\u{0}",
    "ünïcödé",
];

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_broker_takes_is_posted_held_or_parked() {
    let from_environment = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed: u64 = from_environment("FIS_TEST_SEED").unwrap_or_else(|| fastrand::u64(..));
    let count = from_environment("FIS_TEST_FUZZ").map_or(MESSAGES, |count| usize::try_from(count).unwrap());
    eprintln!("the messages are made with FIS_TEST_SEED={seed}");
    let world = World::with("wire", Setup { tenants: TENANTS, ..Setup::default() }).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    let mut rng = Rng::with_seed(seed);
    let messages: Vec<Message> = (0..count).map(|number| message(&mut rng, number)).collect();
    world.publish(&messages).await;
    world.rest(&mut run).await;
    assert!(world.count("select count(*) from fis_journal_entry").await > 0, "some are whole");
    assert!(world.count("select count(*) from fis_dead_letter").await > 0, "some are not");
    world.invariants().await;
}

fn message(rng: &mut Rng, number: usize) -> Message {
    let tenant = TENANTS[rng.usize(..TENANTS.len())];
    let whole = order_of(tenant, &format!("evt-{number}"), "EUR", "119.00", "19.00");
    let mut body = whole.body.clone();
    match rng.u8(..4) {
        0 => {}
        1 => body = (0..rng.usize(..2000)).map(|_| rng.u8(..)).collect(),
        // A few bytes are turned, left out or put in.
        _ => {
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..body.len());
                match rng.u8(..3) {
                    0 => body[at] = rng.u8(..),
                    1 => drop(body.drain(at..(at + rng.usize(1..20)).min(body.len()))),
                    _ => body.insert(at, rng.u8(..)),
                }
                if body.is_empty() {
                    break;
                }
            }
        }
    }
    let routing_key = match rng.u8(..4) {
        0 => text(rng, 250),
        1 => String::new(),
        _ => whole.routing_key,
    };
    let exchange = [LIVE, URGENT, BACKFILL][rng.usize(..3)];
    // Each is some other message: what is unreadable is known by its content alone.
    let properties = properties(rng).with_message_id(format!("fuzz-{number}").into());
    Message { exchange, routing_key, body, properties, expect: Expect::Any }
}

/// At most so many bytes.
fn text(rng: &mut Rng, bytes_max: usize) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(..bytes_max / 4) {
        text.push(if rng.bool() { rng.alphanumeric() } else { rng.char(..) });
    }
    text
}

fn properties(rng: &mut Rng) -> BasicProperties {
    let mut properties = BasicProperties::default();
    if rng.bool() {
        let kinds = ["application/json", "application/cloudevents+json", "text/plain", "", "\u{0}"];
        properties = properties.with_content_type(kinds[rng.usize(..kinds.len())].into());
    }
    if rng.u8(..4) == 0 {
        properties = properties.with_content_encoding(text(rng, 200).into()).with_correlation_id(text(rng, 200).into());
    }
    if rng.u8(..4) == 0 {
        properties = properties.with_reply_to(text(rng, 200).into()).with_type(text(rng, 200).into());
    }
    if rng.u8(..4) == 0 {
        properties = properties.with_app_id(text(rng, 200).into()).with_timestamp(rng.u64(..));
    }
    if rng.bool() {
        properties = properties.with_delivery_mode(rng.u8(1..=2)).with_priority(rng.u8(..));
    }
    if rng.bool() {
        properties = properties.with_headers(table(rng, 0));
    }
    properties
}

fn table(rng: &mut Rng, depth: u8) -> FieldTable {
    let mut table = FieldTable::default();
    for _ in 0..rng.usize(..6) {
        let name = if rng.bool() { HEADERS[rng.usize(..HEADERS.len())].to_owned() } else { text(rng, 60) };
        let arrays = if depth == 0 && rng.u8(..10) == 0 { rng.usize(..ARRAYS_MAX) } else { 0 };
        let within = |inside, _| AMQPValue::FieldArray(FieldArray::from(vec![inside]));
        table.insert(name.into(), (0..arrays).fold(value(rng, depth + 1), within));
    }
    table
}

/// Every type of AMQP 0-9-1 as RabbitMQ reads it; a short string is none of them.
fn value(rng: &mut Rng, depth: u8) -> AMQPValue {
    let kinds = if depth < DEPTH_MAX { 17 } else { 15 };
    match rng.u8(..kinds) {
        0 => AMQPValue::Boolean(rng.bool()),
        1 => AMQPValue::ShortShortInt(rng.i8(..)),
        2 => AMQPValue::ShortShortUInt(rng.u8(..)),
        3 => AMQPValue::ShortInt(rng.i16(..)),
        4 => AMQPValue::ShortUInt(rng.u16(..)),
        5 => AMQPValue::LongInt(rng.i32(..)),
        6 => AMQPValue::LongUInt(rng.u32(..)),
        7 => AMQPValue::LongLongInt(rng.i64(..)),
        // The broker's language has no other numbers: it closes the connection of whoever sends one in an array.
        8 => AMQPValue::Float(Some(f32::from_bits(rng.u32(..))).filter(|number| number.is_finite()).unwrap_or(0.0)),
        9 => AMQPValue::Double(Some(f64::from_bits(rng.u64(..))).filter(|number| number.is_finite()).unwrap_or(0.0)),
        10 => AMQPValue::DecimalValue(DecimalValue { scale: rng.u8(..), value: rng.u32(..) }),
        11 => AMQPValue::LongString(text(rng, 400).into()),
        12 => AMQPValue::Timestamp(rng.u64(..)),
        13 => AMQPValue::ByteArray(ByteArray::from((0..rng.usize(..200)).map(|_| rng.u8(..)).collect::<Vec<_>>())),
        14 => AMQPValue::Void,
        15 => {
            let values: Vec<AMQPValue> = (0..rng.usize(..4)).map(|_| value(rng, depth + 1)).collect();
            AMQPValue::FieldArray(FieldArray::from(values))
        }
        _ => AMQPValue::FieldTable(table(rng, depth)),
    }
}
