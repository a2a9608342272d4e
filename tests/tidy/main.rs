//! The project's manners, tested. The sources enter as text; every breach of a rule leaves as one line that says what to do.
//! Each rule is a function from texts to complaints, so that a test beside it can show that it bites. What a rule lets pass for
//! now stands in a constant with its reason, and the test fails when an entry of it is no longer needed.
//!
//! | module | what it holds |
//! |---|---|
//! | `layers` | who may use whom |
//! | `cycles` | files of one room use each other in one direction |
//! | `domain` | the ledger's own words touch nothing, and no float comes near money |
//! | `places` | client crates, clock, metrics and terminal have one place each |
//! | `tables` | where SQL is written; one writer per table |
//! | `tools` | the crates beside the product keep the rules of words, files and lengths |
//! | `types` | no public type name twice in one layer |
//! | `words` | every file says what it is for; nothing unfinished is left behind |
//! | `length` | files fit a sitting, functions a screen |
//! | `decisions` | every ADR stands in the index with its status |
//! | `files` | every source is compiled, every migration numbered, every crash point tested |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failing test is what a test is for"
)]

mod cycles;
mod decisions;
mod domain;
mod files;
mod layers;
mod length;
mod places;
mod source;
mod tables;
mod tools;
mod types;
mod words;

use source::Source;

#[track_caller]
fn hold(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn bites(complaints: &[String], word: &str) {
    assert!(complaints.iter().any(|complaint| complaint.contains(word)), "{word:?} is not among {complaints:?}");
}

fn one(path: &str, text: &str) -> Vec<Source> {
    vec![Source::new(path, text)]
}
