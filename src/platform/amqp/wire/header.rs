//! A message's properties: the payload of a content header frame enters; it stays as it is but for text that was not UTF-8, or
//! another one leaves in its stead that lapin can read. What must never happen: a header that means something to us is lost
//! without a word.
//!
//! The same message is read twice, in its lane and, after the broker has added to it, in the dead-letter queue. Both readings
//! must find the same headers, or one message would become two letters. So only what the publisher sent is weighed; the headers that
//! the broker adds or takes away are cut where they do not fit, and nothing depends on that. And of several headers with one name the first counts, the
//! others are left out: the broker looks at the first and writes its own in its place, RabbitMQ 4 then drops the others, and lapin would take the last.
//! Nothing depends on the order of headers with different names: the broker sorts them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::field::{Cursor, make_utf8};
use super::{DEATHS_HEADER, UNREADABLE_HEADER, Unreadable};

/// Headers that the broker adds or takes away by itself.
const BROKERS: [&str; 10] = [
    DEATHS_HEADER,
    "x-delivery-count",
    "x-stream-offset",
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    "CC",
];
/// The fields of a death that somebody asks for.
const DEATH_FIELDS: [&str; 6] = ["count", "exchange", "queue", "reason", "routing-keys", "time"];
/// One of the broker's headers, or one field of a death, with its name: texts in them are names of queues and exchanges.
const BROKERS_BYTES_MAX: usize = 300;
/// Room for everything beside the publisher's headers: twelve short texts, the broker's headers and the mark.
const RESERVE_BYTES: usize = 10 * 1024;

/// The values of a publisher's headers, and of each of the broker's. A value takes up to a hundred bytes in lapin's memory, and one on the wire; sixteen KiB of
/// properties, which is all that an event may have, hold fewer than these.
pub(super) const VALUES_MAX: usize = 4096;

/// Class, weight and the body's size.
pub(super) const FIXED_BYTES: usize = 12;
const HEADERS_FLAG: u16 = 1 << 13;
/// More flags follow. No property has ever needed them.
const CONTINUED_FLAG: u16 = 1;

/// The properties in the order of their flags, from the highest bit on.
enum Kind {
    Short,
    Table,
    Bytes(usize),
}
const KINDS: [Kind; 14] = [
    Kind::Short,
    Kind::Short,
    Kind::Table,
    Kind::Bytes(1),
    Kind::Bytes(1),
    Kind::Short,
    Kind::Short,
    Kind::Short,
    Kind::Short,
    Kind::Bytes(8),
    Kind::Short,
    Kind::Short,
    Kind::Short,
    Kind::Short,
];

/// Properties that could be followed to their end.
struct Followed {
    /// The inside of the header table.
    table: Option<Range<usize>>,
    /// Every header in it could be followed, they are not too many, and no two have one name.
    is_whole: bool,
}

/// One header: its bytes from the name on.
struct Entry {
    name: Range<usize>,
    all: Range<usize>,
    /// Its value, and those in it.
    values: usize,
    fault: Option<Unreadable>,
}

/// The payload in whose stead another one must be handed out; `None`: it can stay.
pub(super) fn screen(payload: &mut [u8], bytes_max: usize) -> Option<Vec<u8>> {
    // With the reserve: a message that the broker may add to is weighed as if it had.
    let fits = payload.len() <= bytes_max.saturating_sub(RESERVE_BYTES);
    match follow(&mut Cursor::new(payload)) {
        Ok(Followed { is_whole: true, .. }) if fits => None,
        Ok(followed) => {
            let rebuilt = rebuild(payload, &followed, bytes_max);
            Some(
                rebuilt
                    .filter(|rebuilt| rebuilt.len() <= bytes_max)
                    .unwrap_or_else(|| bare(payload, Unreadable::TooLarge)),
            )
        }
        Err(fault) => Some(bare(payload, fault)),
    }
}

/// A message without any property but the mark, and the trace of a record of deaths that may have been there.
pub(super) fn bare(payload: &[u8], fault: Unreadable) -> Vec<u8> {
    let mut bare = payload.get(..FIXED_BYTES).unwrap_or(payload).to_vec();
    bare.resize(FIXED_BYTES, 0);
    bare.extend(HEADERS_FLAG.to_be_bytes());
    put_long(&mut bare, &[void_deaths(), mark(fault)].concat());
    bare
}

fn follow(cursor: &mut Cursor<'_>) -> Result<Followed, Unreadable> {
    cursor.take(FIXED_BYTES)?;
    let flags = u16::from_be_bytes(cursor.number()?);
    if flags & CONTINUED_FLAG != 0 {
        return Err(Unreadable::Garbled);
    }
    let mut followed = Followed { table: None, is_whole: true };
    for (kind, place) in KINDS.iter().zip((2..16u16).rev()) {
        if flags & (1 << place) == 0 {
            continue;
        }
        match kind {
            Kind::Short => {
                cursor.short()?;
            }
            Kind::Bytes(count) => {
                cursor.take(*count)?;
            }
            Kind::Table => {
                let length = cursor.length()?;
                let table = cursor.take(length)?;
                followed.is_whole = is_whole(cursor.bytes, table.clone());
                followed.table = Some(table);
            }
        }
    }
    if cursor.at == cursor.end { Ok(followed) } else { Err(Unreadable::Garbled) }
}

fn is_whole(payload: &mut [u8], table: Range<usize>) -> bool {
    let mut cursor = Cursor::within(payload, table);
    let mut names = Vec::new();
    while cursor.at < cursor.end {
        let Ok(name) = cursor.raw_short().and_then(|name| cursor.value().map(|()| name)) else { return false };
        names.push(name);
    }
    if cursor.values > VALUES_MAX || !kept(cursor.bytes, &names).all(|is_kept| is_kept) {
        return false;
    }
    for name in names {
        make_utf8(cursor.bytes.get_mut(name).unwrap_or_default());
    }
    true
}

/// Tells of each header, by its name as it was sent, whether it is kept. The first of a name is. Names that are not UTF-8 may become one name: then none of them is, because the
/// broker sorts the headers when it adds its own, and the first would be another one.
fn kept<'n>(payload: &'n [u8], names: &'n [Range<usize>]) -> impl Iterator<Item = bool> + 'n {
    let text = |name: &Range<usize>| payload.get(name.clone()).unwrap_or_default();
    let is_foreign = |name: &[u8]| std::str::from_utf8(name).is_err();
    let mut read: HashMap<Vec<u8>, usize> = HashMap::new();
    if names.iter().any(|name| is_foreign(text(name))) {
        for name in names {
            *read.entry(as_read(text(name))).or_default() += 1;
        }
    }
    let mut seen = HashSet::with_capacity(names.len());
    names.iter().map(move |name| {
        let name = text(name);
        let is_lost = is_foreign(name) && read.get(&as_read(name)).is_some_and(|count| *count > 1);
        !is_lost && seen.insert(name)
    })
}

/// A name as lapin will read it.
fn as_read(name: &[u8]) -> Vec<u8> {
    let mut read = name.to_vec();
    make_utf8(&mut read);
    read
}

/// The headers one by one. Behind one whose end cannot be found there are none.
fn entries(payload: &mut [u8], table: Range<usize>) -> (Vec<Entry>, Option<Unreadable>) {
    let mut entries = Vec::new();
    let mut cursor = Cursor::within(payload, table.clone());
    while cursor.at < table.end {
        let (from, before) = (cursor.at, cursor.values);
        let Ok(name) = cursor.raw_short() else { return (entries, Some(Unreadable::Garbled)) };
        let value = cursor.at;
        let fault = cursor.value().err();
        if fault.is_some() {
            // A table or an array tells its length itself, whatever is in it.
            (cursor.at, cursor.end) = (value, table.end);
            let skipped = match cursor.number() {
                Ok([b'A' | b'F']) => cursor.length().and_then(|length| cursor.take(length)),
                Ok(_) | Err(_) => Err(Unreadable::Garbled),
            };
            if let Err(garbled) = skipped {
                return (entries, Some(garbled));
            }
        }
        entries.push(Entry { name, all: from..cursor.at, values: cursor.values - before, fault });
    }
    (entries, None)
}

/// The payload with the headers that can be kept; `None` where it had none that could be too many.
fn rebuild(payload: &mut [u8], followed: &Followed, bytes_max: usize) -> Option<Vec<u8>> {
    let table = followed.table.clone()?;
    let (mut entries, rest) = entries(payload, table.clone());
    let names: Vec<Range<usize>> = entries.iter().map(|entry| entry.name.clone()).collect();
    let mut are_kept = kept(payload, &names);
    entries.retain(|_| are_kept.next().unwrap_or(false));
    drop(are_kept);
    for entry in &entries {
        make_utf8(payload.get_mut(entry.name.clone()).unwrap_or_default());
    }
    let payload = &*payload;
    let name = |entry: &Entry| payload.get(entry.name.clone()).unwrap_or_default();
    let is_brokers = |entry: &&Entry| BROKERS.iter().any(|known| known.as_bytes() == name(entry));
    let (brokers, own): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(is_brokers);
    let own_bytes: usize = own.iter().map(|entry| entry.all.len()).sum();
    let own_values: usize = own.iter().map(|entry| entry.values).sum();
    let too_large = own_bytes > bytes_max.saturating_sub(RESERVE_BYTES) || own_values > VALUES_MAX;
    let fault = if too_large {
        Some(Unreadable::TooLarge)
    } else {
        own.iter().filter_map(|entry| entry.fault).min_by_key(|fault| fault.name()).or(rest)
    };
    let mark = fault.map(mark).unwrap_or_default();

    let mut headers = Vec::with_capacity(table.len().min(bytes_max));
    for entry in own.iter().filter(|entry| !too_large && entry.fault.is_none()) {
        headers.extend_from_slice(payload.get(entry.all.clone())?);
    }
    let brokers_bytes: usize = brokers.iter().map(|entry| entry.all.len()).sum();
    let is_roomy = payload.len() - table.len() + headers.len() + brokers_bytes + mark.len() <= bytes_max;
    for known in BROKERS {
        let Some(entry) = brokers.iter().find(|entry| name(entry) == known.as_bytes()) else { continue };
        let all = payload.get(entry.all.clone())?;
        let is_small = all.len() <= BROKERS_BYTES_MAX;
        if entry.fault.is_none() && (is_small || is_roomy && entry.values <= VALUES_MAX) {
            headers.extend_from_slice(all);
        } else if known == DEATHS_HEADER {
            headers.extend(newest_death(all).unwrap_or_else(void_deaths));
        }
    }
    // Last, so that it counts and not one of the publisher's own with this name.
    headers.extend(mark);

    let length = table.start.checked_sub(size_of::<u32>())?;
    let mut rebuilt = payload.get(..length)?.to_vec();
    put_long(&mut rebuilt, &headers);
    rebuilt.extend_from_slice(payload.get(table.end..)?);
    Some(rebuilt)
}

/// A header of the broker's deaths, cut to the newest one and to what is asked of it.
fn newest_death(header: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = header.to_vec();
    let mut cursor = Cursor::new(&mut bytes);
    cursor.short().ok()?;
    if cursor.number().ok()? != *b"A" {
        return None;
    }
    cursor.length().ok()?;
    if cursor.number().ok()? != *b"F" {
        return None;
    }
    let length = cursor.length().ok()?;
    let table = cursor.take(length).ok()?;
    let (fields, _) = entries(&mut bytes, table);
    let mut death = Vec::new();
    for known in DEATH_FIELDS {
        let is_it = |field: &&Entry| bytes.get(field.name.clone()) == Some(known.as_bytes());
        let Some(field) = fields.iter().rfind(is_it) else { continue };
        let all = bytes.get(field.all.clone())?;
        if field.fault.is_none() && all.len() <= BROKERS_BYTES_MAX {
            death.extend_from_slice(all);
        } else if known == "routing-keys" {
            death.extend(first_of_array(known, bytes.get(field.name.end..field.all.end)?).unwrap_or_default());
        }
    }
    let mut array = vec![b'F'];
    put_long(&mut array, &death);
    let mut cut = short(DEATHS_HEADER);
    cut.push(b'A');
    put_long(&mut cut, &array);
    Some(cut)
}

/// An array of texts, cut to its first.
fn first_of_array(name: &str, value: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = value.to_vec();
    let mut cursor = Cursor::new(&mut bytes);
    if cursor.number().ok()? != *b"A" {
        return None;
    }
    cursor.length().ok()?;
    let from = cursor.at;
    if cursor.number().ok()? != *b"S" {
        return None;
    }
    let length = cursor.length().ok()?;
    let text = cursor.take(length).ok()?;
    let first = bytes.get(from..text.end).filter(|first| first.len() <= BROKERS_BYTES_MAX)?;
    let mut cut = short(name);
    cut.push(b'A');
    put_long(&mut cut, first);
    Some(cut)
}

/// A record of deaths of which nothing is known.
fn void_deaths() -> Vec<u8> {
    let mut deaths = short(DEATHS_HEADER);
    deaths.push(b'V');
    deaths
}

fn mark(fault: Unreadable) -> Vec<u8> {
    let mut mark = short(UNREADABLE_HEADER);
    mark.push(b'S');
    put_long(&mut mark, fault.name().as_bytes());
    mark
}

/// A name of ours, as a short string.
fn short(name: &str) -> Vec<u8> {
    let mut short = vec![u8::try_from(name.len()).unwrap_or(0)];
    short.extend_from_slice(name.as_bytes());
    short
}

fn put_long(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    to.extend_from_slice(bytes);
}
