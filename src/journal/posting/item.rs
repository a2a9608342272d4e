//! One event of a batch on its way into the journal: who it is, what mapping wants, and the message behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::received::Arrival;
use crate::domain::batch::BatchMember;
use crate::domain::books::{Books, ReversalRequest};
use crate::domain::chain::Provenance;
use crate::domain::dead_letter::DeadLetter;
use crate::domain::disposition::Failure;
use crate::domain::entry::BalancedEntry;
use crate::domain::ids::{EventId, EventType, TenantId};
use crate::domain::retry::RetryPolicy;

/// One event of a batch, as mapping left it.
pub struct Item<'a> {
    /// The event's identity; `None` where it could not be read.
    pub facts: Option<ItemFacts>,
    pub step: Step,
    /// Its place in its publisher's batch, where it has one; known also for events that cannot be read otherwise.
    pub member: Option<BatchMember>,
    pub arrival: Arrival,
    pub source: &'a (dyn Source + Sync),
}

/// The message behind an item. Most are posted, so a dead letter or a retry is made from it only when it is needed.
pub trait Source {
    fn dead_letter(&self, failure: Failure) -> DeadLetter;
    fn retry(&self, attempts: u32) -> RetryMessage;
    /// The content id of a message that says it is the replay of a dead letter.
    fn replayed(&self) -> Option<String> {
        None
    }
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
    /// The number of times the event was held before.
    pub attempts: u32,
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
    Post { entry: BalancedEntry, rule: String },
    Reverse { request: ReversalRequest, books: Arc<Books> },
    Ignore,
    Fail(Failure),
}

/// The message that a held event travels back as.
pub struct RetryMessage {
    /// Unique: the event and the attempt.
    pub message_id: String,
    pub routing_key: String,
    pub properties: String,
    pub body: Vec<u8>,
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
