//! The tables. SQL is written here and nowhere else; each table is written by one file, but for the statements that `tests/tidy` lists with
//! their reasons. Values of the domain enter, rows and values leave; nothing here decides what becomes of an event. A function takes
//! its caller's connection, so that it runs inside the caller's transaction; batches travel as arrays, and one row is the batch of one.
//!
//! | file | tables |
//! |---|---|
//! | `heads` | `fis_chain_head` |
//! | `books` | `fis_books` |
//! | `journal` | `fis_journal_entry`, `fis_journal_line`, `fis_account_balance`; its one posting statement also adds to `fis_outbox` and `fis_received` and moves `fis_chain_head` |
//! | `outbox` | `fis_outbox` |
//! | `held` | `fis_held` |
//! | `ignored` | `fis_ignored` |
//! | `received` | `fis_received` |
//! | `batches` | `fis_batch`, `fis_batch_member` |
//! | `dead_letters` | `fis_dead_letter`, `fis_entry_edit`; what it parks or removes it counts in `fis_received`, in one statement |
//! | `letter_edits` | `fis_dead_letter_edit` |
//! | `instances` | `fis_instance` |
//! | `leases` | `fis_lease` |
//! | `replays` | `fis_replay`, `fis_replay_letter` |
//! | `operator_log` | `fis_operator_log`, beside the triggers of the letters' tables |
//! | `log_blocks` | `fis_log_block` |
//! | `mirror` | `fis_mirror`, `fis_mirror_cursor` |
//! | `audit`, `letter_audit`, `overview`, `receipts`, `tie_out` | read only |
//! | `ledger` | read only; the row of `fis_ledger` is made by its migration |
//! | `schema` | the version of the whole |

pub mod audit;
pub mod batches;
pub mod books;
pub mod dead_letters;
mod error;
pub mod guards;
pub mod heads;
pub mod held;
pub mod ignored;
pub mod instances;
pub mod journal;
pub mod leases;
pub mod ledger;
pub mod letter_audit;
pub mod letter_edits;
pub mod log_blocks;
pub mod mirror;
pub mod operator_log;
pub mod outbox;
pub mod overview;
pub mod receipts;
pub mod received;
pub mod replays;
pub(crate) mod rows;
pub mod schema;
pub mod tenants;
pub mod tie_out;
mod words;

pub use error::StoreError;

use sqlx::PgConnection;

/// One column of some rows, as an array.
macro_rules! column {
    ($rows:expr, $row:pat => $value:expr) => {
        $rows.iter().map(|$row| $value).collect::<Vec<_>>()
    };
}
pub(crate) use column;

/// Has the statements of this transaction planned anew: those that find letters or held events for the rows of a batch. A plan that was
/// kept from when few were open would walk through all of them for each batch (ADR 26).
///
/// # Errors
/// The database is away.
pub async fn plan_anew(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("set local plan_cache_mode = force_custom_plan").execute(db).await?;
    Ok(())
}

/// Fails in a broken transaction, so that `commit` cannot pretend: the last statement where others came behind the writing one.
///
/// # Errors
/// The transaction is broken, or the database is away.
pub async fn is_whole(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("select").execute(db).await?;
    Ok(())
}

/// Makes a transaction read one moment of the ledger, whatever is posted meanwhile.
///
/// # Errors
/// The database is away.
pub async fn read_one_moment(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("set transaction isolation level repeatable read, read only").execute(db).await.map(|_| ())
}
