//! Which part of the world is away. Whoever talks to a part says so here; `/readyz`, the metrics and the logs read it. A server that is lost is
//! logged once, then at growing intervals, and once when it is back: whoever reads the log at night must find the other lines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use super::server_address::ServerAddress;
use super::{metrics, time};

/// An outage is logged again after this time, then after twice as long, and so on.
const REPEAT_FIRST: Duration = Duration::from_secs(60);
/// The longest time between two lines about one outage.
const REPEAT_MAX: Duration = Duration::from_secs(3600);

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

    /// The server behind the part; the two connections to the broker have the same.
    fn server(self) -> Server {
        match self {
            Self::Postgres => Server::Postgres,
            Self::Redis => Server::Redis,
            Self::BrokerIn | Self::BrokerOut => Server::Broker,
            Self::Mirror => Server::Mirror,
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

/// What an outage is logged for, once for all the parts that suffer from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Server {
    Postgres,
    Redis,
    Broker,
    Mirror,
}

/// The addresses of the servers, for the log.
#[derive(Debug, Clone)]
pub struct Servers {
    pub postgres: ServerAddress,
    pub redis: ServerAddress,
    pub broker: ServerAddress,
}

/// Shared by all tasks; cloning shares it.
#[derive(Clone, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
    servers: Option<Arc<Servers>>,
}

#[derive(Default)]
struct State {
    /// Absent: not heard of yet.
    parts: BTreeMap<Part, PartState>,
    outages: BTreeMap<Server, Outage>,
    /// The line that says it was logged.
    is_ready_told: bool,
    is_relaying: bool,
}

#[derive(Clone)]
enum PartState {
    There,
    Away { why: String, since: DateTime<Utc> },
}

impl PartState {
    fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. })
    }
}

/// An outage in the log.
struct Outage {
    began: Instant,
    told: Instant,
    repeat: Duration,
}

impl Health {
    #[must_use]
    pub fn of(servers: Servers) -> Self {
        Self { state: Arc::default(), servers: Some(Arc::new(servers)) }
    }

    /// A part cannot be used; `why` goes on after a colon.
    pub fn away(&self, part: Part, why: &str) {
        let Ok(mut state) = self.state.lock() else { return };
        let since = match state.parts.get(&part) {
            Some(PartState::Away { since, .. }) => *since,
            Some(PartState::There) | None => time::now(),
        };
        let before = state.parts.insert(part, PartState::Away { why: why.to_owned(), since });
        if !before.is_some_and(|before| before.is_away()) {
            metrics::part_away(part.name(), true);
        }
        self.tell_away(&mut state, part, why);
    }

    pub fn back(&self, part: Part) {
        let Ok(mut state) = self.state.lock() else { return };
        if matches!(state.parts.get(&part), Some(PartState::There)) {
            return;
        }
        state.parts.insert(part, PartState::There);
        metrics::part_away(part.name(), false);
        self.tell_back(&mut state, part);
        if !state.is_ready_told && state.is_ready() {
            state.is_ready_told = true;
            tracing::info!("ready");
        }
    }

    #[must_use]
    pub fn is_away(&self, part: Part) -> bool {
        self.state.lock().is_ok_and(|state| state.parts.get(&part).is_some_and(PartState::is_away))
    }

    /// Why it is away.
    #[must_use]
    pub fn why(&self, part: Part) -> Option<String> {
        match self.state.lock().ok()?.parts.get(&part)? {
            PartState::Away { why, .. } => Some(why.clone()),
            PartState::There => None,
        }
    }

    /// Forgets a part that is no longer in use.
    pub fn forget(&self, part: Part) {
        let Ok(mut state) = self.state.lock() else { return };
        state.parts.remove(&part);
        state.outages.remove(&part.server());
        metrics::part_away(part.name(), false);
    }

    /// This instance relays, or no longer does.
    pub fn relay(&self, is_relaying: bool) {
        metrics::relaying(is_relaying);
        if let Ok(mut state) = self.state.lock() {
            state.is_relaying = is_relaying;
        }
    }

    #[must_use]
    pub fn is_relaying(&self) -> bool {
        self.state.lock().is_ok_and(|state| state.is_relaying)
    }

    fn tell_away(&self, state: &mut State, part: Part, why: &str) {
        let (now, name) = (Instant::now(), self.name(part));
        match state.outages.get_mut(&part.server()) {
            None => {
                tracing::warn!(part = part.name(), "cannot use {name}: {why}");
                state.outages.insert(part.server(), Outage { began: now, told: now, repeat: REPEAT_FIRST });
            }
            Some(outage) if now.duration_since(outage.told) >= outage.repeat => {
                let seconds = outage.began.elapsed().as_secs();
                tracing::warn!(part = part.name(), "still cannot use {name} after {seconds} s: {why}");
                (outage.told, outage.repeat) = (now, (outage.repeat * 2).min(REPEAT_MAX));
            }
            Some(_) => tracing::debug!(part = part.name(), "still cannot use {name}: {why}"),
        }
    }

    fn tell_back(&self, state: &mut State, part: Part) {
        let is_away = |(other, state): (&Part, &PartState)| other.server() == part.server() && state.is_away();
        if state.parts.iter().any(is_away) {
            return;
        }
        let name = self.name(part);
        match state.outages.remove(&part.server()) {
            Some(outage) => {
                let seconds = outage.began.elapsed().as_secs();
                tracing::info!(part = part.name(), "{name} can be used again after {seconds} s");
            }
            None => tracing::debug!(part = part.name(), "{name} answers"),
        }
    }

    /// The server of a part, with its address where that is known.
    fn name(&self, part: Part) -> String {
        let Some(servers) = &self.servers else { return part.name().to_owned() };
        match part.server() {
            Server::Postgres => servers.postgres.to_string(),
            Server::Redis => servers.redis.to_string(),
            Server::Broker => servers.broker.to_string(),
            Server::Mirror => format!("the mirror on {}", servers.broker),
        }
    }

    /// Every part that is in use with what is known of it: `ok`, `starting`, or why it is away.
    #[must_use]
    pub fn report(&self) -> Vec<(&'static str, String)> {
        let parts = self.parts();
        let state = |part: Part| match parts.get(&part) {
            None => "starting".to_owned(),
            Some(PartState::There) => "ok".to_owned(),
            Some(PartState::Away { why, .. }) => format!("away: {why}"),
        };
        let in_use = |part: &Part| *part != Part::Mirror || parts.contains_key(part);
        Part::ALL.into_iter().filter(in_use).map(|part| (part.name(), state(part))).collect()
    }

    /// The parts that are away, and since when.
    #[must_use]
    pub fn away_since(&self) -> Vec<(&'static str, DateTime<Utc>)> {
        let since = |(part, state): (Part, PartState)| match state {
            PartState::Away { since, .. } => Some((part.name(), since)),
            PartState::There => None,
        };
        self.parts().into_iter().filter_map(since).collect()
    }

    fn parts(&self) -> BTreeMap<Part, PartState> {
        self.state.lock().map(|state| state.parts.clone()).unwrap_or_default()
    }

    /// May this process take work?
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state.lock().is_ok_and(|state| state.is_ready())
    }
}

impl State {
    fn is_ready(&self) -> bool {
        let is_there = |part: Part| matches!(self.parts.get(&part), Some(PartState::There));
        Part::ALL.into_iter().filter(|part| part.is_needed()).all(is_there)
    }
}
