//! Stage 1: a message enters, by one of three lanes. Batches of deliveries come from `platform::amqp::Receiver`; their
//! idempotency keys are claimed in Redis and, after the commit, marked (`claim`); so is the progress of publishers' batches (`progress`). Nothing here decides what becomes of an
//! event.

pub mod claim;
pub mod ledger;
pub mod progress;
pub mod turns;

use crate::domain::names;

/// A priority lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    Urgent,
    Live,
    Backfill,
}

impl Lane {
    pub const ALL: [Self; 3] = [Self::Urgent, Self::Live, Self::Backfill];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Live => "live",
            Self::Backfill => "backfill",
        }
    }

    #[must_use]
    pub fn queue(self) -> &'static str {
        match self {
            Self::Urgent => names::URGENT_QUEUE,
            Self::Live => names::INGESTION_QUEUE,
            Self::Backfill => names::BACKFILL_QUEUE,
        }
    }

    #[must_use]
    pub fn exchange(self) -> &'static str {
        match self {
            Self::Urgent => names::URGENT_EXCHANGE,
            Self::Live => names::EVENTS_EXCHANGE,
            Self::Backfill => names::BACKFILL_EXCHANGE,
        }
    }

    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lane| lane.name() == name)
    }
}
