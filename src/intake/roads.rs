//! The roads by which deliveries come: one for each queue, with a consumer, batches and an order of its own. The tenants with queues of their own enter; the
//! roads leave. A lane has one road, the live lane one more for each of those tenants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::Lane;
use super::limit::Limit;
use super::tenant_queues::{TenantQueue, TenantQueues};
use super::turns::Place;
use crate::domain::ids::TenantId;
use crate::platform::metrics;

/// A queue of the broker, as a part of its lane.
#[derive(Debug)]
pub struct Road {
    pub queue: String,
    /// The lane, and the place in it.
    pub place: Place,
    /// The tenant whose own queue this is.
    pub tenant: Option<TenantId>,
    pub limit: Option<Limit>,
    /// The queue may go at any time, when it is empty.
    pub is_left_over: bool,
}

impl Road {
    #[must_use]
    pub fn lane(&self) -> Lane {
        self.place.lane
    }

    /// The tenant's name, for a metric.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.tenant.as_ref().map(TenantId::as_str)
    }

    /// True for the queue of the live lane that all tenants share.
    #[must_use]
    pub fn is_front_door(&self) -> bool {
        self.lane() == Lane::Live && self.tenant.is_none()
    }

    /// The most deliveries that may wait here unsettled: a limited queue's would otherwise wait for minutes, and the broker only for thirty.
    #[must_use]
    pub fn prefetch_max(&self) -> u16 {
        self.limit.as_ref().map_or(u16::MAX, |limit| u16::try_from(limit.per_second.get()).unwrap_or(u16::MAX))
    }
}

/// Every road. The numbers of tenants' roads in their lane follow the front door's, which is 0.
#[must_use]
pub fn roads(tenants: &TenantQueues, left_over: Vec<TenantQueue>, now: Instant) -> Vec<Arc<Road>> {
    let lanes = Lane::CONSUMED.into_iter().filter_map(|lane| Some((lane, lane.queue()?)));
    let own = lanes.map(|(lane, queue)| Road {
        queue: queue.to_owned(),
        place: lane.into(),
        tenant: None,
        limit: None,
        is_left_over: false,
    });
    let named = tenants.iter().cloned().map(|queue| (queue, false));
    let queues = named.chain(left_over.into_iter().map(|queue| (queue, true)));
    let tenants = queues.enumerate().map(|(index, (queue, is_left_over))| Road {
        queue: queue.name(),
        place: Place { lane: Lane::Live, road: index + 1 },
        limit: queue.limit.map(|limit| Limit::new(limit, now)),
        tenant: Some(queue.tenant),
        is_left_over,
    });
    own.chain(tenants).map(Arc::new).collect()
}

/// The tenants with a queue of their own whose publishers do not use it.
#[derive(Debug, Default)]
pub struct Strays(BTreeMap<TenantId, AtomicBool>);

impl Strays {
    #[must_use]
    pub fn new(tenants: &TenantQueues) -> Self {
        Self(tenants.iter().map(|queue| (queue.tenant.clone(), AtomicBool::new(false))).collect())
    }

    /// Looks at an event that came by the front door. One of a tenant with a queue of its own, without the header that leads there, is counted;
    /// the first one is told.
    pub fn look(&self, tenant: &TenantId, header: Option<&str>) {
        let Some(is_told) = self.0.get(tenant) else { return };
        // One that has the header was in the queue before the tenant had its own.
        if header == Some(tenant.as_str()) {
            return;
        }
        metrics::stray(tenant.as_str());
        if !is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                tenant = %tenant,
                "tenant {tenant} has a queue of its own, but events of it come without the header x-fis-tenant: they share the front \
                 door with everybody's, and its limit does not hold for them"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_queue_is_one_more_road_of_the_live_lane() {
        let tenants = TenantQueues::parse("acme=7 globex").unwrap();
        let left_over = tenants.left_over(&["fis.tenant.queue.old".to_owned()]);
        let roads = roads(&tenants, left_over, Instant::now());
        let told: Vec<_> = roads.iter().map(|road| (road.queue.as_str(), road.lane(), road.place.road)).collect();
        assert_eq!(
            told,
            [
                ("fis.urgent.queue", Lane::Urgent, 0),
                ("fis.ingestion.queue", Lane::Live, 0),
                ("fis.backfill.queue", Lane::Backfill, 0),
                ("fis.tenant.queue.acme", Lane::Live, 1),
                ("fis.tenant.queue.globex", Lane::Live, 2),
                ("fis.tenant.queue.old", Lane::Live, 3),
            ]
        );
        assert_eq!(roads.iter().map(|road| road.prefetch_max()).min(), Some(7), "a second's worth waits at most");
        assert_eq!(roads.iter().filter(|road| road.is_front_door()).count(), 1);
        assert_eq!(roads.iter().filter(|road| road.is_left_over).count(), 1);
    }
}
