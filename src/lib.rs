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
//! | 1 | [`intake`], [`journal`], [`outbox`], [`parking`] (never one another) | layer 0 | SQL is written; Redis is spoken |
//! | 2 | [`pipeline`] | 0–1 | a disposition (ledger word) becomes a settlement (AMQP word) |
//! | 3 | [`desk`] | 0–2 | an act or a question of a person is bounded, done and answered |
//! | 4 | [`service`] | 0–2 | a long-lived task is spawned and joined |
//! | 5 | [`cli`], `main` | below | the terminal is written to, the process exits |
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
