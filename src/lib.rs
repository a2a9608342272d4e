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
//! | 0 | [`faults`] | nothing | a bug or a death is there on purpose, for a test |
//! | 1 | [`store`] | layer 0 | SQL is written; a table is written by one file |
//! | 2 | [`intake`], [`journal`], [`outbox`], [`parking`] (never one another) | 0–1 | an event, an entry, an announcement, a letter is decided about; Redis is spoken |
//! | 3 | [`pipeline`] | 0–2 | a disposition (ledger word) becomes a settlement (AMQP word) |
//! | 4 | [`desk`] | 0–3 | an act or a question of a person is bounded, done and answered |
//! | 5 | [`service`] | 0–4 | a long-lived task is spawned and joined |
//! | 6 | [`cli`], `main` | 0, 4, 5 | the terminal is written to, the process exits |
//!
//! Errors nest upward, never sideways; a caller chooses by the variant, never by the text:
//!
//! | error | made in | the caller learns |
//! |---|---|---|
//! | [`domain::disposition::Failure`] | `domain` | why an event is no entry: a stable reason, a detail, what it waits for; its disposition says hold or reject |
//! | [`domain::books::Mistake`] | `domain` | what is wrong in a books file, and where |
//! | [`platform::postgres::Fault`] | `platform` | whether a failed statement speaks of the server (`Away`: hold everything, try again) or of the data (`Refused`) |
//! | [`platform::amqp::AmqpError`] | `platform` | which session is lost and how; `Broker` carries the broker's code |
//! | `sqlx::Error` | statements of `store` inside a transaction | only whether to give the transaction up; `Fault::of` tells which |
//! | [`store::StoreError`] | acts of `store` and `parking` | `NotFound`, `Changed`, `Busy`, `Away`, `Refused`, `Corrupt` |
//! | [`store::schema::SchemaError`] | `store` | the database is behind, ahead, or another program's |
//! | [`journal::PostError`], [`journal::PreparedError`] | `journal` | map again, or ask `Fault` |
//! | [`journal::RevertError`], [`journal::books::BooksError`] | `journal` | what the ledger or the books refuse |
//! | [`pipeline::PipelineError`] | `pipeline` | why a lane's session ended |
//! | [`desk::DeskError`] | `desk` | everything that a hand answers with: an exit code at the command line, a status at a door |
//! | [`service::ServiceError`] | `service` | why the service did not start, or ended |
//!
//! Start reading at [`pipeline`].

pub mod cli;
pub mod desk;
pub mod domain;
pub mod faults;
pub mod intake;
pub mod journal;
pub mod outbox;
pub mod parking;
pub mod pipeline;
pub mod platform;
pub mod service;
pub mod store;
