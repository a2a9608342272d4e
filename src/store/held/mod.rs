//! `fis_held`: events that may succeed later, each with its message, why it waits, since when and until when. What is held for a tenant changes under the
//! lock of its head alone, so that a row found under it stays true until the commit. `write` is the one file that writes the table; `read` finds and
//! lists, `due` is what the inbox reads.

mod due;
mod read;
mod write;

pub use due::{DueEvent, TenantTurn, due_events, due_tenants, next_due};
pub(in crate::store) use read::held_event;
pub use read::{
    CountedHold, HeldEvent, HeldFilter, Holds, KnownHold, among, any_waits_for_event, causes, find, list, tenants,
};
pub use write::{
    HoldRow, RELEASED_MAX, free_causes, free_events, free_ids, free_matching, free_tenant_causes, put_off, remove,
    remove_as_read, upsert,
};

use crate::domain::ids::EventKey;

/// Content that is held under an event's id: the event and the hash of the content.
pub type HeldContent = (EventKey, String);

/// A dead letter that was replayed and is held now, with the edited copy of it that was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterCopy {
    pub letter_id: String,
    pub edit_no: Option<i32>,
}
