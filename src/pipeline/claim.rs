//! Phase 2: what Redis knows of a batch. Events enter; a verdict leaves for each event that is known to be posted, none for the others. No
//! answer of Redis, and no silence, can lose an event or post it twice.

use super::Pipeline;
use super::read::Event;
use crate::intake::claim::{self, Key};
use crate::intake::ledger::{Ledger, LedgerEpoch};
use crate::journal::Verdict;
use crate::platform::health::Part;
use crate::platform::redis::Redis;
use crate::platform::time;

/// The idempotency keys, and the name of the ledger that they speak of.
pub(super) struct Keys {
    pub redis: Redis,
    pub ledger: LedgerEpoch,
}

/// The answer of Redis for a batch.
pub(super) struct BatchClaims {
    /// The ledger that keys speak of; where it is not known, no key was believed.
    pub ledger: Ledger,
    /// By place in the batch.
    verdicts: Vec<Option<Verdict>>,
    /// Redis has not heard of a single one before.
    pub all_new: bool,
}

impl BatchClaims {
    /// The events that only PostgreSQL can decide.
    pub fn unknown<'e, 'a>(&self, events: &'e [Event<'a>]) -> Vec<&'e Event<'a>> {
        events.iter().zip(&self.verdicts).filter(|(_, verdict)| verdict.is_none()).map(|(event, _)| event).collect()
    }

    /// The verdicts of the whole batch, with those of the unknown events in their order.
    pub fn complete(self, of_unknown: Vec<Verdict>) -> Vec<Verdict> {
        let mut posted = of_unknown.into_iter();
        let missing = || unreachable!("every event was posted or known");
        self.verdicts.into_iter().map(|verdict| verdict.or_else(|| posted.next()).unwrap_or_else(missing)).collect()
    }
}

impl Pipeline {
    pub(super) async fn claim(&self, events: &[Event<'_>]) -> BatchClaims {
        let ledger = self.ledger().await;
        let (places, keys): (Vec<usize>, Vec<Key<'_>>) =
            events.iter().enumerate().filter_map(|(i, e)| Some((i, e.key()?))).unzip();
        let claim::Claims { known, all_new } = claim::claim(&self.keys.redis, &ledger, &keys, time::now()).await;
        let mut verdicts: Vec<Option<Verdict>> = vec![None; events.len()];
        for (place, _) in places.iter().zip(&known).filter(|(_, known)| **known) {
            // Only PostgreSQL knows whether its batch has counted it.
            if events.get(*place).is_some_and(|event| event.message.member().is_some()) {
                continue;
            }
            if let Some(verdict) = verdicts.get_mut(*place) {
                *verdict = Some(Verdict::Duplicate(None));
            }
        }
        BatchClaims { ledger, verdicts, all_new }
    }

    /// The ledger that keys speak of. While PostgreSQL is away nobody knows what will come back.
    pub(super) async fn ledger(&self) -> Ledger {
        if self.health.is_away(Part::Postgres) {
            return Ledger::default();
        }
        self.keys.ledger.ledger(&self.postgres, &self.keys.redis).await
    }
}
