//! Stage 1: a message enters, by one of three lanes of the broker, or by the inbox, where it has waited. Batches of deliveries come from `platform::amqp::Receiver`; their
//! idempotency keys are claimed in Redis and, after the commit, marked (`claim`); so is the progress of publishers' batches (`progress`). Who may send for whom stands in
//! `publishers`; which tenants have queues of their own, in `tenant_queues`. Nothing else here decides what becomes of an event.

pub mod claim;
pub mod ledger;
pub mod limit;
pub mod progress;
pub mod publishers;
pub mod roads;
pub mod tenant_queues;
pub mod turns;

use crate::domain::names;

/// A priority lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    Urgent,
    Live,
    Backfill,
    /// The lane of messages that waited in PostgreSQL and are posted from there.
    Inbox,
}

impl Lane {
    pub const ALL: [Self; 4] = [Self::Urgent, Self::Live, Self::Backfill, Self::Inbox];
    /// The lanes that the broker has.
    pub const CONSUMED: [Self; 3] = [Self::Urgent, Self::Live, Self::Backfill];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Live => "live",
            Self::Backfill => "backfill",
            Self::Inbox => "inbox",
        }
    }

    /// The queue of a lane that the broker has.
    #[must_use]
    pub fn queue(self) -> Option<&'static str> {
        match self {
            Self::Urgent => Some(names::URGENT_QUEUE),
            Self::Live => Some(names::INGESTION_QUEUE),
            Self::Backfill => Some(names::BACKFILL_QUEUE),
            Self::Inbox => None,
        }
    }

    /// The exchange by which publishers reach the lane.
    #[must_use]
    pub fn exchange(self) -> Option<&'static str> {
        match self {
            Self::Urgent => Some(names::URGENT_EXCHANGE),
            Self::Live => Some(names::EVENTS_EXCHANGE),
            Self::Backfill => Some(names::BACKFILL_EXCHANGE),
            Self::Inbox => None,
        }
    }

    /// The lane of the broker that has this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::CONSUMED.into_iter().find(|lane| lane.name() == name)
    }
}
