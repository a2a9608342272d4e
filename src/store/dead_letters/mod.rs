//! `fis_dead_letter` and `fis_entry_edit`: messages that could not be booked, and the record of entries that were booked from an edited copy.
//! `write` is the one file that writes them; the others read. `filter` is the condition that every looking and choosing statement shares.

mod filter;
mod groups;
mod posting;
mod read;
mod write;

pub(in crate::store) use filter::PARAMETERS;
pub use filter::{Filter, Scope};
pub use groups::{GroupMoney, GroupName, OpenLetters, Sums, dated_between, groups, open_letters, sums};
pub use posting::{KnownLetter, LockedLetter, lock_known, lock_letters, lock_resolved};
pub use read::{EventLetter, Letter, Sort, Whole, list, lock_chosen, of_event, prunable, statuses, whole, whole_page};
pub use write::{
    Ended, LetterRow, Moved, Resolved, Written, discard, hold, insert_unrecorded, park_again, prune, resolve, restore,
    set_deliveries, supersede, upsert_given_up, upsert_rejected,
};
