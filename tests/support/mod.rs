//! What the tests stand on. A test's name enters, a world of its own leaves: a database, a virtual host and a Redis
//! database on real servers, the built `fis` binary, publishers and readers. What must never happen: two tests share
//! anything but the servers, a test waits for time instead of an event, or a failure hides what the service said.

// Two binaries share these modules, and neither uses all of them.
#![allow(dead_code)]

pub mod backlog;
pub mod books;
pub mod broker;
pub mod events;
pub mod fuzz;
pub mod invariants;
pub mod load;
pub mod process;
pub mod raw;
pub mod servers;
pub mod tree;
pub mod wait;
pub mod wire;
pub mod world;
