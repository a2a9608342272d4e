//! The bytes of AMQP 0-9-1, by hand and at random: short strings, header tables of every type, depth and width, the properties of a message, frames. What no
//! library would write can be written here. A generator of random numbers enters, bytes leave.

// Three binaries share these words, and none uses all of them.
#![allow(dead_code)]

use fastrand::Rng;

/// The broker's largest frame, where nobody says otherwise.
pub const FRAME_BYTES: usize = 128 * 1024;
/// The properties' places among the flags, from the highest bit on.
pub const CONTENT_TYPE: usize = 0;
pub const HEADERS: usize = 2;
pub const DELIVERY_MODE: usize = 3;
pub const EXPIRATION: usize = 7;
pub const MESSAGE_ID: usize = 8;
pub const USER_ID: usize = 11;

/// Names that mean something to us, to the broker or to a dialect; what is in them is anything.
const NAMES: [&[u8]; 22] = [
    b"x-fis-tenant",
    b"x-fis-attempt",
    b"x-fis-lane",
    b"x-fis-replay",
    b"x-delivery-count",
    b"x-fis-unreadable",
    b"x-fis-damaged",
    b"x-first-death-reason",
    b"x-death",
    b"traceparent",
    b"cloudEvents:id",
    b"cloudEvents:specversion",
    b"cloudEvents_type",
    b"cloudEvents:source",
    b"cloudEvents:tenantid",
    b"CC",
    b"x-stream-offset",
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xe2\x82",
    "ünïcödé".as_bytes(),
];

pub fn short(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()][..], bytes].concat()
}

pub fn long(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

/// A value of a header: a long string (`S`), an array (`A`), a table (`F`).
pub fn tagged(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag][..], &long(bytes)].concat()
}

/// A header.
pub fn entry(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&short(name)[..], value].concat()
}

/// A header that is text.
pub fn text_entry(name: &str, text: &str) -> Vec<u8> {
    entry(name.as_bytes(), &tagged(b'S', text.as_bytes()))
}

/// A value within so many arrays.
pub fn nested(depth: usize) -> Vec<u8> {
    let lengths = (0..depth).map(|inside| u32::try_from(inside * 5 + 1).unwrap());
    let heads: Vec<u8> = lengths.rev().flat_map(|length| [&b"A"[..], &length.to_be_bytes()].concat()).collect();
    [&heads[..], b"V"].concat()
}

pub fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap();
    [&[kind][..], &channel.to_be_bytes(), &size.to_be_bytes(), payload, &[0xce]].concat()
}

/// Some bytes, mostly text, at most so many.
pub fn some_bytes(random: &mut Rng, bytes_max: usize) -> Vec<u8> {
    let count = random.usize(..=bytes_max) / random.usize(1..8);
    match random.u8(..4) {
        0 => (0..count).map(|_| random.u8(..)).collect(),
        1 => vec![random.u8(..); count],
        _ => (0..count).map(|_| random.alphanumeric() as u8).collect(),
    }
}

/// A header table of at most about so many bytes: of all types, deep or wide now and then, with names that somebody looks for.
pub fn table(random: &mut Rng, bytes_max: usize) -> Vec<u8> {
    let mut table = Vec::new();
    let entries = match random.u8(..12) {
        0 => random.usize(..2_000),
        _ => random.usize(..7),
    };
    for _ in 0..entries {
        let name = if random.bool() { NAMES[random.usize(..NAMES.len())].to_vec() } else { some_bytes(random, 60) };
        let value = match random.u16(..400) {
            0..10 => nested(random.usize(..60)),
            10 => nested(random.usize(..20_000)),
            11 => tagged(b'A', &b"V".repeat(random.usize(..100_000))),
            12..16 => tagged(b'A', &value(random, 3).repeat(random.usize(..600))),
            16 => tagged(b'S', &vec![b'h'; random.usize(..bytes_max.max(1))]),
            17..30 => death(random),
            _ => value(random, 0),
        };
        let entry = entry(&name, &value);
        if table.len() + entry.len() <= bytes_max {
            table.extend(entry);
        }
    }
    table
}

/// A record of deaths, as the broker writes it or nearly.
fn death(random: &mut Rng) -> Vec<u8> {
    let queues: [&[u8]; 3] = [b"fis.ingestion.queue", b"fis.urgent.queue", b"elsewhere"];
    let keys: Vec<u8> = (0..random.usize(..4)).flat_map(|_| tagged(b'S', &some_bytes(random, 300))).collect();
    let fields = [
        entry(b"count", &[&b"l"[..], &random.u64(..9).to_be_bytes()].concat()),
        entry(b"reason", &tagged(b'S', if random.bool() { b"rejected" } else { b"expired" })),
        entry(b"queue", &tagged(b'S', queues[random.usize(..3)])),
        entry(b"exchange", &tagged(b'S', b"fis.events.exchange")),
        entry(b"routing-keys", &tagged(b'A', &keys)),
        entry(b"time", &[&b"T"[..], &random.u64(..).to_be_bytes()].concat()),
    ];
    let kept: Vec<u8> = fields.into_iter().filter(|_| random.u8(..8) > 0).flatten().collect();
    tagged(b'A', &tagged(b'F', &kept))
}

/// Every type of AMQP 0-9-1 as RabbitMQ reads it.
fn value(random: &mut Rng, depth: u8) -> Vec<u8> {
    let sized = |random: &mut Rng, tags: &[u8], count: usize| {
        let bytes = random.u64(..).to_be_bytes();
        [&[tags[random.usize(..tags.len())]][..], &bytes[..count]].concat()
    };
    match random.u8(..if depth < 4 { 13 } else { 11 }) {
        0 => b"V".to_vec(),
        1 => sized(random, b"bB", 1),
        2 => vec![b't', random.u8(..2)],
        3 => sized(random, b"su", 2),
        4 => sized(random, b"Ii", 4),
        5 => sized(random, b"lLT", 8),
        // The broker's language has only numbers that are finite: it closes the connection of whoever sends another.
        6 => [&b"f"[..], &(f32::from(random.i16(..)) / 7.0).to_be_bytes()].concat(),
        7 => [&b"d"[..], &(f64::from(random.i32(..)) / 7.0).to_be_bytes()].concat(),
        8 => [&[b'D', random.u8(..)][..], &random.u32(..).to_be_bytes()].concat(),
        9 => tagged(b'S', &some_bytes(random, 400)),
        10 => tagged(b'x', &some_bytes(random, 200)),
        11 => {
            let values: Vec<u8> = (0..random.usize(..4)).flat_map(|_| value(random, depth + 1)).collect();
            tagged(b'A', &values)
        }
        _ => {
            let entries: Vec<u8> = (0..random.usize(..4))
                .flat_map(|_| entry(&some_bytes(random, 30), &value(random, depth + 1)))
                .collect();
            tagged(b'F', &entries)
        }
    }
}

/// A message's properties, each as its bytes.
#[derive(Debug, Clone, Default)]
pub struct Properties(pub [Option<Vec<u8>>; 14]);

impl Properties {
    /// Some of each, with header tables of at most so many bytes.
    pub fn random(random: &mut Rng, table_bytes_max: usize) -> Self {
        let mut properties = Self::default();
        for (place, property) in properties.0.iter_mut().enumerate() {
            if random.u8(..4) > 0 {
                continue;
            }
            *property = Some(match place {
                CONTENT_TYPE => {
                    let kinds: [&[u8]; 5] =
                        [b"application/json", b"application/cloudevents+json", b"text/plain", b"", b"\0"];
                    if random.bool() { short(kinds[random.usize(..5)]) } else { short(&some_bytes(random, 255)) }
                }
                HEADERS => continue,
                DELIVERY_MODE => vec![random.u8(1..=2)],
                4 => vec![random.u8(..)],
                9 => random.u64(..).to_be_bytes().to_vec(),
                // The broker refuses what is no time; and what expires is dead-lettered by the broker itself.
                EXPIRATION if random.u8(..4) > 0 => continue,
                EXPIRATION => short(random.u32(..100_000).to_string().as_bytes()),
                // Another user's name is refused.
                USER_ID if random.u8(..40) > 0 => short(b"fis_service"),
                _ => short(&some_bytes(random, 255)),
            });
        }
        if random.bool() {
            properties.put_headers(&table(random, table_bytes_max));
        }
        properties
    }

    pub fn put_headers(&mut self, table: &[u8]) {
        self.0[HEADERS] = Some(long(table));
    }

    pub fn has_deaths(&self) -> bool {
        self.0[HEADERS].as_ref().is_some_and(|table| table.windows(7).any(|window| window == b"x-death"))
    }

    /// The payload of a content header.
    pub fn encode(&self, body_bytes: usize) -> Vec<u8> {
        let mut flags = 0u16;
        for (place, property) in self.0.iter().enumerate() {
            flags |= u16::from(property.is_some()) << (15 - place);
        }
        let size = u64::try_from(body_bytes).unwrap();
        let fixed = [&60u16.to_be_bytes()[..], &[0, 0], &size.to_be_bytes(), &flags.to_be_bytes()].concat();
        [fixed, self.0.iter().flatten().flatten().copied().collect()].concat()
    }
}
