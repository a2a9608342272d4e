//! The store: the one layer in which SQL is written. Domain values and small rows enter and leave; nothing here decides what becomes of an
//! event, a letter or a replay. Each table is written by one file; statements take the caller's connection and its transaction.

mod columns;
pub mod dead_letters;
pub mod error;
pub mod letter_edits;
pub mod operator_log;
pub mod replays;

pub use error::StoreError;
