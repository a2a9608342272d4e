//! Entries as the ledger knows them: a receipt for what is posted, the content that an event was posted with, and the original that a
//! reversal mirrors.

use std::sync::Arc;

use chrono::NaiveDate;

use super::chain::ChainedEntry;
use super::entry::Line;

/// The place of an event in the ledger, with the hash that proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub seq: i64,
    pub entry_id: Arc<str>,
    pub hash: Arc<str>,
}

impl Receipt {
    #[must_use]
    pub fn of(entry: &ChainedEntry) -> Self {
        Self { seq: entry.seq, entry_id: entry.entry_id().into(), hash: entry.hash.as_str().into() }
    }
}

/// An event that the ledger has, and the content it came with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    pub payload_hash: String,
    pub receipt: Receipt,
}

/// An entry that is to be reversed.
pub struct Original {
    pub entry_id: String,
    pub accounting_date: NaiveDate,
    pub lines: Vec<Line>,
    pub reversed: bool,
}
