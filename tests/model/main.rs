//! What can be proven without a server: the mapping against written scenarios and a reference ledger, decoding, golden hashes,
//! and that the files an operator starts from agree with the code.
//!
//! | module | what it promises |
//! |---|---|
//! | `scenarios` | every rule feature and every reason that mapping can give, one row per event |
//! | `books` | a wrong books file is told every mistake with its place; a plan tells each difference in meaning |
//! | `books_page` | `docs/books.md` and `fis books init` show what can be used as it stands |
//! | `decode` | the five dialects, the limits, and the reason for everything that is not an event |
//! | `hashes` | payload and entry hashes equal those of an independent program, `golden.py` |
//! | `ledger` | random books and events map as a tiny, obviously right reference says |
//! | `relay` | late commits, crashes, refusals and zombies: the feed is whole and in order |
//! | `config` | `ops/fis.example.toml` is the code's defaults, and wrong settings are refused by name |
//! | `addresses` | one broker or several: what is taken, and how a wrong one is named |
//! | `schemas` | what the code sends is what `topology/schemas` says, member by member |
//! | `asyncapi` | `topology/asyncapi.yaml` is what the code and the topology make of it, and AsyncAPI's own parser takes it |
//! | `names` | every exchange, queue and routing key that a document names exists |
//! | `work` | what makes an event longer than it looks counts as work |
//! | `fuzz` | nothing that enters makes the code panic, hang or take more than its steps |
//! | `pages` | links lead somewhere, the index names every page, the list of metrics is the source's |
//! | `ops` | compose file, image, unit and server configurations fit the code |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failing test is what a test is for"
)]

mod addresses;
mod asyncapi;
mod books;
mod books_page;
mod config;
mod decode;
mod fuzz;
mod hashes;
mod ledger;
mod names;
mod ops;
mod pages;
mod posting;
mod relay;
mod scenarios;
mod schemas;
mod table;
mod work;

#[path = "../support/fuzz.rs"]
mod fuzzing;
#[path = "../support/books.rs"]
mod shared;
#[path = "../support/tree.rs"]
mod tree;

use std::path::{Path, PathBuf};

/// A file of the project.
fn project_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Its text.
fn read(path: &str) -> String {
    std::fs::read_to_string(project_file(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}
