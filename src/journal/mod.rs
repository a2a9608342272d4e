//! Stage 2: a message becomes a journal entry. One batch, one transaction, a fixed number of statements whatever the
//! size of the batch; one event is the batch of one.
//!
//! | # | statement | locks | why it is its own statement |
//! |---|---|---|---|
//! | 1 | `lock_heads` | the heads of the batch's tenants, in tenant order | a READ COMMITTED statement that waits for a lock may have read before it |
//! | 2 | `find_posted` | – | which event ids are in the ledger already, and with which hash |
//! | 3 | `find_originals` | – | only where the batch reverses something |
//! | – | `find_tally` | – | only where the batch has members of publishers' batches |
//! | – | `find_held` | – | only where statement 2 saw that something is held |
//! | – | `find_letters` | replayed letters, in id order | only where the batch has replays |
//! | – | `decide` (no SQL) | – | walks the batch in delivery order: duplicate, conflict, post, reverse, hold, reject |
//! | 4 | `Write::run` | balance rows, in key order | entries, lines, balances, outbox rows, what was received (`received`) and the moved heads in one statement: a round trip is a pause of everybody who waits for the head. It must return a row per head |
//! | – | `plan_anew` | – | only before `find_letters`, or before 5 and 6 where they have something to find: a kept plan may be one for few letters |
//! | 5 | `insert_retries`, `upsert_dead_letters`, `insert_announcements` | – | only where the batch has some: what else leaves, decided in the same commit |
//! | 6 | `release_held`, `upsert_held`, `free_waiting_for`, `settle_replays`, `supersede`, `write_tally`, `Counts::write` | waiting outbox rows, those that the relay has locked left out | only where the batch has some, or statement 2 saw that something is held, or 4 that a letter is open |
//! | 7 | `is_whole` | – | only behind 5 and 6: in a broken transaction it fails, so `commit` can not pretend |
//!
//! A batch that is plainly new (`draft`) is decided before its turn, while the one before it is written: of it only 1 and 4 are
//! sent, and whatever of 5 to 7 statement 4 asks for. Where the heads are not as they were expected, its entries are put behind them;
//! where the books changed, or the unique index knows an event, nothing is written and the batch goes the whole way.
//!
//! A batch has the same result as its events posted one by one in delivery order. Several instances may post at once: a
//! tenant's batches wait for each other at statement 1, and never deadlock because all take the heads in one order.

pub mod audit;
mod batches;
pub mod books;
mod decide;
mod draft;
mod entries;
pub mod held;
mod item;
mod letters;
mod plan;
mod post;
pub mod read;
mod receipt;
mod received;
mod rejected;
pub mod report;
mod revert;
mod standing;
mod statements;
mod tally;
pub mod tie_out;
mod waiting;

pub use batches::{StoredBatch, find_batch};
pub use decide::{Known, Original, Plan, Posted, Receipt, Verdict, decide};
pub use draft::{Draft, Heads, draft};
pub use item::{Item, ItemFacts, RetryMessage, Source, Step};
pub use post::{Committed, DraftError, PostError, Rehearsal, drop_unique, post, post_draft, rehearse};
pub use receipt::{Account, Letter, PostedEntry, account_of};
pub use received::{Arrival, Column, Counts, Passage};
pub use revert::{RevertError, revert};
pub use tally::{BatchProgress, Member, Progress};
pub use waiting::PropertiesText;
