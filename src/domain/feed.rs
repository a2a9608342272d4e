//! The feed as its reader sees it: messages enter in the order in which they came, the first fault leaves. Nothing but the
//! messages themselves is believed: every hash is computed anew from the event's own members, and every entry must follow
//! the one before it. At least once is what the feed promises, so a repetition with the same bytes is no fault.

mod event;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::chain::{ChainedEntry, GENESIS};
use super::ids::TenantId;

pub use event::{FeedEvent, Message, read};

/// Enough of a hash to tell two bodies apart, and 16 MB for a million entries.
type Fingerprint = [u8; 16];

/// Why a feed is not what was posted. The text continues "the message …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeedFault {
    #[error("is not an event of this feed: {why}")]
    Unreadable { why: String },
    #[error("has {member} `{inside}` in its body, but `{beside}` beside it")]
    Contradiction { member: &'static str, inside: String, beside: String },
    #[error("leaves a gap: expected sequence {expected}, found {found}")]
    Gap { expected: i64, found: i64 },
    #[error("is out of order: sequence {found} comes for the first time after {after}")]
    Disorder { found: i64, after: i64 },
    #[error("does not follow the one before it: expected previousHash {expected}, found {found}")]
    Link { expected: String, found: String },
    #[error("has been changed: its contents have the hash {computed}, it says {found}")]
    Hash { computed: String, found: String },
    #[error("came before with other bytes: expected a body with fingerprint {expected}, found {found}")]
    OtherBytes { expected: String, found: String },
}

/// A fault with its place in the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultAt {
    pub tenant_id: Option<String>,
    pub sequence: Option<i64>,
    pub fault: FeedFault,
}

/// The role of a message in the proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The next entry of its tenant.
    Entry,
    /// An entry that was there before, with the same bytes.
    Repeat,
    /// An entry from before the place where the reading began; only its own hash can be checked.
    Earlier,
    /// An event of another kind, or of another tenant than the one asked for.
    Other,
}

/// The facts that are proven of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantProof {
    pub first: i64,
    pub last: i64,
    /// The hash of the last entry.
    pub hash: String,
    pub repeats: u64,
    pub earlier: u64,
    /// The hash that the first entry names for the one before it.
    before: String,
    /// Of every body from `first` to `last`.
    bodies: Vec<Fingerprint>,
}

/// The facts that a feed has proven so far.
#[derive(Debug, Default)]
pub struct Proof {
    /// Only this tenant is looked at.
    pub only: Option<TenantId>,
    /// The reading began where the feed did: nothing can come from before it.
    pub from_the_beginning: bool,
    pub others: u64,
    tenants: BTreeMap<TenantId, TenantProof>,
}

impl Proof {
    /// Of one tenant, or of all.
    #[must_use]
    pub fn of(only: Option<TenantId>) -> Self {
        Self { only, ..Self::default() }
    }

    /// Takes the next message of the feed.
    ///
    /// # Errors
    /// The message is not what may come next; nothing behind a fault is worth reading.
    pub fn take(&mut self, message: &Message<'_>) -> Result<Taken, FaultAt> {
        let entry = match read(message)? {
            FeedEvent::Journal(entry) => entry,
            FeedEvent::Rejected | FeedEvent::BatchCompleted => {
                self.others += 1;
                return Ok(Taken::Other);
            }
        };
        if self.only.as_ref().is_some_and(|only| *only != entry.origin.tenant_id) {
            self.others += 1;
            return Ok(Taken::Other);
        }
        self.place(&entry, fingerprint(message.body)).map_err(|fault| FaultAt {
            tenant_id: Some(entry.origin.tenant_id.to_string()),
            sequence: Some(entry.seq),
            fault,
        })
    }

    /// Every tenant that was seen, in order.
    pub fn tenants(&self) -> impl Iterator<Item = (&TenantId, &TenantProof)> {
        self.tenants.iter()
    }

    fn place(&mut self, entry: &ChainedEntry, body: Fingerprint) -> Result<Taken, FeedFault> {
        let Some(known) = self.tenants.get_mut(&entry.origin.tenant_id) else {
            return self.begin(entry, body);
        };
        if entry.seq < known.first {
            if self.from_the_beginning {
                return Err(FeedFault::Disorder { found: entry.seq, after: known.last });
            }
            if entry.seq + 1 == known.first {
                follows(&entry.hash, &known.before)?;
            }
            known.earlier += 1;
            return Ok(Taken::Earlier);
        }
        if entry.seq <= known.last {
            let place = usize::try_from(entry.seq - known.first).ok();
            let expected = place.and_then(|place| known.bodies.get(place));
            if let Some(expected) = expected.filter(|expected| **expected != body) {
                return Err(FeedFault::OtherBytes { expected: hex::encode(expected), found: hex::encode(body) });
            }
            known.repeats += 1;
            return Ok(Taken::Repeat);
        }
        if entry.seq != known.last + 1 {
            return Err(FeedFault::Gap { expected: known.last + 1, found: entry.seq });
        }
        follows(&known.hash, &entry.previous_hash)?;
        known.last = entry.seq;
        known.hash.clone_from(&entry.hash);
        known.bodies.push(body);
        Ok(Taken::Entry)
    }

    fn begin(&mut self, entry: &ChainedEntry, body: Fingerprint) -> Result<Taken, FeedFault> {
        if entry.seq == 1 {
            follows(GENESIS, &entry.previous_hash)?;
        }
        let proof = TenantProof {
            first: entry.seq,
            last: entry.seq,
            hash: entry.hash.clone(),
            repeats: 0,
            earlier: 0,
            before: entry.previous_hash.clone(),
            bodies: vec![body],
        };
        self.tenants.insert(entry.origin.tenant_id.clone(), proof);
        Ok(Taken::Entry)
    }
}

fn follows(hash: &str, previous: &str) -> Result<(), FeedFault> {
    if hash == previous {
        return Ok(());
    }
    Err(FeedFault::Link { expected: hash.to_owned(), found: previous.to_owned() })
}

fn fingerprint(body: &[u8]) -> Fingerprint {
    let digest = Sha256::digest(body);
    let mut short = Fingerprint::default();
    short.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    short
}
