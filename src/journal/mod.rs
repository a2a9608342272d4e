//! Stage 2: a message becomes a journal entry. `posting` decides and writes, one batch in one transaction; `reading` proves what was written;
//! `books` are the rules by which events become entries; `held` calls back what waits. Nothing that does not balance is ever posted.

pub mod books;
pub mod held;
mod posting;
mod reading;

pub use crate::domain::receipt::{Original, Posted, Receipt};
pub use posting::{
    Arrival, Came, Committed, Counts, Heads, Item, ItemFacts, KeptMessage, LedgerView, Plan, PostError, PreparedBatch,
    PreparedError, Reception, Rehearsal, Reverse, Reversed, RevertError, Source, Step, Verdict, decide, post,
    post_prepared, post_step_ahead, prepare, rehearse, rehearse_revert, revert,
};
pub use reading::{audit, tie_out};
