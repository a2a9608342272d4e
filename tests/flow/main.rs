//! The promises of the whole service, kept by the built binary against real servers. One module per subject; a test's name is
//! the promise. Each test has a database, a virtual host and a Redis database of its own.

// Clippy knows a test by its attribute; the helpers beside them have the same leave to panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod ahead;
mod batches;
mod books;
mod books_race;
mod by_hand;
mod commands;
mod configuration;
mod connections;
mod dead_letters;
mod desk;
mod desk_letters;
mod dialects;
mod duplicates;
mod edges;
mod examples;
mod feed;
mod feed_by_tenant;
mod fuzz;
mod goodbye;
mod happy;
mod held;
mod hostile;
mod inbox;
mod lanes;
mod life;
mod limits;
mod memory;
mod mirror;
mod plans;
mod publishers;
mod reading;
mod receipts;
mod rejections;
mod relay;
mod rights;
mod rights_broker;
mod schema;
mod status;
mod tampering;
mod tampering_log;
mod tenant_queues;
mod tenants;
mod terminal;
mod tie_out;
mod tls;
mod told;
mod topology;
mod tutorial;
mod unreadable_books;
mod waiting;
mod who;
mod work;

#[path = "../support/mod.rs"]
mod support;
