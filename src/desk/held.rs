//! Held events: listed, and called back before their time. Held events come back by themselves; many at once are called back only
//! where somebody has seen how many there are.

use super::{Desk, DeskError, Page, log_act};
use crate::domain::ids::{EventId, TenantId};
use crate::domain::operator::Operator;
use crate::journal::held;
use crate::store::held::list;

pub use crate::journal::held::Released;
pub use crate::store::held::{HeldEvent, HeldFilter};

/// A page of held events, the next to come back first.
#[derive(Debug, Clone, serde::Serialize)]
pub struct HeldPage {
    pub held: Vec<HeldEvent>,
    /// All that match.
    pub total: i64,
}

/// The wish to call named events of one tenant back now.
#[derive(Debug, Clone)]
pub struct ReleaseEvents {
    pub operator: Operator,
    pub tenant: TenantId,
    pub events: Vec<EventId>,
}

/// The fate of each named event, in the order in which they were named.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleasedEvents {
    pub tenant_id: String,
    pub events: Vec<ReleasedEvent>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleasedEvent {
    pub event_id: String,
    pub outcome: Released,
}

/// The wish to call everything back that matches.
#[derive(Debug, Clone)]
pub struct ReleaseMatching {
    pub operator: Operator,
    pub filter: HeldFilter,
    /// Somebody has seen how many there are ([`Desk::count_held`]) and wants it.
    pub confirmed: bool,
}

/// The number of events that were called back, of those that were held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct ReleasedCount {
    pub released: u64,
    pub held: i64,
}

impl Desk {
    /// A page of held events.
    ///
    /// # Errors
    /// The database is away.
    pub async fn held(&self, filter: &HeldFilter, page: Page) -> Result<HeldPage, DeskError> {
        let mut db = self.postgres.pool.acquire().await?;
        let (held, total) = list(&mut db, filter, page.limit(), page.offset()).await?;
        Ok(HeldPage { held, total })
    }

    /// The number of held events that match.
    ///
    /// # Errors
    /// The database is away.
    pub async fn count_held(&self, filter: &HeldFilter) -> Result<i64, DeskError> {
        let (_, total) = list(&mut *self.postgres.pool.acquire().await?, filter, 0, 0).await?;
        Ok(total)
    }

    /// Calls named events back; each return uses up one of their attempts.
    ///
    /// # Errors
    /// The database is away; nothing was released.
    pub async fn release_events(&self, request: &ReleaseEvents) -> Result<ReleasedEvents, DeskError> {
        let outcomes =
            held::release_events(&self.postgres.pool, &request.tenant, &request.events, &request.operator).await?;
        let told = |(event, outcome): (&EventId, Released)| ReleasedEvent { event_id: event.to_string(), outcome };
        let events: Vec<ReleasedEvent> = request.events.iter().zip(outcomes).map(told).collect();
        let released = events.iter().filter(|event| event.outcome == Released::Now).count();
        log_act(&request.operator, &format!("released {released} held events of {}", request.tenant));
        Ok(ReleasedEvents { tenant_id: request.tenant.to_string(), events })
    }

    /// Calls everything back that matches; each return uses up one of their attempts.
    ///
    /// # Errors
    /// There are some and nobody has confirmed it, or the database is away, when some may have been released.
    pub async fn release_matching(&self, request: &ReleaseMatching) -> Result<ReleasedCount, DeskError> {
        let held = self.count_held(&request.filter).await?;
        if held > 0 && !request.confirmed {
            return Err(DeskError::NotConfirmed { what: format!("{held} held events would be released") });
        }
        let released = held::release_matching(&self.postgres.pool, &request.filter, &request.operator).await?;
        log_act(&request.operator, &format!("released {released} held events"));
        Ok(ReleasedCount { released, held })
    }
}
