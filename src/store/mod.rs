//! The tables. SQL is written here; each table is written by one file. Values of the domain enter, rows and values leave; nothing here
//! decides what becomes of an event, a letter or a replay. A function takes its caller's connection, so that it runs inside the
//! caller's transaction; batches travel as arrays, and one row is the batch of one.
//!
//! | file | tables |
//! |---|---|
//! | `dead_letters` | `fis_dead_letter`, `fis_entry_edit`; what it parks or removes it counts in `fis_received`, in one statement |
//! | `letter_edits` | `fis_dead_letter_edit` |
//! | `replays` | `fis_replay`, `fis_replay_letter`; its `send` also moves `fis_dead_letter` and adds to `fis_outbox`, in one statement |
//! | `operator_log` | `fis_operator_log`, beside the table's own trigger |

pub mod dead_letters;
pub mod error;
pub mod letter_edits;
pub mod operator_log;
pub mod replays;
pub(crate) mod rows;
mod words;

pub use error::StoreError;

/// One column of some rows, as an array.
macro_rules! column {
    ($rows:expr, $row:pat => $value:expr) => {
        $rows.iter().map(|$row| $value).collect::<Vec<_>>()
    };
}
pub(crate) use column;
