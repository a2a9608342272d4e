//! fis: a ledger ingestion service. Domain events come off RabbitMQ, become double-entry journal entries in PostgreSQL, and
//! are announced to whoever reads the feed.
//!
//! The types read as a sentence; each can only be made from the one before it:
//!
//! `Delivery → RawMessage → InboundEvent → DraftEntry → BalancedEntry → ChainedEntry → OutboundEvent`
//!
//! | layer | module | may use | the only place where… |
//! |---|---|---|---|
//! | 0 | [`domain`] | no client crate | money is added, an entry balanced, a hash made, a failure given its disposition |
//! | 0 | [`platform`] | the client crates | `lapin` is named, the clock is read, a metric is named |
//! | 1 | [`store`] | layer 0 | SQL is written; a table is written by one file |
//! | 2 | [`intake`], [`journal`], [`outbox`], [`parking`] (never one another) | 0–1 | an event, an entry, an announcement, a letter is decided about; Redis is spoken |
//! | 3 | [`pipeline`] | 0–2 | a disposition (ledger word) becomes a settlement (AMQP word) |
//! | 4 | [`desk`] | 0–3 | an act is bounded, logged and done |
//! | 5 | [`service`] | below | a long-lived task is spawned and joined |
//! | 6 | [`cli`], `main` | below | the terminal is written to, the process exits |
//!
//! Start reading at [`pipeline`].

pub mod cli;
pub mod desk;
pub mod domain;
pub mod intake;
pub mod journal;
pub mod outbox;
pub mod parking;
pub mod pipeline;
pub mod platform;
pub mod service;
pub mod store;
