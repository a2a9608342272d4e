//! What the relay has in the air, as pure logic: rows that were read enter, the rows to publish leave; outcomes enter, the rows
//! that are done leave. It reads no clock and no table, so that a model can drive it through late commits, crashes and
//! refusals. What must never happen: a row that is skipped for ever, a row called done that the broker has not
//! confirmed, a tenant's row published before an older one of that tenant that is still to be published.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use super::floor::Floor;
use crate::faults::mutants::{self, mutant};
use crate::platform::amqp::PublishOutcome;
use crate::store::outbox::OutboxRow;
pub use crate::store::outbox::{Horizon, Read};

/// A window leaves in so many parts: while the broker confirms one, the next is read and an older one is removed.
const PARTS: usize = 4;
/// Smaller parts would cost more round trips than they save waiting.
const PART_ROWS_MIN: usize = 50;
/// The bytes that a part may hold in memory, and that the broker can confirm well within the timeout. A part has at least one row,
/// since an entry may have ten thousand lines.
const PART_BYTES_MAX: i64 = 2 * 1024 * 1024;
/// The first and the longest pause of a tenant whose message was refused.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MOST: Duration = Duration::from_secs(5);

/// The facts of a row that the logic needs to know.
pub trait Row {
    fn id(&self) -> i64;
    /// Empty where the row belongs to nobody.
    fn tenant(&self) -> &str;
    fn bytes(&self) -> i64;
}

impl Row for OutboxRow {
    fn id(&self) -> i64 {
        self.id
    }

    fn tenant(&self) -> &str {
        self.tenant_id.as_deref().unwrap_or_default()
    }

    fn bytes(&self) -> i64 {
        self.bytes
    }
}

/// The outcome of a part.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PartOutcome {
    /// To be removed; after that, `removed` must be told.
    pub done: Vec<i64>,
    /// Came back or were refused, or stood behind such a row.
    pub again: usize,
}

/// One road's rows in the air. Times are durations since any fixed moment.
pub struct Flight {
    window: usize,
    part: usize,
    /// Published, outcome unknown; oldest first.
    parts: VecDeque<Vec<Seat>>,
    /// Published and not yet removed.
    aloft: HashSet<i64>,
    troubled: HashMap<String, Trouble>,
    floor: Floor,
    /// Rows below the floor are wanted, of a tenant that was left out.
    sweeping: bool,
    hungry: bool,
}

struct Seat {
    id: i64,
    tenant: String,
}

/// A tenant that waits. One row is tried after each pause; the others follow when it is confirmed.
struct Trouble {
    /// The first row that failed. Rows behind it are sent again after it.
    from: i64,
    pause: Duration,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting {
        until: Duration,
    },
    /// Its first row may be tried.
    Due,
    Trying,
}

impl Flight {
    #[must_use]
    pub fn new(window: usize) -> Self {
        Self::in_parts(window, (window / PARTS).max(PART_ROWS_MIN))
    }

    /// A window of so many rows, read and published in parts of so many.
    #[must_use]
    pub fn in_parts(window: usize, part: usize) -> Self {
        let window = window.max(1);
        Self {
            window,
            part: part.clamp(1, window),
            parts: VecDeque::new(),
            aloft: HashSet::new(),
            troubled: HashMap::new(),
            floor: Floor::default(),
            sweeping: false,
            hungry: true,
        }
    }

    /// There may be new rows.
    pub fn stir(&mut self) {
        self.hungry = true;
    }

    /// Looks at everything once more, below the floor too.
    pub fn sweep(&mut self) {
        self.sweeping = true;
        self.hungry = true;
    }

    /// Tells whether to ask the database for its transactions now.
    #[must_use]
    pub fn wants_horizon(&self, now: Duration) -> bool {
        self.hungry && self.floor.wants_horizon(now)
    }

    /// The transactions as they are now, after everything that was read and before everything that will be.
    pub fn horizon(&mut self, horizon: Horizon, now: Duration) {
        self.floor.horizon(horizon, now);
    }

    /// Nothing is in the air, and nothing is known that could be.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.hungry && self.aloft.is_empty() && self.parts.is_empty()
    }

    /// Tenants that wait because of a failure.
    #[must_use]
    pub fn troubled(&self) -> usize {
        self.troubled.len()
    }

    /// The time at which the next pause of a tenant ends.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Duration> {
        let pauses = self.troubled.values().filter_map(|trouble| match trouble.state {
            State::Waiting { until } => Some(until),
            State::Due | State::Trying => None,
        });
        pauses.min()
    }

    /// Plans the next read; `None`: nothing is to be read, until something is confirmed or stirs.
    pub fn next_read(&mut self, now: Duration) -> Option<Read> {
        self.end_pauses(now);
        if !self.hungry || self.aloft.len() + self.part > self.window {
            return None;
        }
        let silent = self.troubled.iter().filter(|(_, trouble)| trouble.state != State::Due);
        Some(Read {
            after: if self.sweeping && !mutant(mutants::RELAY_BY_ID_CURSOR) { 0 } else { self.floor.id() },
            limit: self.part,
            aloft: self.aloft.iter().copied().collect(),
            without: silent.map(|(tenant, _)| tenant.clone()).collect(),
        })
    }

    /// A pause ends when its time has come and nothing of the tenant is in the air: what was sent behind the failure would
    /// otherwise be taken for what is sent after it.
    fn end_pauses(&mut self, now: Duration) {
        let (parts, mut ended) = (&self.parts, false);
        for (tenant, trouble) in &mut self.troubled {
            if let State::Waiting { until } = trouble.state
                && until <= now
                && !parts.iter().flatten().any(|seat| seat.tenant == *tenant)
            {
                trouble.state = State::Due;
                ended = true;
            }
        }
        if ended {
            self.sweep();
        }
    }

    /// Takes what was read; leaves what is to be published now, in this order.
    pub fn take<R: Row>(&mut self, read: &Read, rows: Vec<R>) -> Vec<R> {
        let all = rows.len() < read.limit;
        let mut taken = Vec::with_capacity(rows.len());
        let (mut bytes, mut last, mut cut) = (0, read.after, false);
        for row in rows {
            if !self.aloft.contains(&row.id()) && self.may_leave(&row) {
                bytes += row.bytes();
                if bytes > PART_BYTES_MAX && !taken.is_empty() {
                    cut = true;
                    break;
                }
                if let Some(trouble) = self.troubled.get_mut(row.tenant()) {
                    trouble.state = State::Trying;
                }
                last = last.max(row.id());
                taken.push(row);
            } else {
                last = last.max(row.id());
            }
        }
        let all = all && !cut;
        self.floor.read_to(last, all);
        if all {
            // A tenant that could be tried and had no row is in no trouble any more.
            self.troubled.retain(|_, trouble| trouble.state != State::Due);
            self.hungry = false;
            self.sweeping = false;
        }
        taken
    }

    fn may_leave(&self, row: &impl Row) -> bool {
        self.troubled.get(row.tenant()).is_none_or(|trouble| trouble.state == State::Due)
    }

    /// Rows that were taken leave, except for those whose messages cannot be made, and what stands behind them.
    pub fn depart<R: Row>(&mut self, taken: Vec<R>, broken: &HashSet<i64>, now: Duration) -> Vec<R> {
        let mut seats = Vec::with_capacity(taken.len());
        let mut leaving = Vec::with_capacity(taken.len());
        for row in taken {
            if broken.contains(&row.id()) {
                self.fail(row.id(), row.tenant(), now);
            } else if self.is_before_trouble(row.id(), row.tenant()) {
                self.aloft.insert(row.id());
                seats.push(Seat { id: row.id(), tenant: row.tenant().to_owned() });
                leaving.push(row);
            }
        }
        if !seats.is_empty() {
            self.parts.push_back(seats);
        }
        leaving
    }

    /// Takes the outcomes of the oldest part's messages, and returns the outcome of the part.
    pub fn confirm(&mut self, outcomes: &[PublishOutcome], now: Duration) -> PartOutcome {
        let mut confirmed = PartOutcome::default();
        let seats = self.parts.pop_front().unwrap_or_default();
        let unknown = PublishOutcome::Refused;
        for (place, seat) in seats.iter().enumerate() {
            match outcomes.get(place).unwrap_or(&unknown) {
                PublishOutcome::Confirmed if self.is_before_trouble(seat.id, &seat.tenant) => {
                    self.end_trouble(&seat.tenant);
                    confirmed.done.push(seat.id);
                    continue;
                }
                // Sent again after what failed, so that a reader sees the order, if with repetitions.
                PublishOutcome::Confirmed => {}
                PublishOutcome::Returned(_) | PublishOutcome::Refused => self.fail(seat.id, &seat.tenant, now),
            }
            self.aloft.remove(&seat.id);
            confirmed.again += 1;
        }
        confirmed
    }

    /// These rows are gone from the table.
    pub fn removed(&mut self, done: &[i64]) {
        for id in done {
            self.aloft.remove(id);
        }
    }

    fn is_before_trouble(&self, id: i64, tenant: &str) -> bool {
        self.troubled.get(tenant).is_none_or(|trouble| trouble.state == State::Trying || id < trouble.from)
    }

    fn end_trouble(&mut self, tenant: &str) {
        if self.troubled.get(tenant).is_some_and(|trouble| trouble.state == State::Trying) {
            self.troubled.remove(tenant);
            // Its other rows were passed over.
            self.sweep();
        }
    }

    fn fail(&mut self, id: i64, tenant: &str, now: Duration) {
        let first = Trouble { from: id, pause: PAUSE_FIRST, state: State::Waiting { until: now + PAUSE_FIRST } };
        let trouble = self.troubled.entry(tenant.to_owned()).or_insert(first);
        match trouble.state {
            State::Waiting { .. } => trouble.from = trouble.from.min(id),
            State::Due | State::Trying => {
                trouble.from = id;
                trouble.pause = (trouble.pause * 2).min(PAUSE_MOST);
                trouble.state = State::Waiting { until: now + trouble.pause };
            }
        }
    }
}
