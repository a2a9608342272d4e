//! One event of a batch on its way into the journal: who it is, what mapping wants, and the message behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use super::received::Arrival;
use crate::domain::batch::BatchMember;
use crate::domain::books::{Books, ReversalRequest};
use crate::domain::chain::Provenance;
use crate::domain::dead_letter::DeadLetter;
use crate::domain::disposition::Failure;
use crate::domain::entry::BalancedEntry;
use crate::domain::ids::{EventId, EventType, TenantId};
use crate::domain::retry::RetryPolicy;
use crate::store::held::{CountedHold, HeldContent, LetterCopy};

/// One event of a batch, as mapping left it.
pub struct Item<'a> {
    /// The event's identity; `None` where it could not be read.
    pub facts: Option<ItemFacts>,
    pub step: Step,
    /// Its place in its publisher's batch, where it has one; known also for events that cannot be read otherwise.
    pub member: Option<BatchMember>,
    pub arrival: Arrival,
    pub came: Came,
    pub source: &'a (dyn Source + Sync),
}

/// The place from which an event came. Only the inbox says that an event waited; nothing that a publisher writes can.
#[derive(Debug, Clone, Default)]
pub enum Came {
    #[default]
    FromBroker,
    /// It was held, and counted like this; perhaps as the replay of a letter.
    FromHeld { row: HeldContent, due_at: DateTime<Utc>, counted: CountedHold, letter: Option<LetterCopy> },
    /// It is a letter of a replay, which was received on that day.
    FromLetter { copy: LetterCopy, day: Option<NaiveDate> },
}

impl Came {
    /// The dead letter that stands for the event.
    #[must_use]
    pub fn letter(&self) -> Option<&LetterCopy> {
        match self {
            Self::FromBroker => None,
            Self::FromHeld { letter, .. } => letter.as_ref(),
            Self::FromLetter { copy, .. } => Some(copy),
        }
    }

    /// Tells whether the event waited in the inbox, and so was received before.
    pub(super) fn waited(&self) -> bool {
        !matches!(self, Self::FromBroker)
    }
}

/// The message behind an item. Most are posted, so a dead letter or a message to keep is made from it only when it is needed.
pub trait Source {
    fn dead_letter(&self, failure: Failure) -> DeadLetter;
    fn kept(&self) -> KeptMessage;
}

#[derive(Clone)]
pub struct ItemFacts {
    pub tenant_id: TenantId,
    pub event_id: EventId,
    pub event_type: EventType,
    pub payload_hash: String,
    pub lane: &'static str,
    pub message_id: Option<String>,
    pub correlation_id: Option<String>,
    pub traceparent: Option<String>,
    /// The version of the books that mapped it; `None` where the tenant has none.
    pub books_version: Option<i32>,
    pub max_attempts: Option<u32>,
    pub policy: RetryPolicy,
}

impl ItemFacts {
    pub(super) fn origin(self, rule: String) -> Provenance {
        Provenance {
            tenant_id: self.tenant_id,
            event_id: self.event_id,
            event_type: self.event_type,
            payload_hash: self.payload_hash,
            rule_name: rule,
            rule_version: self.books_version.unwrap_or(0),
            lane: self.lane,
            message_id: self.message_id,
            correlation_id: self.correlation_id,
            traceparent: self.traceparent,
        }
    }
}

/// The step that mapping wants for the event.
pub enum Step {
    Post {
        entry: BalancedEntry,
        rule: String,
    },
    Reverse {
        request: ReversalRequest,
        books: Arc<Books>,
    },
    /// By the rule of this name; `None`: no rule matches.
    Ignore {
        rule: Option<String>,
    },
    Fail(Failure),
}

/// The message of a held event, as it waits.
pub struct KeptMessage {
    pub routing_key: String,
    pub properties: String,
    pub body: Vec<u8>,
    /// The first receipt.
    pub received_at: DateTime<Utc>,
}

/// The version of the books that each tenant's items were mapped with; `None` where the tenant had none.
pub(super) fn mapped_versions(items: &[Item<'_>]) -> BTreeMap<TenantId, Option<i32>> {
    let facts: BTreeSet<_> = items
        .iter()
        .filter_map(|item| item.facts.as_ref())
        .map(|facts| (facts.tenant_id.clone(), facts.books_version))
        .collect();
    facts.into_iter().collect()
}
