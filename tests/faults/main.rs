//! The invariants under fire: the process, its connections and its servers die, again and again, and afterwards every event
//! that was confirmed is accounted for exactly once.

// Clippy knows a test by its attribute; the helpers beside them have the same leave to panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod addresses;
mod cluster;
#[cfg(feature = "failpoints")]
mod crash_points;
#[cfg(feature = "failpoints")]
mod dead_letters;
#[cfg(feature = "failpoints")]
mod inbox;
#[cfg(feature = "mutants")]
mod mends;
#[cfg(all(feature = "failpoints", feature = "mutants"))]
mod mutants;
mod processes;
mod relay;
mod restored;
mod servers;
mod silence;

#[path = "../support/mod.rs"]
mod support;
