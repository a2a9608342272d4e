//! Which part of the world is away. Whoever talks to a part says so here; `/readyz`, the metrics and the logs read it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::metrics;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Postgres,
    Redis,
    /// The connection that consumes.
    BrokerIn,
    /// The connection that publishes.
    BrokerOut,
    /// The second exchange of `outbox.mirror`; heard of only where that is on.
    Mirror,
}

impl Part {
    pub const ALL: [Self; 5] = [Self::Postgres, Self::Redis, Self::BrokerIn, Self::BrokerOut, Self::Mirror];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::BrokerIn => "broker-in",
            Self::BrokerOut => "broker-out",
            Self::Mirror => "mirror",
        }
    }

    /// Tells whether work stops without this part. Without Redis everything goes on, slower; without the mirror, the main feed alone.
    #[must_use]
    pub fn is_needed(self) -> bool {
        match self {
            Self::Redis | Self::Mirror => false,
            Self::Postgres | Self::BrokerIn | Self::BrokerOut => true,
        }
    }
}

/// Shared by all tasks; cloning shares it.
#[derive(Clone, Default)]
pub struct Health {
    /// Absent: not heard of yet. `None`: there. `Some`: away, and why.
    parts: Arc<Mutex<BTreeMap<Part, Option<String>>>>,
}

impl Health {
    pub fn away(&self, part: Part, why: &str) {
        self.set(part, Some(why.to_owned()));
    }

    pub fn back(&self, part: Part) {
        self.set(part, None);
    }

    #[must_use]
    pub fn is_away(&self, part: Part) -> bool {
        self.parts.lock().is_ok_and(|parts| matches!(parts.get(&part), Some(Some(_))))
    }

    /// Why it is away.
    #[must_use]
    pub fn why(&self, part: Part) -> Option<String> {
        self.parts.lock().ok()?.get(&part)?.clone()
    }

    /// Forgets a part that is no longer in use.
    pub fn forget(&self, part: Part) {
        let Ok(mut parts) = self.parts.lock() else { return };
        parts.remove(&part);
        metrics::part_away(part.name(), false);
    }

    fn set(&self, part: Part, state: Option<String>) {
        let Ok(mut parts) = self.parts.lock() else { return };
        let before = parts.get(&part);
        if before.map(Option::is_some) != Some(state.is_some()) {
            metrics::part_away(part.name(), state.is_some());
            match &state {
                Some(why) => tracing::warn!(part = part.name(), "{} is away: {why}", part.name()),
                None => tracing::info!(part = part.name(), "{} is there", part.name()),
            }
        }
        parts.insert(part, state);
    }

    /// Every part that is in use with what is known of it: `ok`, `starting`, or why it is away.
    #[must_use]
    pub fn report(&self) -> Vec<(&'static str, String)> {
        let parts = self.parts.lock().map(|parts| parts.clone()).unwrap_or_default();
        let state = |part: Part| match parts.get(&part) {
            None => "starting".to_owned(),
            Some(None) => "ok".to_owned(),
            Some(Some(why)) => format!("away: {why}"),
        };
        let in_use = |part: &Part| *part != Part::Mirror || parts.contains_key(part);
        Part::ALL.into_iter().filter(in_use).map(|part| (part.name(), state(part))).collect()
    }

    /// May this process take work?
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let Ok(parts) = self.parts.lock() else { return false };
        Part::ALL.into_iter().filter(|part| part.is_needed()).all(|part| matches!(parts.get(&part), Some(None)))
    }
}
