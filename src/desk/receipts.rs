//! The fate of one event, from PostgreSQL alone. A tenant and an event id enter, everything that is written down about the event leaves.
//! An event that a rule ignores leaves no record: it is never told apart from one that never came.

use chrono::{DateTime, Utc};

use super::{Desk, DeskError};
use crate::domain::ids::{EventId, TenantId};
use crate::platform::time;
use crate::store::dead_letters::EventLetter;
use crate::store::held::HeldEvent;
use crate::store::receipts::{PostedEntry, account_of};

/// Everything that the ledger has written down about one event.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventReceipt {
    pub tenant_id: String,
    pub event_id: String,
    pub status: EventStatus,
    pub entry: Option<PostedEntry>,
    pub held: Option<HeldEvent>,
    /// The newest first.
    pub dead_letters: Vec<EventLetter>,
    /// The moment of the answer: an event that is due by then is on its way back.
    #[serde(skip)]
    pub at: DateTime<Utc>,
}

/// The state of an event. An event that is posted stays posted, whatever else came under the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventStatus {
    Posted,
    Held,
    Rejected,
    /// Never seen, or ignored by a rule.
    Unknown,
}

impl Desk {
    /// The receipt of one event; an unknown event has one, too.
    ///
    /// # Errors
    /// The database is away.
    pub async fn receipt(&self, tenant: &TenantId, event: &EventId) -> Result<EventReceipt, DeskError> {
        let account = account_of(&mut *self.postgres.pool.acquire().await?, tenant, event).await?;
        let status = if account.posted.is_some() {
            EventStatus::Posted
        } else if account.held.is_some() {
            EventStatus::Held
        } else if account.letters.is_empty() {
            EventStatus::Unknown
        } else {
            EventStatus::Rejected
        };
        Ok(EventReceipt {
            tenant_id: tenant.to_string(),
            event_id: event.to_string(),
            status,
            entry: account.posted,
            held: account.held,
            dead_letters: account.letters,
            at: time::now(),
        })
    }
}
