//! Whatever the broker sends, lapin can read it afterwards; and what lapin could read before is the same, byte for byte. lapin's
//! own readers are the judges.

use lapin::BasicProperties;
use lapin::protocol::{AMQPClass, basic, parse_class};
use lapin::types::AMQPValue;
use proptest::prelude::*;

use super::header::{self, FIXED_BYTES, VALUES_MAX};
use super::*;
use crate::platform::amqp::Properties;

const FRAME_BYTES: usize = 128 * 1024;
const PAYLOAD_BYTES: usize = FRAME_BYTES - HEAD_BYTES - END_BYTES;

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [&[kind][..], &channel.to_be_bytes(), &length.to_be_bytes(), payload, &[FRAME_END]].concat()
}

fn short(text: &[u8]) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()][..], text].concat()
}

fn long(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag][..], &u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn entry(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&short(name)[..], value].concat()
}

/// A value within so many arrays.
fn nested(depth: usize) -> Vec<u8> {
    let lengths = (0..depth).map(|inside| u32::try_from(inside * 5 + 1).unwrap());
    let heads: Vec<u8> = lengths.rev().flat_map(|length| [&b"A"[..], &length.to_be_bytes()].concat()).collect();
    [&heads[..], b"V"].concat()
}

/// A content header with a content type, these headers and a message id.
fn content(headers: &[u8]) -> Vec<u8> {
    let flags: u16 = 1 << 15 | 1 << 13 | 1 << 7;
    let fixed = [&60u16.to_be_bytes()[..], &[0, 0], &7u64.to_be_bytes(), &flags.to_be_bytes()].concat();
    let table = long(0, headers);
    [&fixed[..], &short(b"application/json"), &table[1..], &short(b"m1")].concat()
}

fn deliver(routing_key: &[u8]) -> Vec<u8> {
    let parts = [&[0, 60, 0, 60][..], &short(b"tag"), &[0; 9], &short(b"exchange"), &short(routing_key)];
    parts.concat()
}

/// An `x-death` header as the broker adds it when it dead-letters.
fn death(routing_key: &[u8]) -> Vec<u8> {
    let keys = long(b'A', &long(b'S', routing_key));
    let fields = [
        entry(b"count", &[&b"l"[..], &1u64.to_be_bytes()].concat()),
        entry(b"reason", &long(b'S', b"rejected")),
        entry(b"queue", &long(b'S', b"lane")),
        entry(b"routing-keys", &keys),
    ];
    entry(b"x-death", &long(b'A', &long(b'F', &fields.concat())))
}

/// The bytes that come out of the screen when `bytes` come in pieces of these sizes, over and over.
fn through(screen: &mut Screen, mut bytes: &[u8], pieces: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut pieces = pieces.iter().cycle();
    while !bytes.is_empty() {
        let piece = (*pieces.next().unwrap()).clamp(1, bytes.len());
        let may_pass = screen.may_pass();
        let count = if may_pass > 0 && piece.is_multiple_of(2) {
            let count = may_pass.min(piece);
            out.extend_from_slice(&bytes[..count]);
            screen.passed(count);
            count
        } else {
            let room = screen.room();
            let count = room.len().min(piece);
            room[..count].copy_from_slice(&bytes[..count]);
            screen.filled(count);
            count
        };
        bytes = &bytes[count..];
        let mut taken = [0; 1000];
        loop {
            let count = screen.take(&mut taken[..piece.min(1000)]);
            if count == 0 {
                break;
            }
            out.extend_from_slice(&taken[..count]);
        }
    }
    out
}

fn screened(bytes: &[u8]) -> Vec<u8> {
    through(&mut Screen::new(u32::try_from(FRAME_BYTES).unwrap()), bytes, &[1_000_000])
}

/// The properties of a content header, as lapin reads them.
fn read(payload: &[u8]) -> Option<BasicProperties> {
    let (rest, properties) = basic::parse_properties(&payload[FIXED_BYTES..]).ok()?;
    rest.is_empty().then_some(properties)
}

/// The properties that lapin gets of a content header with these headers.
fn received(headers: &[u8]) -> Properties {
    let out = screened(&frame(2, 1, &content(headers)));
    assert!(out.len() <= FRAME_BYTES && out.last() == Some(&FRAME_END));
    let length = u32::from_be_bytes(out[3..7].try_into().unwrap()) as usize;
    assert_eq!(length, out.len() - HEAD_BYTES - END_BYTES);
    assert_eq!(
        out[HEAD_BYTES..][..FIXED_BYTES],
        content(headers)[..FIXED_BYTES],
        "class, weight and size of the body stay"
    );
    let properties = Properties::from_lapin(read(&out[HEAD_BYTES..out.len() - END_BYTES]).unwrap());
    assert_eq!((properties.message_id(), properties.content_type()), (Some("m1"), Some("application/json")));
    properties
}

/// The broker sorts the headers when it adds a death, and these two names are read as one.
#[test]
fn names_that_are_not_utf8_and_become_one_name_are_left_out_in_either_order() {
    let (table, deep) = (entry(&[0xfb], &long(b'F', &entry(b"x", b"V"))), entry(&[0xa9], &nested(40)));
    let own = entry(b"own", b"V");
    let read_as = |headers: &[Vec<u8>]| {
        let mut payload = content(&headers.concat());
        let payload = header::screen(&mut payload, PAYLOAD_BYTES).unwrap_or(payload);
        let read = read(&payload).expect("lapin can read it");
        read.headers().as_ref().map(|table| table.inner().clone())
    };
    let sent = read_as(&[table.clone(), deep.clone(), own.clone()]);
    assert_eq!(sent, read_as(&[deep.clone(), table.clone(), own]));
    let names: Vec<String> = sent.unwrap().keys().map(ToString::to_string).collect();
    assert_eq!(names, ["own"]);
    // One alone is read with a mark in its name, and one that is too deep is told.
    assert!(read_as(&[table]).unwrap().contains_key("?"));
    assert!(read_as(&[deep]).unwrap().contains_key(UNREADABLE_HEADER));
}

#[test]
fn text_that_is_not_utf8_becomes_readable_and_nothing_moves() {
    let headers = [entry(b"n\xff\xfe", b"V"), entry(b"t", &long(b'F', &entry(b"\xc3", &long(b'S', b"\xff"))))].concat();
    let bytes = [
        frame(1, 1, &deliver(b"a.\xff\xfe.\xe2\x82")),
        frame(2, 1, &content(&headers)),
        frame(3, 1, b"\xff\xfe body"),
        frame(8, 0, b""),
    ];
    let out = screened(&bytes.concat());
    let (method, rest) = out.split_at(bytes[0].len());
    assert!(matches!(
        parse_class(&method[HEAD_BYTES..method.len() - END_BYTES]),
        Ok(([], AMQPClass::Basic(basic::AMQPMethod::Deliver(deliver)))) if deliver.routing_key.as_str() == "a.??.??"
    ));
    let (header, rest) = rest.split_at(bytes[1].len());
    let properties = read(&header[HEAD_BYTES..header.len() - END_BYTES]).unwrap();
    let table = properties.headers().as_ref().unwrap().inner();
    assert!(matches!(table.get("n??"), Some(AMQPValue::Void)));
    // A long string may hold any bytes.
    assert!(
        matches!(&table["t"], AMQPValue::FieldTable(inner) if inner.inner()["?"] == AMQPValue::LongString(vec![0xff].into()))
    );
    assert_eq!(rest, bytes[2..].concat());
}

#[test]
fn nesting_without_end_loses_its_header_and_the_message_says_so() {
    let tenant = entry(b"x-fis-tenant", &long(b'S', b"acme"));
    for deep in [nested(DEPTH_MAX + 1), nested(20_000), nested(24_000)] {
        let properties = received(&[&tenant[..], &entry(b"deep", &deep), &death(b"order.completed")].concat());
        assert_eq!(properties.header(UNREADABLE_HEADER), Some("too_deep"));
        assert_eq!(properties.header("x-fis-tenant"), Some("acme"));
        assert_eq!(properties.death().unwrap().routing_key.as_deref(), Some("order.completed"));
    }
}

#[test]
fn the_deepest_header_that_is_taken_can_be_stored_and_read_back() {
    let properties = received(&entry(b"deep", &nested(DEPTH_MAX)));
    assert_eq!(properties.header(UNREADABLE_HEADER), None);
    assert_eq!(Properties::from_text(&properties.to_text()), Some(properties));
    let tables = (0..DEPTH_MAX).fold(b"V".to_vec(), |inside, _| long(b'F', &entry(b"n", &inside)));
    let properties = received(&entry(b"deep", &tables));
    assert_eq!(properties.header(UNREADABLE_HEADER), None);
    assert_eq!(Properties::from_text(&properties.to_text()), Some(properties));
}

/// The headers by which a letter is known, as the lane and as the parking find them.
fn both_readings(own: &[u8]) -> [Vec<(String, String)>; 2] {
    let in_the_queue =
        [own, &death(&[b'k'; 255]), &entry(b"x-delivery-count", &[&b"l"[..], &[0; 8]].concat())].concat();
    [own, &in_the_queue].map(|headers| {
        let properties = received(headers);
        let known = ["cloudEvents", UNREADABLE_HEADER].map(|prefix| {
            properties
                .headers_starting(prefix)
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect::<Vec<_>>()
        });
        known.concat()
    })
}

#[test]
fn a_lane_and_the_dead_letter_queue_find_the_same_headers_at_every_size() {
    let most = PAYLOAD_BYTES - content(b"").len() - entry(b"cloudEvents:id", &long(b'S', b"")).len();
    let (mut kept, mut lost) = (0, 0);
    for bytes in (0..12_000).step_by(97).map(|less| most - less) {
        let [lane, parking] = both_readings(&entry(b"cloudEvents:id", &long(b'S', &vec![b'i'; bytes])));
        assert!(lane == parking, "{bytes}");
        let mark = (UNREADABLE_HEADER.to_owned(), Unreadable::TooLarge.name().to_owned());
        if lane == [mark] { lost += 1 } else { kept += 1 }
    }
    assert!(kept > 0 && lost > 0);
}

#[test]
fn headers_of_too_many_values_are_left_out_by_the_lane_and_by_the_parking() {
    let lost = [(UNREADABLE_HEADER.to_owned(), Unreadable::TooLarge.name().to_owned())];
    let id = entry(b"cloudEvents:id", &long(b'S', b"i"));
    let kept = [("cloudEvents:id".to_owned(), "i".to_owned())];
    let voids = |count: usize| entry(b"voids", &long(b'A', &b"V".repeat(count)));
    let names = |count: u16| (0..count).flat_map(|n| entry(&n.to_be_bytes().map(|byte| byte % 128), b"V")).collect();
    let cases: [(Vec<u8>, bool); 5] = [
        (voids(VALUES_MAX - 2), true),
        (voids(VALUES_MAX), false),
        (voids(100_000), false),
        (names(4_000), true),
        (names(20_000), false),
    ];
    for (many, is_taken) in cases {
        let [lane, parking] = both_readings(&[&id[..], &many].concat());
        assert_eq!(lane, parking);
        assert_eq!(&lane, if is_taken { &kept } else { &lost });
    }
    // Where the broker keeps its own record they are no loss of the publisher's.
    let deaths = entry(
        b"x-death",
        &long(b'A', &[&long(b'F', &entry(b"queue", &long(b'S', b"q")))[..], &b"V".repeat(100_000)].concat()),
    );
    let properties = received(&[&id[..], &deaths].concat());
    assert_eq!((properties.header(UNREADABLE_HEADER), properties.header("cloudEvents:id")), (None, Some("i")));
    assert!(properties.memory() < 1_000, "{} bytes", properties.memory());
}

#[test]
fn a_record_of_deaths_that_fills_a_frame_is_cut_to_the_newest() {
    let own = entry(b"cloudEvents:id", &long(b'S', &[b'i'; 90_000]));
    let keys = long(b'A', &[long(b'S', b"first"), long(b'S', &[b'k'; 100_000])].concat());
    let fields = [
        entry(b"queue", &long(b'S', b"lane")),
        entry(b"reason", &long(b'S', b"delivery_limit")),
        entry(b"routing-keys", &keys),
    ];
    for table in [fields.concat(), [&fields.concat()[..], &entry(b"deep", &nested(10_000))].concat()] {
        let deaths = entry(b"x-death", &long(b'A', &[long(b'F', &table), long(b'F', b"")].concat()));
        let properties =
            received(&[&own[..], &deaths, &entry(b"CC", &long(b'A', &long(b'S', &[b'c'; 70_000])))].concat());
        let death = properties.death().unwrap();
        assert_eq!((death.queue.as_str(), death.reason.as_str()), ("lane", "delivery_limit"));
        assert_eq!(death.routing_key.as_deref(), Some("first"));
        // Nothing of the publisher's own was lost.
        assert_eq!(properties.header(UNREADABLE_HEADER), None);
        assert_eq!(properties.header("cloudEvents:id").map(str::len), Some(90_000));
    }
}

#[test]
fn a_record_of_deaths_that_nobody_can_read_leaves_its_trace() {
    let own = entry(b"x-fis-note", &long(b'S', b"kept"));
    assert!(!received(&own).has_deaths());
    for deaths in [nested(40), nested(10_000), b"V".to_vec(), long(b'A', &b"V".repeat(100_000))] {
        let properties = received(&[&own[..], &entry(b"x-death", &deaths)].concat());
        assert!(properties.has_deaths() && properties.death().is_none());
        assert_eq!((properties.header(UNREADABLE_HEADER), properties.header("x-fis-note")), (None, Some("kept")));
    }
    let bare = header::bare(&content(b""), Unreadable::TooLarge);
    assert!(Properties::from_lapin(read(&bare).unwrap()).has_deaths(), "there may have been one");
}

/// The broker writes its own record into the first; lapin would read the last.
#[test]
fn of_several_headers_with_one_name_the_first_counts() {
    let forged = |key: &[u8]| entry(b"x-death", &long(b'A', &long(b'F', &entry(b"queue", &long(b'S', key)))));
    let count = |count: u64| entry(b"x-delivery-count", &[&b"l"[..], &count.to_be_bytes()].concat());
    let id = |id: &[u8]| entry(b"cloudEvents:id", &long(b'S', id));
    let properties =
        received(&[id(b"a"), death(b"key"), count(1), forged(b"f"), id(b"b"), count(500), id(b"c")].concat());
    assert_eq!(properties.death().unwrap().routing_key.as_deref(), Some("key"));
    assert_eq!(properties.header_number("x-delivery-count"), Some(1));
    assert_eq!((properties.header("cloudEvents:id"), properties.header(UNREADABLE_HEADER)), (Some("a"), None));
    // RabbitMQ 4 leaves the others out when it adds something, and not before.
    assert_eq!(
        both_readings(&[id(b"a"), id(&[b'b'; 100_000]), entry(b"cloudEvents:id", &nested(100))].concat())[0],
        both_readings(&id(b"a"))[1]
    );
}

#[test]
fn a_publishers_own_mark_does_not_hide_ours() {
    let forged = entry(UNREADABLE_HEADER.as_bytes(), &long(b'S', b"none"));
    let properties = received(&[&forged[..], &entry(b"deep", &nested(100)), &forged].concat());
    assert_eq!(properties.header(UNREADABLE_HEADER), Some("too_deep"));
}

#[test]
fn the_smaller_frame_of_the_two_that_were_proposed_is_the_limit() {
    let tune =
        |frame_max: u32| frame(1, 0, &[&[0, 10, 0, 30, 7, 255][..], &frame_max.to_be_bytes(), &[0, 60]].concat());
    let message = frame(2, 1, &content(&entry(b"h", &long(b'S', &[b'h'; 40_000]))));
    for (ours, theirs, fits) in
        [(65_536, 0, true), (65_536, 131_072, true), (65_536, 32_768, false), (0, 32_768, false), (0, 0, true)]
    {
        let mut screen = Screen::new(ours);
        assert_eq!(through(&mut screen, &tune(theirs), &[3]), tune(theirs));
        assert_eq!(through(&mut screen, &message, &[999]) == message, fits, "{ours} {theirs}");
    }
}

#[test]
fn a_header_longer_than_is_held_becomes_a_bare_one_and_takes_no_memory() {
    let long = frame(2, 9, &content(&entry(b"h", &long(b'S', &vec![b'h'; 5_000_000]))));
    let behind = [frame(3, 9, b"body"), frame(8, 0, b""), frame(1, 9, &deliver(b"key"))].concat();
    let mut screen = Screen::new(0);
    let mut out = Vec::new();
    for piece in long.chunks(4096).chain(behind.chunks(1)) {
        assert!(screen.room().len() <= 130 * 1024);
        out.extend(through(&mut screen, piece, &[4096]));
    }
    let (bare, rest) = out.split_at(out.len() - behind.len());
    assert_eq!(rest, behind);
    assert_eq!(bare[..3], [2, 0, 9]);
    let properties = Properties::from_lapin(read(&bare[HEAD_BYTES..bare.len() - END_BYTES]).unwrap());
    assert_eq!(properties.header(UNREADABLE_HEADER), Some("too_large"));
}

#[test]
fn a_server_of_another_version_is_heard() {
    let answer = b"AMQP\x00\x01\x00\x00 and whatever it says next";
    assert_eq!(through(&mut Screen::new(0), answer, &[3]), answer);
}

/// Values that lapin can read.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let bytes = |count| prop::collection::vec(any::<u8>(), count);
    let fixed = prop::sample::select(vec![("V", 0), ("tbB", 1), ("sUu", 2), ("Iif", 4), ("D", 5), ("LldT", 8)]);
    let plain = (fixed, any::<prop::sample::Index>(), bytes(8usize))
        .prop_map(|((tags, count), tag, bytes)| [&[*tag.get(tags.as_bytes())][..], &bytes[..count]].concat());
    let texts = (prop::sample::select(vec![b'S', b'x']), prop::collection::vec(any::<u8>(), 0..40));
    let leaf = prop_oneof![plain, texts.prop_map(|(tag, bytes)| long(tag, &bytes))];
    leaf.prop_recursive(6, 40, 4, |inner| {
        let named = ("\\PC{0,20}", inner.clone()).prop_map(|(name, value)| entry(name.as_bytes(), &value));
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|values| long(b'A', &values.concat())),
            prop::collection::vec(named, 0..4).prop_map(|values| long(b'F', &values.concat())),
        ]
    })
}

fn headers() -> impl Strategy<Value = Vec<u8>> {
    // Each name once.
    prop::collection::vec(("\\PC{0,28}", value()), 0..6).prop_map(|entries| {
        let named = entries.iter().enumerate();
        named.flat_map(|(place, (name, value))| entry(format!("{place}{name}").as_bytes(), value)).collect()
    })
}

/// Frames of all kinds on some channels, as a broker interleaves them.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        "\\PC{0,60}".prop_map(|key| (1, deliver(key.as_bytes()))),
        headers().prop_map(|headers| (2, content(&headers))),
        prop::collection::vec(any::<u8>(), 0..3000).prop_map(|body| (3, body)),
        Just((8, Vec::new())),
    ];
    let one = (one, 0..4u16).prop_map(|((kind, payload), channel)| frame(kind, channel, &payload));
    prop::collection::vec(one, 0..12).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn what_lapin_can_read_is_untouched_however_it_is_cut(bytes in frames(), pieces in prop::collection::vec(1..200usize, 1..20)) {
        prop_assert_eq!(through(&mut Screen::new(0), &bytes, &pieces), bytes);
    }

    #[test]
    fn where_the_bytes_are_cut_changes_nothing(
        mut bytes in frames(), turned in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        pieces in prop::collection::vec(1..200usize, 1..20),
    ) {
        for (place, byte) in turned {
            if !bytes.is_empty() {
                *place.get_mut(&mut bytes[..]) = byte;
            }
        }
        let (mut one, mut other) = (Screen::new(8192), Screen::new(8192));
        let whole = through(&mut one, &bytes, &[100_001]);
        prop_assert_eq!(through(&mut other, &bytes, &pieces), whole);
    }

    #[test]
    fn whatever_a_content_header_holds_lapin_can_read_it(
        mut payload in headers().prop_map(|headers| content(&headers)),
        turned in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(), is_cut in any::<bool>(),
    ) {
        for (place, byte) in turned {
            *place.get_mut(&mut payload[..]) = byte;
        }
        if is_cut {
            payload.truncate(cut.index(payload.len()));
        }
        // lapin looks past the flag that says that more flags follow, and would take those for properties.
        let is_continued = payload.get(FIXED_BYTES + 1).is_some_and(|flags| flags & 1 == 1);
        let was_readable = payload.len() >= FIXED_BYTES && read(&payload).is_some() && !is_continued;
        let before = payload.clone();
        let replaced = header::screen(&mut payload, PAYLOAD_BYTES);
        let now = replaced.as_deref().unwrap_or(&payload);
        prop_assert!(read(now).is_some(), "{:?}", now);
        let names = |payload: &[u8]| read(payload).and_then(|read| Some(read.headers().as_ref()?.inner().keys().cloned().collect::<Vec<_>>()));
        if was_readable && now != before {
            // Only of a name that stands there twice something was left out.
            prop_assert!(now.len() < before.len());
            prop_assert_eq!(names(now), names(&before));
        } else {
            prop_assert_eq!(was_readable, now == before);
        }
    }
}
