//! Publishers' batches: how a member ended, and how far a batch is. A member counts once however often it comes; `journal` counts, the
//! store keeps.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};

use super::event::BatchRef;
use super::ids::{EventId, TenantId};
use super::outbound::{self, BatchCounts, OutboundEvent};

/// An event's place in its publisher's batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchMember {
    pub tenant_id: TenantId,
    pub event_id: EventId,
    pub batch: BatchRef,
}

/// Tenant and batch.
pub type BatchKey = (TenantId, EventId);

/// The end that a member of a batch came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Posted,
    Rejected,
    Ignored,
}

impl Ending {
    pub const ALL: [Self; 3] = [Self::Posted, Self::Rejected, Self::Ignored];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Posted => "posted",
            Self::Rejected => "rejected",
            Self::Ignored => "ignored",
        }
    }
}

/// The progress of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The greatest that a member named.
    pub size: Option<i64>,
    pub posted: i64,
    pub rejected: i64,
    pub ignored: i64,
    pub completed: bool,
    pub revision: i64,
}

impl Progress {
    #[must_use]
    pub fn done(&self) -> i64 {
        self.posted + self.rejected + self.ignored
    }

    /// The number of members: as told, or as seen where more came than were told. None: nobody has said.
    #[must_use]
    pub fn total(&self) -> Option<i64> {
        self.size.map(|size| size.max(self.done()))
    }

    /// Adds `by` members to the counter of an ending.
    pub fn count(&mut self, ending: Ending, by: i64) {
        *match ending {
            Ending::Posted => &mut self.posted,
            Ending::Rejected => &mut self.rejected,
            Ending::Ignored => &mut self.ignored,
        } += by;
    }
}

/// A batch at one moment: for the mirror, for people, and for the announcement that it is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchProgress {
    pub tenant_id: TenantId,
    pub batch_id: EventId,
    pub progress: Progress,
}

impl BatchProgress {
    /// The event that tells the publisher; for a batch that is complete.
    #[must_use]
    pub fn announcement(&self, now: DateTime<Utc>) -> OutboundEvent {
        let Progress { posted, rejected, ignored, .. } = self.progress;
        let counts = BatchCounts { total: self.progress.done(), posted, rejected, ignored };
        outbound::batch_completed_event(self.tenant_id.as_str(), self.batch_id.as_str(), counts, now)
    }
}

/// The batches that some members belong to, as the ledger knows them.
#[derive(Default)]
pub struct Tally {
    pub batches: BTreeMap<BatchKey, Progress>,
    pub members: HashMap<(BatchKey, EventId), Ending>,
}
