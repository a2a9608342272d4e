//! The hash chain. A balanced entry and the tenant's head enter; an entry with its place, its predecessor's hash and its own
//! leaves. The bytes that are hashed are documented in `docs/hash-chain.md`, exactly enough for a stranger's
//! verifier; change nothing here without a new version word.

use std::fmt;
use std::io::Write;

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};

use super::canonical::sha256_behind;
use super::entry::{BalancedEntry, EntryParts, Line};
use super::ids::{EventId, EventType, TenantId, entry_id};
use super::money::canonical_decimal;

/// The first word of every hashed entry.
const VERSION: &str = "fis-entry-v1";
/// The hash that the first entry of a tenant points back to.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The end of a tenant's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainHead {
    pub seq: i64,
    pub hash: String,
}

impl ChainHead {
    #[must_use]
    pub fn genesis() -> Self {
        Self { seq: 0, hash: GENESIS.to_owned() }
    }
}

/// The origin of an entry: the event and the message that carried it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    pub tenant_id: TenantId,
    pub event_id: EventId,
    pub event_type: EventType,
    pub payload_hash: String,
    pub rule_name: String,
    pub rule_version: i32,
    pub lane: &'static str,
    pub message_id: Option<String>,
    pub correlation_id: Option<String>,
    pub traceparent: Option<String>,
}

/// An entry in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainedEntry {
    pub seq: i64,
    pub origin: Provenance,
    pub accounting_date: NaiveDate,
    /// The event's own date, where no period was open on it.
    pub original_date: Option<NaiveDate>,
    pub posted_at: DateTime<Utc>,
    pub description: String,
    pub reverses_entry_id: Option<String>,
    pub lines: Vec<Line>,
    pub previous_hash: String,
    pub hash: String,
}

impl ChainedEntry {
    /// Puts an entry behind the head and moves the head to it.
    pub fn append(
        head: &mut ChainHead,
        entry: BalancedEntry,
        origin: Provenance,
        reverses_entry_id: Option<String>,
        posted_at: DateTime<Utc>,
    ) -> Self {
        let EntryParts { accounting_date, original_date, description, lines } = entry.into_parts();
        let mut chained = Self {
            seq: 0,
            origin,
            accounting_date,
            original_date,
            posted_at,
            description,
            reverses_entry_id,
            lines,
            previous_hash: String::new(),
            hash: String::new(),
        };
        chained.put_behind(head, posted_at);
        chained
    }

    /// Gives an entry another place: behind the head, which moves to it.
    pub fn put_behind(&mut self, head: &mut ChainHead, posted_at: DateTime<Utc>) {
        self.seq = head.seq + 1;
        self.posted_at = posted_at;
        self.previous_hash = std::mem::take(&mut head.hash);
        self.hash = self.compute_hash();
        head.seq = self.seq;
        head.hash.clone_from(&self.hash);
    }

    #[must_use]
    pub fn entry_id(&self) -> String {
        entry_id(&self.origin.tenant_id, self.seq)
    }

    /// The hash of what this entry says, whatever `hash` claims.
    #[must_use]
    pub fn compute_hash(&self) -> String {
        let mut text = Netstrings::with_capacity(512 + 64 * self.lines.len());
        text.put(VERSION);
        text.put(self.origin.tenant_id.as_str());
        text.put_shown(self.seq);
        text.put(&self.previous_hash);
        text.put_shown(format_args!("{}/{}", self.origin.tenant_id, self.seq));
        text.put(self.origin.event_id.as_str());
        text.put(self.origin.event_type.as_str());
        text.put(&self.origin.payload_hash);
        text.put(&self.origin.rule_name);
        text.put_shown(self.origin.rule_version);
        text.put_shown(self.accounting_date);
        match self.original_date {
            Some(date) => text.put_shown(date),
            None => text.put(""),
        }
        text.put(&instant_text(self.posted_at));
        text.put(&self.description);
        text.put(self.reverses_entry_id.as_deref().unwrap_or(""));
        text.put_shown(self.lines.len());
        for line in &self.lines {
            text.put(line.account.as_str());
            text.put(line.side.as_str());
            text.put_shown(canonical_decimal(line.amount));
            text.put(line.currency.code());
            text.put_shown(canonical_decimal(line.base_amount));
        }
        text.hash()
    }
}

/// `2026-02-25T10:00:00.123456Z`: always microseconds, always UTC.
#[must_use]
pub fn instant_text(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// `<length in bytes>:<bytes>,` and again: no text can pretend to be two.
pub(super) struct Netstrings {
    bytes: Vec<u8>,
    /// The buffer in which a value is written down before its length is known; an entry has dozens.
    scratch: String,
}

impl Netstrings {
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), scratch: String::with_capacity(64) }
    }

    pub fn put(&mut self, text: &str) {
        // Writing to memory cannot fail.
        let _ = write!(self.bytes, "{}:", text.len());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(b',');
    }

    pub fn put_shown(&mut self, value: impl fmt::Display) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let _ = fmt::Write::write_fmt(&mut scratch, format_args!("{value}"));
        self.put(&scratch);
        self.scratch = scratch;
    }

    /// All of it so far, to be hashed piece by piece.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The SHA-256 of all of it, in hexadecimal digits.
    pub fn hash(&self) -> String {
        sha256_behind("", &self.bytes)
    }
}
