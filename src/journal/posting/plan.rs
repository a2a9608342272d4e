//! What a decision is made of: what the ledger knows of a batch, the verdicts, and the rows to write.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, NaiveDate, Utc};

use super::item::{ItemFacts, KeptMessage};
use super::received::{Counts, OwnLetter, Reception};
use super::tally::TallyPlan;
use crate::domain::batch::Tally;
use crate::domain::chain::{ChainHead, ChainedEntry};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::disposition::Failure;
use crate::domain::ids::{EventKey, TenantId};
use crate::domain::receipt::{Original, Posted};
use crate::store::held::{CountedHold, HeldContent, Holds, LetterCopy};
use crate::store::ignored::IgnoredEvent;
use crate::store::journal::write::{PostingRows, Write};
use crate::store::received::Totals;

/// The facts that the ledger knows, read under the lock.
#[derive(Default)]
pub struct LedgerView {
    pub heads: BTreeMap<TenantId, ChainHead>,
    pub posted: HashMap<EventKey, Posted>,
    pub originals: HashMap<EventKey, Original>,
    /// The events of the batch that are held.
    pub held: Holds,
    /// Something is held that the batch may have to do with.
    pub any_held: bool,
    /// The dead letters that stand for items, by place.
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
    pub rejected: Vec<RejectedRow>,
    /// Events that the books ignore; one that comes twice is one row.
    pub ignored: BTreeMap<EventKey, IgnoredEvent>,
    /// Letters whose event waits with another letter of the same content now.
    pub replaced: Vec<String>,
    /// Events that were held and now are not.
    pub released: Vec<HeldContent>,
    pub moved: HashSet<TenantId>,
    pub tally: TallyPlan,
    pub counts: Counts,
    /// The events that the batch reverses: an entry among them is kept in hand for its reversal.
    pub(super) reversed: HashSet<EventKey>,
}

impl Plan {
    /// Nothing is to be written behind the entries and their totals.
    pub(super) fn has_entries_alone(&self) -> bool {
        self.counts.totals().is_empty() && self.held.is_empty() && self.rejected.is_empty() && self.ignored.is_empty()
    }

    /// The writing of the entries, with the heads where they end and the totals of what was posted.
    pub(super) fn write(&self, heads: &BTreeMap<TenantId, ChainHead>, received: &Totals) -> Result<Write, sqlx::Error> {
        let moved = heads.iter().filter(|(tenant, _)| self.moved.contains(*tenant)).collect();
        Write::of(&PostingRows { entries: &self.entries, received_on: &self.received_on, moved, received })
    }
}

pub struct HeldRow {
    pub facts: ItemFacts,
    pub failure: Failure,
    pub attempts: u32,
    pub due_at: DateTime<Utc>,
    pub message: KeptMessage,
    pub counted: CountedHold,
    pub event_date: NaiveDate,
    /// The dead letter whose replay it is.
    pub letter: Option<LetterCopy>,
}

pub struct RejectedRow {
    pub letter: DeadLetter,
    pub reception: Reception,
    /// The letter's own replay was rejected, now or after it was held.
    pub replayed: bool,
}
