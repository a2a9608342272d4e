//! Where a read begins. Ids that were read and the database's open transactions enter, an id leaves below which nothing can
//! appear any more. What must never happen: it passes a row that nobody has read.
//!
//! A read may not begin behind the row that was read last: a transaction may still commit a lower id, and its tenant's next
//! id right after it, which would then overtake. So it begins at the floor: every transaction that could have drawn
//! a lower id has ended, and what it left was read since.

use std::time::Duration;

use crate::faults::mutants::{self, mutant};
use crate::store::outbox::Horizon;

/// The interval at which the floor is moved up: what is below it is not walked through any more, above all the dead entries that removed
/// rows leave in the index until they are vacuumed.
const EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Floor {
    /// The highest id that was read.
    high: i64,
    /// `high` as it was when these transactions were yet to begin.
    mark: Option<(i64, i64)>,
    /// No lower id can appear any more; not all of them need have been read.
    proven: i64,
    floor: i64,
    ask_at: Duration,
}

impl Floor {
    pub fn id(&self) -> i64 {
        self.floor
    }

    pub fn wants_horizon(&self, now: Duration) -> bool {
        now >= self.ask_at && self.high > self.floor
    }

    /// The transactions as they are now, after everything that was read and before everything that will be.
    pub fn horizon(&mut self, horizon: Horizon, now: Duration) {
        self.ask_at = now + EVERY;
        if let Some((next, high)) = self.mark
            && horizon.oldest >= next
        {
            self.proven = high;
            self.mark = None;
        }
        self.mark.get_or_insert((horizon.next, self.high));
    }

    /// Everything from the floor to this id was read; `all`: there is nothing behind it.
    pub fn read_to(&mut self, last: i64, all: bool) {
        self.high = self.high.max(last);
        if all || last >= self.proven {
            self.floor = self.proven;
        }
        if mutant(mutants::RELAY_BY_ID_CURSOR) {
            self.floor = self.high;
        }
    }
}
