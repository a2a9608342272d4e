//! What was received, counted as it is decided: the control totals that `tie_out` compares with the rows. Every message counts
//! on the tenant's day on which it came, in the column of what became of it; where an event moves later, it leaves one column
//! of that day for another. What is posted is counted in the statement that writes the entries; the rest costs one more, where there is any.
//!
//! | what happens | counted |
//! |---|---|
//! | a message makes a row: an entry, a held event, a dead letter | in that row's column, today |
//! | a message that a rule ignores; one of an event that has its row already | ignored; duplicate |
//! | the inbox decides a row | from column to column, on the row's own day |
//! | another message is posted instead of what is held or parked, or ends what is held | that one becomes a duplicate, on its own day |

use chrono::NaiveDate;

use crate::domain::chain::ChainedEntry;
use crate::domain::entry::Side;
use crate::domain::ids::TenantId;
use crate::domain::money::Worth;
use crate::store::held::CountedHold;
use crate::store::received::{Outcome, Totals};

/// A message as it came.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The tenant's day.
    pub on: NaiveDate,
    /// The day that the event is about, where it says so; else that of its receipt.
    pub event_date: NaiveDate,
    /// The money that the message says it is worth.
    pub money: Worth,
    /// The number of times the broker has delivered the message before.
    pub deliveries: i64,
}

/// A message as it was received: its arrival, and what it found when its turn came.
#[derive(Debug, Clone, Copy)]
pub struct Reception {
    pub arrival: Arrival,
    /// The message waited in the inbox, and so was received before.
    pub waited: bool,
    /// The dead letter that stands for it.
    pub letter: Option<OwnLetter>,
    /// The held event that it was.
    pub held: Option<CountedHold>,
}

/// A dead letter whose turn has come; locked.
#[derive(Debug, Clone, Copy)]
pub struct OwnLetter {
    pub open: bool,
    pub day: Option<NaiveDate>,
}

impl Reception {
    /// The day on which its letter is counted.
    fn letter_day(&self) -> Option<NaiveDate> {
        self.letter.filter(|letter| letter.open).and_then(|letter| letter.day)
    }

    /// The day of the entry that comes of it.
    pub fn day(&self) -> NaiveDate {
        self.letter_day().or(self.held.and_then(|held| held.day)).unwrap_or(self.arrival.on)
    }
}

/// Changes of the totals, made by what is decided.
#[derive(Debug, Default)]
pub struct Counts(Totals);

impl Counts {
    /// One event more with an outcome, or with `by` -1 one less.
    pub fn add(&mut self, tenant: &TenantId, day: NaiveDate, outcome: Outcome, by: i64, worth: Worth) {
        self.0.add(tenant, day, outcome, by, worth);
    }

    pub fn entry(&mut self, entry: &ChainedEntry, day: NaiveDate) {
        // Every entry has a debit line, or it would not balance.
        let mut events = 1;
        for line in entry.lines.iter().filter(|line| line.side == Side::Debit) {
            let more = (std::mem::take(&mut events), line.amount);
            self.0.add_amount(&entry.origin.tenant_id, day, Outcome::Posted, line.currency.code(), more);
        }
    }

    /// A message of an event that has its row already.
    pub fn copy(&mut self, tenant: &TenantId, reception: &Reception) {
        if !reception.waited {
            self.add(tenant, reception.arrival.on, Outcome::Duplicate, 1, reception.arrival.money);
        }
    }

    pub fn ignored(&mut self, tenant: &TenantId, reception: &Reception) {
        self.held_to(tenant, reception.held, Outcome::Ignored);
        if !reception.waited {
            self.add(tenant, reception.arrival.on, Outcome::Ignored, 1, reception.arrival.money);
        }
    }

    /// Moves an event from one column of its day to another.
    pub fn move_over(&mut self, tenant: &TenantId, day: Option<NaiveDate>, money: Worth, from: Outcome, to: Outcome) {
        if let Some(day) = day {
            self.add(tenant, day, from, -1, money);
            self.add(tenant, day, to, 1, money);
        }
    }

    /// A held event that has made way for something else.
    pub fn held_to(&mut self, tenant: &TenantId, held: Option<CountedHold>, to: Outcome) {
        if let Some(CountedHold { day, money }) = held {
            self.move_over(tenant, day, money, Outcome::Held, to);
        }
    }

    /// A held event that has become a row which is counted in its stead; unless that is counted in its letter's.
    pub fn no_longer_held(&mut self, tenant: &TenantId, reception: &Reception) {
        match reception.held {
            Some(_) if reception.letter_day().is_some() => self.held_to(tenant, reception.held, Outcome::Duplicate),
            Some(CountedHold { day: Some(day), money }) => self.add(tenant, day, Outcome::Held, -1, money),
            _ => {}
        }
    }

    /// The totals of what was posted, which are written with the entries; the others stay.
    pub(super) fn take_posted(&mut self) -> Totals {
        self.0.take(Outcome::Posted)
    }

    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.0
    }
}
