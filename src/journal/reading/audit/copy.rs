//! Rows of the journal as `copy … to stdout` writes them: fields between tabs. Bytes enter, borrowed fields and the entry's hash
//! leave. The hash input is put together from the text itself; nothing is parsed that need not be.

use sha2::{Digest, Sha256};

/// An entry, still as text. What stands between previous hash and time of posting, and behind it, is only hashed.
pub struct EntryRow<'a> {
    pub seq: i64,
    seq_text: &'a [u8],
    pub previous_hash: &'a [u8],
    /// Event id, event type, payload hash, rule name, rule version, accounting date, original date.
    before_time: [&'a [u8]; 7],
    posted_at: &'a [u8],
    /// Description, reversed entry.
    behind_time: [&'a [u8]; 2],
    pub hash: &'a [u8],
}

impl<'a> EntryRow<'a> {
    pub fn parse(row: &'a [u8]) -> Option<Self> {
        let mut fields = fields(row);
        let seq_text = fields.next()?;
        Some(Self {
            seq: number(seq_text)?,
            seq_text,
            previous_hash: fields.next()?,
            before_time: take(&mut fields)?,
            posted_at: fields.next()?,
            behind_time: take(&mut fields)?,
            hash: fields.next()?,
        })
    }
}

pub struct LineRow<'a> {
    pub seq: i64,
    pub account: &'a [u8],
    pub side: &'a [u8],
    pub amount: &'a [u8],
    pub currency: &'a [u8],
    pub base_amount: &'a [u8],
}

impl<'a> LineRow<'a> {
    pub fn parse(row: &'a [u8]) -> Option<Self> {
        let mut fields = fields(row);
        Some(Self {
            seq: number(fields.next()?)?,
            account: fields.next()?,
            side: fields.next()?,
            amount: fields.next()?,
            currency: fields.next()?,
            base_amount: fields.next()?,
        })
    }
}

fn fields(row: &[u8]) -> impl Iterator<Item = &[u8]> {
    row.strip_suffix(b"\n").unwrap_or(row).split(|byte| *byte == b'\t')
}

fn take<'a, const N: usize>(fields: &mut impl Iterator<Item = &'a [u8]>) -> Option<[&'a [u8]; N]> {
    let mut taken = [&b""[..]; N];
    for place in &mut taken {
        *place = fields.next()?;
    }
    Some(taken)
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Puts the bytes of `docs/hash-chain.md` together and hashes them. The buffers are used again for every entry.
#[derive(Default)]
pub struct EntryHash {
    head: Vec<u8>,
    lines: Vec<u8>,
    count: usize,
    scratch: Vec<u8>,
}

impl EntryHash {
    pub fn begin(&mut self, tenant: &[u8], entry: &EntryRow<'_>) {
        self.head.clear();
        self.lines.clear();
        self.count = 0;
        let head = &mut self.head;
        netstring(head, b"fis-entry-v1");
        netstring(head, tenant);
        netstring(head, entry.seq_text);
        netstring(head, entry.previous_hash);
        self.scratch.clear();
        self.scratch.extend_from_slice(tenant);
        self.scratch.push(b'/');
        self.scratch.extend_from_slice(entry.seq_text);
        netstring(head, &self.scratch);
        for field in entry.before_time {
            text(head, field, &mut self.scratch);
        }
        instant(&mut self.scratch, entry.posted_at);
        netstring(head, &self.scratch);
        for field in entry.behind_time {
            text(head, field, &mut self.scratch);
        }
    }

    pub fn add(&mut self, line: &LineRow<'_>) {
        text(&mut self.lines, line.account, &mut self.scratch);
        text(&mut self.lines, line.side, &mut self.scratch);
        netstring(&mut self.lines, canonical(line.amount));
        text(&mut self.lines, line.currency, &mut self.scratch);
        netstring(&mut self.lines, canonical(line.base_amount));
        self.count += 1;
    }

    pub fn finish(&mut self) -> String {
        self.scratch.clear();
        digits(&mut self.scratch, self.count);
        netstring(&mut self.head, &self.scratch);
        let mut hash = Sha256::new();
        hash.update(&self.head);
        hash.update(&self.lines);
        hex::encode(hash.finalize())
    }
}

fn netstring(bytes: &mut Vec<u8>, text: &[u8]) {
    digits(bytes, text.len());
    bytes.push(b':');
    bytes.extend_from_slice(text);
    bytes.push(b',');
}

fn digits(bytes: &mut Vec<u8>, number: usize) {
    if number >= 10 {
        digits(bytes, number / 10);
    }
    bytes.push(b'0' + u8::try_from(number % 10).unwrap_or_default());
}

/// A text as `copy` writes it: a backslash, and nothing else, has a meaning.
fn text(bytes: &mut Vec<u8>, field: &[u8], scratch: &mut Vec<u8>) {
    if !field.contains(&b'\\') {
        return netstring(bytes, field);
    }
    scratch.clear();
    let mut rest = field.iter().copied();
    while let Some(byte) = rest.next() {
        scratch.push(match byte {
            b'\\' => match rest.next() {
                Some(b'b') => 8,
                Some(b't') => 9,
                Some(b'n') => 10,
                Some(b'v') => 11,
                Some(b'f') => 12,
                Some(b'r') => 13,
                Some(other) => other,
                None => b'\\',
            },
            other => other,
        });
    }
    netstring(bytes, scratch);
}

/// `2026-02-25 10:00:01.2+00`, as a session in UTC writes it, becomes `2026-02-25T10:00:01.200000Z`.
fn instant(out: &mut Vec<u8>, text: &[u8]) {
    out.clear();
    let text = text.strip_suffix(b"+00").unwrap_or(text);
    let mut parts = text.split(|byte| *byte == b'.');
    let (whole, fraction) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    out.extend(whole.iter().map(|byte| if *byte == b' ' { b'T' } else { *byte }));
    out.push(b'.');
    out.extend_from_slice(fraction);
    out.resize(out.len() + 6usize.saturating_sub(fraction.len()), b'0');
    out.push(b'Z');
}

/// Without zeros at the end of the decimals.
fn canonical(text: &[u8]) -> &[u8] {
    if !text.contains(&b'.') {
        return text;
    }
    let zeros = text.iter().rev().take_while(|byte| **byte == b'0').count();
    let text = text.get(..text.len() - zeros).unwrap_or(text);
    text.strip_suffix(b".").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_text_becomes_the_documented_bytes() {
        for (copied, expected) in [
            ("2026-02-25 10:00:01.2+00", "2026-02-25T10:00:01.200000Z"),
            ("2026-02-25 10:00:01+00", "2026-02-25T10:00:01.000000Z"),
            ("2026-02-25 10:00:01.234567+00", "2026-02-25T10:00:01.234567Z"),
        ] {
            let mut out = Vec::new();
            instant(&mut out, copied.as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        for (copied, expected) in
            [("119.00", "119"), ("0.00", "0"), ("10.50", "10.5"), ("100", "100"), ("0.01", "0.01")]
        {
            assert_eq!(canonical(copied.as_bytes()), expected.as_bytes());
        }
        let (mut bytes, mut scratch) = (Vec::new(), Vec::new());
        text(&mut bytes, br"a\tb\\c\nd", &mut scratch);
        assert_eq!(bytes, b"7:a\tb\\c\nd,");
    }
}
