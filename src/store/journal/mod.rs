//! The journal: entries, lines, balances. `write` is the only file that writes them; the others read.

pub mod known;
pub mod pages;
pub mod read;
pub mod write;
