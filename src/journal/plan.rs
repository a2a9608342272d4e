//! What a decision is made of: what the ledger knows of a batch, the verdicts, and the rows to write.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use super::item::{ItemFacts, RetryMessage};
use super::received::{Counts, OwnLetter, Passage, Standing};
use super::standing::Waiting;
use super::tally::{Tally, TallyPlan};
use crate::domain::chain::{ChainHead, ChainedEntry};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::disposition::Failure;
use crate::domain::entry::Line;
use crate::domain::ids::{EventId, TenantId};

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Posted(Receipt),
    /// The receipt is missing where Redis knew it and PostgreSQL was not asked.
    Duplicate(Option<Receipt>),
    Ignored,
    Held(Failure),
    Rejected {
        failure: Failure,
        /// What is posted under the same event id, where that is the reason.
        posted: Option<Posted>,
    },
}

/// Where an event is in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub seq: i64,
    pub entry_id: Arc<str>,
    pub hash: Arc<str>,
}

impl Receipt {
    pub fn of(entry: &ChainedEntry) -> Self {
        Self { seq: entry.seq, entry_id: entry.entry_id().into(), hash: entry.hash.as_str().into() }
    }
}

/// An entry that the ledger has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    pub payload_hash: String,
    pub receipt: Receipt,
}

/// An entry that the batch wants to reverse.
pub struct Original {
    pub entry_id: String,
    pub accounting_date: NaiveDate,
    pub lines: Vec<Line>,
    pub reversed: bool,
}

pub type EventKey = (TenantId, EventId);

/// What the ledger knows, read under the lock.
#[derive(Default)]
pub struct Known {
    pub heads: BTreeMap<TenantId, ChainHead>,
    pub posted: HashMap<EventKey, Posted>,
    pub originals: HashMap<EventKey, Original>,
    /// What of the batch is held.
    pub held: HashMap<EventKey, Waiting>,
    /// Something is held, for somebody.
    pub any_held: bool,
    /// The dead letters that items are replays of, by place.
    pub letters: Vec<Option<OwnLetter>>,
    pub tally: Tally,
}

/// The rows to write.
#[derive(Default)]
pub struct Plan {
    pub entries: Vec<ChainedEntry>,
    /// The day of receipt of each entry; `None` for what nobody sent.
    pub received_on: Vec<Option<NaiveDate>>,
    pub held: Vec<HeldRow>,
    /// Held by this batch, until it posted other content under the same id: they come back at once, to be rejected.
    pub overtaken: Vec<HeldRow>,
    pub rejected: Vec<RejectedRow>,
    /// Events that were held and now are not.
    pub released: Vec<EventKey>,
    pub moved: HashSet<TenantId>,
    pub tally: TallyPlan,
    pub counts: Counts,
    /// The events that the batch reverses: an entry among them is kept in hand for its reversal.
    pub(super) reversed: HashSet<EventKey>,
}

pub struct HeldRow {
    pub facts: ItemFacts,
    pub failure: Failure,
    pub attempts: u32,
    pub due_at: DateTime<Utc>,
    pub retry: RetryMessage,
    pub standing: Standing,
    pub event_date: NaiveDate,
}

pub struct RejectedRow {
    pub letter: DeadLetter,
    pub passage: Passage,
}
