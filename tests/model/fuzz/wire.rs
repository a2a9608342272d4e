//! The broker's bytes before lapin sees them: whatever comes, in whichever pieces, the same bytes leave; every content header that leaves can be read by lapin's own
//! frame reader, no body is changed, and no length that a stranger chose decides how much memory is taken. The input is a stream of frames.

use amq_protocol::frame::{AMQPFrame, parse_frame};
use fastrand::Rng;
use fis::platform::amqp::wire::{Screen, UNREADABLE_HEADER};

use super::CPU_MAX;
use crate::fuzzing::{Target, about, fuzz, mutate};
use crate::tree::{FRAME_BYTES, MESSAGE_ID, Properties, entry, frame, nested, short, some_bytes, tagged};

/// The longest payload that is held back, and room for what is beside it.
const ROOM_BYTES_MAX: usize = 1024 * 1024 + 1024;
/// The properties of a message that lost all of its own, with the frame around them.
const BARE_BYTES_MAX: usize = 100;
const HEAD_BYTES: usize = 7;
const FIXED_BYTES: usize = 12;
const PIECES: [&[u8]; 10] = [
    b"\x01\x00\x01\x00\x00\x00",
    b"\x02\x00\x01\x00\x00\x00",
    b"\x03\x00\x01\x00\x00\x00\x01x\xce",
    b"\xce",
    b"\x00\x3c\x00\x3c",
    b"A\x00\x00\x00\x05",
    b"F\x00\x00\x00\x05",
    b"\xff\xff\xff\xff",
    b"\x07x-deathA\x00\x00\x00\x05",
    b"\x08\x00\x00\x00\x00\x00\x00\xce",
];

fn make(random: &mut Rng, pool: &[Vec<u8>]) -> Vec<u8> {
    if random.u8(..3) == 0 && !pool.is_empty() {
        return mutate(random, pool, &PIECES, 64 * 1024);
    }
    let mut bytes = Vec::new();
    for _ in 0..random.usize(1..6) {
        let channel = random.u16(..4);
        let (kind, mut payload) = match random.u8(..8) {
            0 => (1, deliver(random)),
            // The broker proposes a frame size.
            1 => (1, [&[0, 10, 0, 30, 7, 255][..], &random.u32(..200_000).to_be_bytes(), &[0, 60]].concat()),
            2 => (3, some_bytes(random, 3_000)),
            3 => (random.u8(..10), some_bytes(random, 300)),
            4 => {
                let mut properties = Properties::random(random, 1_000);
                let deep = entry(&some_bytes(random, 20), &nested(random.usize(..3_000)));
                properties.put_headers(&deep);
                (2, properties.encode(random.usize(..100)))
            }
            5 => {
                // As large as a frame and larger.
                let mut properties = Properties::random(random, 1_000);
                let fill = random.usize(FRAME_BYTES - 12_000..FRAME_BYTES + 20_000);
                properties.put_headers(&entry(b"cloudEvents:fill", &tagged(b'S', &vec![b'h'; fill])));
                properties.0[MESSAGE_ID] = Some(short(b"m"));
                (2, properties.encode(7))
            }
            _ => {
                let bytes_max = if random.u8(..6) == 0 { 200_000 } else { 4_000 };
                (2, Properties::random(random, bytes_max).encode(random.usize(..100)))
            }
        };
        if random.u8(..3) == 0 && !payload.is_empty() {
            for _ in 0..random.usize(1..6) {
                let at = random.usize(..payload.len());
                payload[at] = random.u8(..);
            }
            if random.u8(..4) == 0 {
                payload.truncate(random.usize(..payload.len()));
            }
        }
        bytes.extend(frame(kind, channel, &payload));
    }
    bytes
}

fn deliver(random: &mut Rng) -> Vec<u8> {
    let methods: [&[u8]; 4] = [&[0, 60, 0, 60], &[0, 60, 0, 71], &[0, 60, 0, 50], &[0, 20, 0, 40]];
    let method = methods[random.usize(..4)];
    let tag = if method[3] == 60 { short(&some_bytes(random, 40)) } else { Vec::new() };
    let fixed = vec![0; if matches!(method[3], 60 | 71) { 9 } else { 2 }];
    let texts: Vec<u8> = (0..3).flat_map(|_| short(&some_bytes(random, 255))).collect();
    [method, &tag, &fixed, &texts].concat()
}

/// The bytes that leave when these enter in pieces of these sizes, over and over.
fn through(mut bytes: &[u8], pieces: &[usize]) -> Vec<u8> {
    let mut screen = Screen::new(u32::try_from(FRAME_BYTES).unwrap());
    let mut out = Vec::new();
    let mut pieces = pieces.iter().cycle();
    let mut taken = [0; 4096];
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
            assert!(!room.is_empty() && room.len() <= ROOM_BYTES_MAX, "room for {} bytes", room.len());
            let count = room.len().min(piece);
            room[..count].copy_from_slice(&bytes[..count]);
            screen.filled(count);
            count
        };
        bytes = &bytes[count..];
        loop {
            let count = screen.take(&mut taken[..piece.min(4096)]);
            if count == 0 {
                break;
            }
            out.extend_from_slice(&taken[..count]);
        }
    }
    out
}

/// The frames of a stream, as kind, payload and all of its bytes, until one is not whole.
fn frames(mut bytes: &[u8]) -> Vec<(u8, &[u8], &[u8])> {
    let mut frames = Vec::new();
    while let Some(head) = bytes.first_chunk::<HEAD_BYTES>() {
        let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
        let Some(all) = bytes.get(..HEAD_BYTES + length + 1).filter(|_| head[0] != b'A') else { break };
        frames.push((head[0], &all[HEAD_BYTES..HEAD_BYTES + length], all));
        bytes = &bytes[all.len()..];
    }
    frames
}

/// Judges one frame by the one that came of it; the shape of what happened to it.
fn judge(before: (u8, &[u8], &[u8]), after: (u8, &[u8], &[u8])) -> String {
    let ((kind, payload, all), (kind_after, payload_after, all_after)) = (before, after);
    assert_eq!(kind, kind_after, "another kind of frame");
    let is_ended = all_after.last() == Some(&0xce);
    let parsed = parse_frame(all_after);
    match kind {
        2 => {
            let mut fixed = payload.get(..FIXED_BYTES).unwrap_or(payload).to_vec();
            fixed.resize(FIXED_BYTES, 0);
            assert_eq!(payload_after[..FIXED_BYTES], fixed, "class, weight and size of the body");
            let is_same = all == all_after;
            assert!(is_same || all_after.len() <= FRAME_BYTES.max(BARE_BYTES_MAX), "{} bytes", all_after.len());
            assert!(is_ended || all.len() == all_after.len(), "written anew without an end");
            match parsed {
                Ok(([], AMQPFrame::Header(_, header))) => {
                    let headers = header.properties.headers().clone().unwrap_or_default();
                    let mark = headers.inner().get(UNREADABLE_HEADER).map(|mark| format!("{mark:?}"));
                    format!(
                        "header {} {is_same} {mark:?} {}",
                        payload.len() / 30_000,
                        about(headers.inner().len() as u64)
                    )
                }
                // An end mark is the broker's own, and lapin tells when it is not one.
                other => {
                    assert!(!is_ended, "lapin cannot read it: {other:?}");
                    "header without an end".to_owned()
                }
            }
        }
        1 => {
            assert_eq!(payload.len(), payload_after.len(), "a method moved");
            format!("method {:?} {}", payload.get(..4), parsed.is_ok())
        }
        _ => {
            assert_eq!(all, all_after, "a body or something unknown was changed");
            format!("{} {}", kind.min(9), parsed.is_ok())
        }
    }
}

#[test]
fn whatever_the_broker_sends_lapin_can_read_it_however_it_is_cut() {
    let folders = &["tests/corpus/wire", "tests/corpus/edge"];
    let target = Target { name: "wire", share: 2, folders, cpu_max: CPU_MAX };
    fuzz(target, make, |input| {
        let whole = through(input, &[1_000_001]);
        let some = [1 + input.len() % 7, 8, 1 + input.len() % 311, 2 + input.len() % 1999, 65_536];
        assert!(through(input, &some) == whole, "where it is cut changes something");
        if input.len() < 2_000 {
            assert!(through(input, &[1]) == whole, "byte by byte is something else");
        }
        assert!(whole.len() <= 16 * input.len() + BARE_BYTES_MAX, "{} bytes of {}", whole.len(), input.len());
        let (before, after) = (frames(input), frames(&whole));
        assert!(after.len() >= before.len(), "{} of {} frames", after.len(), before.len());
        let shapes: Vec<String> = before.into_iter().zip(after).map(|(before, after)| judge(before, after)).collect();
        shapes.into_iter().max().unwrap_or_default()
    });
}
