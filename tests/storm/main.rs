//! The storm: real servers are killed, stopped, cut off and filled up under a stream of events, and an oracle that shares no code
//! with fis checks afterwards that nothing was lost, doubled or invented. `./dev faults --list` shows the faults, `docs/reliability.md`
//! what is promised. Everything is drawn from a seed: the same seed makes the same events and the same schedule.

// Clippy knows a test by its attribute; all of this is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod args;
mod books;
mod check;
mod dialects;
mod end;
mod entangled;
mod faults;
mod forger;
mod hostile;
mod instances;
mod json;
mod model;
mod operator;
mod poison;
mod proxy;
mod publisher;
mod reader;
mod script;
mod servers;
mod snapshot;
mod suite;
mod summary;
#[path = "../support/tree.rs"]
mod tree;
mod weather;
#[allow(dead_code)] // Shared with the tests of flows.
#[path = "../support/wire.rs"]
mod wire;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match args::parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => return ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let passed = runtime.block_on(suite::run(args));
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
