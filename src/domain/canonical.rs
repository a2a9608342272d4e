//! The canonical form of JSON, and the payload hash over it. A value enters; bytes, or their SHA-256, leave.
//! What must never happen: two different payloads with one form, or one payload with two.
//!
//! The form: members by the code points of their names (which is the order of their UTF-8 bytes), no white space,
//! strings escaped as in RFC 8785, numbers by exact value: written out where that takes at most
//! [`PLAIN_CHARS_MAX`] characters (`1.10` is `1.1`, `1e2` is `100`, `-0` is `0`), otherwise as digits without
//! outer zeros, `e`, exponent (`1e100`). No number passes through a float, which would make amounts equal that are not.

use std::io::Write as _;

use sha2::{Digest as _, Sha256};

use super::json::{Json, Member, Parts, scan::plain_length};

/// Longest number that is written without exponent, sign and point included. It bounds what `1e9999` can
/// expand to; part of the hash's definition, so it can never change.
pub const PLAIN_CHARS_MAX: usize = 64;
/// Room for the form of a usual event (800 bytes) without growing the buffer on the way.
const FORM_BYTES_USUAL: usize = 1024;
/// Members open at once in a usual payload, with one line of it.
const OPEN_MEMBERS_USUAL: usize = 32;
const HASH_PREFIX: &str = "sha256:";

/// `sha256:` and the hex SHA-256 of the canonical form of `{eventType, payload, tenantId}`.
#[must_use]
pub fn payload_hash(event_type: &str, payload: &Json<'_>, tenant_id: &str) -> String {
    let mut form = Vec::with_capacity(FORM_BYTES_USUAL);
    // The three names are in code-point order already.
    form.extend_from_slice(b"{\"eventType\":");
    write_string(event_type, &mut form);
    form.extend_from_slice(b",\"payload\":");
    write_canonical(payload, &mut form);
    form.extend_from_slice(b",\"tenantId\":");
    write_string(tenant_id, &mut form);
    form.push(b'}');
    sha256_text(&form)
}

/// `sha256:` and the hex SHA-256 of bytes; the event id of a body without an envelope is made of it.
#[must_use]
pub fn sha256_text(bytes: &[u8]) -> String {
    sha256_behind(HASH_PREFIX, bytes)
}

/// The hex SHA-256 of bytes behind a prefix, in one allocation: every event has two or three of them.
#[must_use]
pub fn sha256_behind(prefix: &str, bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let mut text = String::with_capacity(prefix.len() + 2 * digest.len());
    text.push_str(prefix);
    for byte in digest {
        text.extend([byte >> 4, byte & 0xf].into_iter().filter_map(|half| char::from_digit(half.into(), 16)));
    }
    text
}

/// Appends the canonical form of `json`. Recursion is bounded by the reader's depth limit.
pub fn write_canonical(json: &Json<'_>, out: &mut Vec<u8>) {
    Writer { out, order: Vec::with_capacity(OPEN_MEMBERS_USUAL) }.value(json);
}

struct Writer<'j, 'o> {
    out: &'o mut Vec<u8>,
    // Sorted members of all open objects, each object's on top of its parent's: one allocation for the whole tree.
    order: Vec<(u64, &'j Member<'j>)>,
}

impl<'j> Writer<'j, '_> {
    fn value(&mut self, json: &'j Json<'j>) {
        match json {
            Json::Null => self.out.extend_from_slice(b"null"),
            Json::Bool(true) => self.out.extend_from_slice(b"true"),
            Json::Bool(false) => self.out.extend_from_slice(b"false"),
            Json::Number(number) => write_number(number.text(), self.out),
            Json::String(text) => write_string(text, self.out),
            Json::Array(elements) => self.array(elements),
            Json::Object(members) => self.object(members.as_slice()),
        }
    }

    fn array(&mut self, elements: &'j [Json<'j>]) {
        self.out.push(b'[');
        for (index, element) in elements.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.value(element);
        }
        self.out.push(b']');
    }

    fn object(&mut self, members: &'j [Member<'j>]) {
        let base = self.order.len();
        self.order.extend(members.iter().map(|member| (name_start(&member.0), member)));
        // `str` compares by bytes, and UTF-8 keeps the order of code points. The first bytes as one number decide
        // nearly every comparison without a look at the name.
        let order = self.order.get_mut(base..).unwrap_or_default();
        order.sort_unstable_by(|one, other| one.0.cmp(&other.0).then_with(|| one.1.0.cmp(&other.1.0)));
        self.out.push(b'{');
        for index in 0..members.len() {
            if let Some(&(_, member)) = self.order.get(base + index) {
                self.member(index, member);
            }
        }
        self.out.push(b'}');
        self.order.truncate(base);
    }

    fn member(&mut self, index: usize, (name, value): &'j Member<'j>) {
        if index > 0 {
            self.out.push(b',');
        }
        write_string(name, self.out);
        self.out.push(b':');
        self.value(value);
    }
}

/// The first eight bytes of a name as a number that orders as they do; a shorter name counts as if zeros followed,
/// so names with equal starts still have to be compared.
fn name_start(name: &str) -> u64 {
    if let Some(start) = name.as_bytes().first_chunk::<8>() {
        return u64::from_be_bytes(*start);
    }
    let bytes = name.bytes().fold(0, |start, byte| start << 8 | u64::from(byte));
    // An empty name would be shifted by all 64 bits, which is no shift.
    if name.is_empty() { 0 } else { bytes << (64 - 8 * name.len()) }
}

/// A string in quotes, with the escapes of RFC 8785 §3.2.2.2 and no others.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    if plain_length(text.as_bytes()) == text.len() {
        out.extend_from_slice(text.as_bytes());
    } else {
        write_escaped(text, out);
    }
    out.push(b'"');
}

fn write_escaped(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    loop {
        let (plain, careful) = rest.split_at_checked(plain_length(rest)).unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = careful.split_first() else { return };
        write_escape(byte, out);
        rest = after;
    }
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0C => b'f',
        b'\r' => b'r',
        other => {
            // Writing to a vector cannot fail.
            let _ = write!(out, "\\u{other:04x}");
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// The one text of a number's exact value.
fn write_number(text: &str, out: &mut Vec<u8>) {
    let parts = Parts::split(text);
    let fraction = trim_zeros_end(parts.fraction);
    // The usual number needs only its trailing zeros cut; everything else takes the general way.
    let is_zero = fraction.is_empty() && parts.integer == b"0";
    if parts.exponent == 0 && !is_zero && text.len() <= PLAIN_CHARS_MAX {
        write_sign(parts.negative, out);
        out.extend_from_slice(parts.integer);
        if !fraction.is_empty() {
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
        return;
    }
    write_unusual_number(parts, out);
}

/// Value = ±digits × 10^exponent, where digits has no zero at either end.
fn write_unusual_number(parts: Parts<'_>, out: &mut Vec<u8>) {
    let written = [parts.integer, parts.fraction].concat();
    let without_end = trim_zeros_end(&written);
    let digits = trim_zeros_start(without_end);
    if digits.is_empty() {
        out.push(b'0');
        return;
    }
    let exponent = signed(written.len() - without_end.len()) + i64::from(parts.exponent) - signed(parts.fraction.len());
    write_sign(parts.negative, out);
    let plain_chars = usize::from(parts.negative) + plain_digits(digits.len(), exponent);
    if plain_chars <= PLAIN_CHARS_MAX {
        write_plain(digits, exponent, out);
    } else {
        out.extend_from_slice(digits);
        // Writing to a vector cannot fail.
        let _ = write!(out, "e{exponent}");
    }
}

/// The length of digits × 10^exponent when written out.
fn plain_digits(digits: usize, exponent: i64) -> usize {
    let shift = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
    match exponent {
        0.. => digits.saturating_add(shift),
        // The point stands inside the digits, or behind a zero and before zeros and the digits.
        _ if shift < digits => digits + 1,
        _ => shift.saturating_add(2),
    }
}

fn write_plain(digits: &[u8], exponent: i64, out: &mut Vec<u8>) {
    let shift = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
    if exponent >= 0 {
        out.extend_from_slice(digits);
        out.extend(std::iter::repeat_n(b'0', shift));
    } else if let Some((integer, fraction)) =
        digits.len().checked_sub(shift).filter(|&point| point > 0).and_then(|point| digits.split_at_checked(point))
    {
        out.extend_from_slice(integer);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', shift.saturating_sub(digits.len())));
        out.extend_from_slice(digits);
    }
}

fn write_sign(negative: bool, out: &mut Vec<u8>) {
    if negative {
        out.push(b'-');
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn trim_zeros_end(digits: &[u8]) -> &[u8] {
    let end = digits.iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1);
    digits.get(..end).unwrap_or(digits)
}

fn trim_zeros_start(digits: &[u8]) -> &[u8] {
    let start = digits.iter().position(|&digit| digit != b'0').unwrap_or(digits.len());
    digits.get(start..).unwrap_or(digits)
}

#[cfg(test)]
mod tests;
