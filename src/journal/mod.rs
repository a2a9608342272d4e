//! Stage 2: a message becomes a journal entry. One batch, one transaction, a fixed number of statements whatever the
//! size of the batch; one event is the batch of one.
//!
//! | # | statement | locks | why it is its own statement |
//! |---|---|---|---|
//! | 1 | `lock_heads` | the heads of the batch's tenants, in tenant order | a READ COMMITTED statement that waits for a lock may have read before it |
//! | 2 | `find_posted` | – | which event ids are in the ledger already, and with which hash |
//! | 3 | `find_originals` | – | only where the batch reverses something |
//! | – | `find_tally` | – | only where the batch has members of publishers' batches |
//! | – | `decide` (no SQL) | – | walks the batch in delivery order: duplicate, conflict, post, reverse, hold, reject |
//! | 4 | `insert_entries` | – | |
//! | 5 | `insert_lines` | – | |
//! | 6 | `add_to_balances` | balance rows, in key order | the head lock already serialises a tenant; the order keeps it so |
//! | 7 | `insert_outbox_entries`, `insert_retries`, `insert_rejections` | – | what leaves, decided in the same commit |
//! | 8 | `release_held`, `upsert_held`, `free_waiting_for`, `upsert_dead_letters`, `letters::settle`, `write_tally` | waiting outbox rows, those that the relay has locked left out | only where the batch has some |
//! | 9 | `move_heads` | – | last, and it must return a row per tenant: in a broken transaction it fails, so `commit` can not pretend |
//!
//! A batch has the same result as its events posted one by one in delivery order. Several instances may post at once: a
//! tenant's batches wait for each other at statement 1, and never deadlock because all take the heads in one order.

pub mod audit;
mod batches;
pub mod books;
mod decide;
pub mod held;
mod item;
mod letters;
mod post;
pub mod read;
mod receipt;
pub mod report;
mod revert;
mod statements;
mod tally;
mod waiting;

pub use batches::{StoredBatch, find_batch};
pub use decide::{Known, Original, Plan, Posted, Receipt, Verdict, decide};
pub use item::{Item, ItemFacts, RetryMessage, Source, Step};
pub use post::{Committed, PostError, Rehearsal, post, rehearse};
pub use receipt::{Account, Letter, account_of};
pub use revert::{RevertError, revert};
pub use statements::drop_unique;
pub use tally::{BatchProgress, Member, Progress};
pub use waiting::PropertiesText;
