//! The ledger's own words. Bytes, text and times enter as arguments; values and verdicts leave. Nothing here touches a clock,
//! a socket, a file or a floating-point amount.

pub mod batch;
pub mod books;
pub mod canonical;
pub mod chain;
pub mod checkpoint;
pub mod dead_letter;
pub mod disposition;
pub mod entry;
pub mod event;
pub mod export;
pub mod expr;
pub mod feed;
pub mod fx;
pub mod ids;
pub mod json;
pub mod letter;
pub mod log_chain;
pub mod money;
pub mod names;
pub mod operator;
pub mod outbound;
pub mod period;
pub mod receipt;
pub mod retry;
pub mod seal;
pub mod trial_balance;
pub mod waits_for;
