//! Posting: a batch of mapped events becomes journal entries. One batch, one transaction, a fixed number of statements whatever the
//! size of the batch; one event is the batch of one.
//!
//! | # | statement | locks | why it is its own statement |
//! |---|---|---|---|
//! | 1 | `lock_heads` | the heads of the batch's tenants, in tenant order | a READ COMMITTED statement that waits for a lock may have read before it |
//! | 2 | `find_posted` | – | which event ids are in the ledger already, and with which hash |
//! | 3 | `find_originals` | – | only where the batch reverses something |
//! | – | `batches::find` | – | only where the batch has members of publishers' batches |
//! | – | `held::find` | – | only where statement 2 saw that something is held |
//! | – | `step::take_turn`, `letters::lock` | the replay; letters whose turn has come, in id order | only where the batch came from the inbox; what somebody else has decided meanwhile is left out |
//! | – | `decide` (no SQL) | – | walks the batch in delivery order: duplicate, conflict, post, reverse, hold, reject |
//! | 4 | `Write::run` | balance rows, in key order | entries, lines, balances, outbox rows, what was received (`received`) and the moved heads in one statement: a round trip is a pause of everybody who waits for the head. It must return a row per head |
//! | – | `plan_anew` | – | only where letters were locked, or before 5 and 6 where they have something to find: a kept plan may be one for few letters |
//! | 5 | `upsert_dead_letters`, `insert_announcements` | – | only where the batch has some: what else leaves, decided in the same commit |
//! | 6 | `held::remove`, `upsert_held`, `free_waiting_for`, `letters::settle`, `supersede`, `replays::advance`, `ignored::upsert`, `batches::write`, `Totals::write` | letters of the same events | only where the batch has some, or statement 2 saw that something is held, or 4 that a letter is open |
//! | 7 | `is_whole` | – | only behind 5 and 6: in a broken transaction it fails, so `commit` can not pretend |
//!
//! A batch that is plainly new (`prepare`) is decided before its turn, while the one before it is written: of it only 1 and 4 are
//! sent, and whatever of 5 to 7 statement 4 asks for; of a step of a replay also `step::take_turn` and, before 4, `letters::resolve_as_read`. Where the heads are not as they were expected, its entries are put behind them;
//! where the books changed, or the unique index knows an event, nothing is written and the batch goes the whole way. A step of a replay
//! that nobody else disturbs has its letters resolved before 1, while the batch before it is posted (`post_step_ahead`).
//!
//! A batch has the same result as its events posted one by one in delivery order. Several instances may post at once: a
//! tenant's batches wait for each other at statement 1, and never deadlock because all take the heads in one order.

mod decide;
mod finish;
mod item;
mod letters;
mod plan;
mod post;
mod prepare;
mod prepared;
mod received;
mod rejected;
mod revert;
mod tally;
mod verdict;
mod waiting;

pub use decide::decide;
pub use finish::Committed;
pub use item::{Came, Item, ItemFacts, KeptMessage, Source, Step};
pub use plan::{LedgerView, Plan};
pub use post::{PostError, Rehearsal, post, rehearse};
pub use prepare::{Heads, PreparedBatch, prepare};
pub use prepared::{PreparedError, post_prepared, post_step_ahead};
pub use received::{Arrival, Counts, Reception};
pub use revert::{Reverse, Reversed, RevertError, rehearse_revert, revert};
pub use verdict::Verdict;
