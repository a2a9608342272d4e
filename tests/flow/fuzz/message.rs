//! Messages of strangers: a generator of random numbers enters, a message leaves as the bytes that go over the socket. Most are events of some dialect of which
//! something was turned: the body, the routing key, the properties, the size.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::support::events::{BACKFILL, LIVE, URGENT, cart, order_of, refund_of};
use crate::support::fuzz::mutate;
use crate::support::load::TENANTS;
use crate::support::tree::{
    CONTENT_TYPE, EXPIRATION, FRAME_BYTES, HEADERS, MESSAGE_ID, Properties, frame, short, some_bytes, table, text_entry,
};

const KEY: &str = "ecommerce.order.completed";
const LANES: [&str; 3] = [LIVE, URGENT, BACKFILL];
/// An event has at most 256 KiB; a letter keeps as much.
const KEPT: usize = 256 * 1024;
const PIECES: [&[u8]; 14] = [
    b"{",
    b"}",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"1e400",
    b"0.001",
    b"-",
    b"\xff",
    b"\0",
    b"\xe2\x80\xae",
    b",\"tenantId\":\"globex\"",
    b"9007199254740993",
];

#[derive(Debug, Clone)]
pub struct Sent {
    pub exchange: &'static str,
    pub routing_key: Vec<u8>,
    /// The payload of the content header.
    pub header: Vec<u8>,
    pub body: Vec<u8>,
}

impl Sent {
    /// As a file of the corpus: the frames of method and content header, and behind them the body.
    pub fn encode(&self) -> Vec<u8> {
        let publish = [&[0, 60, 0, 40, 0, 0][..], &short(self.exchange.as_bytes()), &short(&self.routing_key), &[0]];
        [frame(1, 1, &publish.concat()), frame(2, 1, &self.header), self.body.clone()].concat()
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        fn next<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
            let length = u32::from_be_bytes(*bytes.get(3..)?.first_chunk()?) as usize;
            let payload = bytes.get(7..7 + length)?;
            *bytes = bytes.get(8 + length..)?;
            Some(payload)
        }
        let mut rest = bytes;
        let method = next(&mut rest)?;
        let header = next(&mut rest)?;
        let exchange = method.get(7..7 + usize::from(*method.get(6)?))?;
        let exchange = *LANES.iter().find(|lane| lane.as_bytes() == exchange)?;
        let key = 7 + exchange.len();
        let routing_key = method.get(key + 1..key + 1 + usize::from(*method.get(key)?))?;
        Some(Self { exchange, routing_key: routing_key.to_vec(), header: header.to_vec(), body: rest.to_vec() })
    }
}

/// An event, its routing key, its content type and its headers.
struct Event {
    body: Value,
    key: &'static str,
    content_type: &'static str,
    headers: Vec<u8>,
}

/// An event of some dialect.
fn event(random: &mut Rng, id: &str) -> Event {
    let tenant = if random.u8(..12) == 0 { "nobody" } else { TENANTS[random.usize(..2)] };
    let currency = ["EUR", "EUR", "EUR", "USD", "GBP", "XXX"][random.usize(..6)];
    let payload = json!({"orderId": id, "currency": currency, "total": "119.00", "tax": "19.00"});
    let at = "2026-02-25T10:00:00Z";
    let usual = |body: Value| Event { body, key: KEY, content_type: "application/json", headers: Vec::new() };
    let attributes = |prefix: &str| {
        let named = [("specversion", "1.0"), ("id", id), ("type", KEY), ("source", "/shop"), ("tenantid", tenant)];
        named.iter().flat_map(|(name, value)| text_entry(&format!("{prefix}{name}"), value)).collect::<Vec<u8>>()
    };
    match random.u8(..10) {
        0 => usual(json!({"event_id": id, "tenant_id": tenant, "timestamp": at, "payload": payload})),
        1 => usual(json!({
            "id": "job", "action": KEY, "idempotency_key": id, "tenant_id": tenant, "created_at": at,
            "attempts": 0, "max_attempts": 3, "payload": payload,
        })),
        2 => Event {
            content_type: "application/cloudevents+json",
            ..usual(json!({
                "specversion": "1.0", "id": id, "source": "/shop", "type": KEY, "time": at, "tenantid": tenant,
                "data": payload,
            }))
        },
        3 => Event { headers: attributes("cloudEvents:"), ..usual(payload) },
        4 => Event { headers: attributes("cloudEvents_"), ..usual(payload) },
        5 => Event { headers: text_entry("x-fis-tenant", tenant), ..usual(payload) },
        6 => Event { key: "ecommerce.order.refunded", ..usual(refund_of(tenant, id, "never").value()) },
        7 => Event { key: "ecommerce.cart.updated", ..usual(cart(tenant, id).value()) },
        _ => usual(order_of(tenant, id, currency, "119.00", "19.00").value()),
    }
}

/// Some message. Its id is in it, mostly as its message id too.
pub fn message(random: &mut Rng, pool: &[Vec<u8>], id: &str) -> Sent {
    let event = event(random, id);
    let exchange = LANES[random.usize(..3)];
    let routing_key = match random.u8(..8) {
        0 => some_bytes(random, 255),
        1 => Vec::new(),
        _ => event.key.as_bytes().to_vec(),
    };
    let body = body(random, pool, event.body.to_string().into_bytes());
    let mut properties = match random.u8(..3) {
        0 => Properties::default(),
        1 => Properties::random(random, FRAME_BYTES - 4_000),
        _ => Properties::random(random, 4_000),
    };
    if random.u8(..8) > 0 {
        properties.0[CONTENT_TYPE] = Some(short(event.content_type.as_bytes()));
    }
    if random.u8(..16) > 0 {
        properties.0[MESSAGE_ID] = Some(short(id.as_bytes()));
    }
    if !event.headers.is_empty() || random.u8(..4) == 0 {
        let random_ones = if random.bool() { table(random, 2_000) } else { Vec::new() };
        properties.put_headers(&[random_ones, event.headers].concat());
    }
    if random.u8(..30) == 0 {
        // To the last byte of the frame.
        properties.0[HEADERS] = None;
        let beside = properties.encode(0).len() + 4 + text_entry("cloudEvents:fill", "").len();
        properties.put_headers(&text_entry("cloudEvents:fill", &"h".repeat(FRAME_BYTES - 8 - beside)));
    }
    // What expires is dead-lettered by the broker itself, and RabbitMQ 3.x does not survive that with every record of deaths.
    if properties.has_deaths() {
        properties.0[EXPIRATION] = None;
    }
    let mut header = properties.encode(body.len());
    if random.u8(..40) == 0 {
        // The broker takes few of these.
        let at = random.usize(12..header.len());
        header[at] = random.u8(..);
    }
    Sent { exchange, routing_key, header, body }
}

fn body(random: &mut Rng, pool: &[Vec<u8>], whole: Vec<u8>) -> Vec<u8> {
    match random.u8(..24) {
        0..10 => whole,
        10..16 => mutate(random, &[whole], &PIECES, KEPT),
        16 => some_bytes(random, 2_000),
        17 => vec![random.u8(..); random.usize(..2)],
        18 if !pool.is_empty() => {
            let body = Sent::decode(&pool[random.usize(..pool.len())]).map_or(whole, |sent| sent.body);
            mutate(random, &[body], &PIECES, KEPT)
        }
        // Padded to about what is taken: white space behind an event is no part of it.
        19..21 => {
            let mut body = whole;
            body.resize(KEPT - 2 + random.usize(..5), b' ');
            body
        }
        21 => {
            let sizes = [KEPT + 1, 300_000, 1_000_000, 3_000_000, 8 * 1024 * 1024, 9_000_000];
            let mut body = whole;
            body.resize(sizes[random.usize(..sizes.len())], if random.bool() { b' ' } else { b'x' });
            body
        }
        22 => format!("{{\"deep\":{}{}}}", "[".repeat(random.usize(..100_000)), "]".repeat(random.usize(..100_000)))
            .into_bytes(),
        _ => {
            let members: String = (0..random.usize(..12_000)).map(|n| format!("\"m{n}\":{n},")).collect();
            let text = String::from_utf8(whole).unwrap();
            text.replacen('{', &format!("{{{members}"), 1).into_bytes()
        }
    }
}
