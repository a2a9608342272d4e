//! Who posts next: batches of all lanes enter, as many as there are posters leave at a time. Mostly that is one: batches of
//! the same tenant wait for each other in PostgreSQL anyway, so the order in which they come to it is the lanes' priority.
//!
//! Start-time fair queueing: a lane's share of the events is its weight, as long as it has something to post; what it
//! leaves goes to the others; a lane that comes back is served next, and no lane starves. A batch of the backfill lane
//! delays an urgent one by at most the one that is being posted. The roads of a lane share its part equally, in the same way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::Lane;

/// One event of a lane with weight 1 takes this much of the common time; divisible by the usual weights.
const EVENT: u64 = 840;

/// A lane that was served within so many turns is at work.
const RECENT: u64 = 16;

/// A batch of more events than this was waited for by a backlog: its lane is after throughput, and the weights share that out.
const CROWD: usize = 50;

/// The behaviour of a lane towards the lanes of greater weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// None of them is at work.
    Free,
    /// One of them has a backlog: the turns share by weight. Its batches wait for whatever is being posted, so that should be short.
    Short,
    /// The lanes of greater weight have no backlog, and their events should not wait at all. They are due so many times the time this lane takes.
    Pausing(u32),
}

/// A batch's place before the posters: its lane, and the road in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub lane: Lane,
    pub road: usize,
}

impl From<Lane> for Place {
    /// The lane's own road.
    fn from(lane: Lane) -> Self {
        Self { lane, road: 0 }
    }
}

/// The queue before the posters.
#[derive(Clone)]
pub struct Turns(Arc<Mutex<State<oneshot::Sender<Turn>>>>);

/// The right to post, until dropped.
pub struct Turn(Turns);

impl Turns {
    #[must_use]
    pub fn new(posters: usize, weight: impl Fn(Lane) -> u16) -> Self {
        Self(Arc::new(Mutex::new(State::new(posters, weight))))
    }

    /// Waits for the turn of a batch. Dropping the future gives the place up.
    pub async fn wait(&self, place: Place, events: usize) -> Turn {
        let (sender, receiver) = oneshot::channel();
        let granted = self.state().enter(place, events, sender);
        self.give(granted);
        match receiver.await {
            Ok(turn) => turn,
            Err(_) => unreachable!("a sender is dropped only with its turn in it"),
        }
    }

    /// The precedence that the lanes of greater weight that are at work ask of this one.
    #[must_use]
    pub fn precedence(&self, lane: Lane) -> Precedence {
        self.state().precedence(lane)
    }

    /// A turn that nobody waits for any more comes back by being dropped, and goes to the next.
    fn give(&self, granted: Option<oneshot::Sender<Turn>>) {
        if let Some(sender) = granted {
            drop(sender.send(Turn(self.clone())));
        }
    }

    fn state(&self) -> MutexGuard<'_, State<oneshot::Sender<Turn>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let granted = self.0.state().leave();
        self.0.give(granted);
    }
}

/// The arithmetic, without waiting.
struct State<W> {
    free: usize,
    /// The common time: when the batch that was served last began.
    clock: u64,
    /// Turns that were granted.
    granted: u64,
    lanes: [Queue<W>; Lane::ALL.len()],
}

struct Queue<W> {
    weight: u64,
    /// The end of the lane's last batch, in the common time.
    end: u64,
    roads: Roads<W>,
    /// The number of its last turn; none yet is 0.
    served: u64,
    /// Its last batch was a large one.
    crowded: bool,
}

/// The roads of a lane, in a time of their own, which counts events.
struct Roads<W> {
    clock: u64,
    roads: Vec<Road<W>>,
}

struct Road<W> {
    end: u64,
    waiting: VecDeque<(u64, W)>,
}

impl<W> Roads<W> {
    fn enter(&mut self, road: usize, events: u64, waiting: W) {
        while self.roads.len() <= road {
            self.roads.push(Road { end: 0, waiting: VecDeque::new() });
        }
        if let Some(road) = self.roads.get_mut(road) {
            road.waiting.push_back((events.max(1), waiting));
        }
    }

    fn is_empty(&self) -> bool {
        self.roads.iter().all(|road| road.waiting.is_empty())
    }

    /// The batch that is next, and its events.
    fn next(&mut self) -> Option<(u64, W)> {
        let clock = self.clock;
        let begin = |road: &Road<W>| road.end.max(clock);
        // On a draw the lane's own road, which stands first.
        let next = self.roads.iter_mut().filter(|road| !road.waiting.is_empty()).min_by_key(|road| begin(road))?;
        let (events, waiting) = next.waiting.pop_front()?;
        self.clock = begin(next);
        next.end = self.clock.saturating_add(events);
        Some((events, waiting))
    }
}

impl<W> State<W> {
    fn new(posters: usize, weight: impl Fn(Lane) -> u16) -> Self {
        let queue = |lane| Queue {
            weight: u64::from(weight(lane)).max(1),
            end: 0,
            roads: Roads { clock: 0, roads: Vec::new() },
            served: 0,
            crowded: false,
        };
        Self { free: posters.max(1), clock: 0, granted: 0, lanes: Lane::ALL.map(queue) }
    }

    /// A batch comes; whose turn it is now, if that changed.
    fn enter(&mut self, place: impl Into<Place>, events: usize, waiting: W) -> Option<W> {
        let Place { lane, road } = place.into();
        let queue = self.lanes.iter_mut().zip(Lane::ALL).find(|(_, name)| *name == lane).map(|(queue, _)| queue)?;
        queue.roads.enter(road, u64::try_from(events).unwrap_or(u64::MAX), waiting);
        queue.crowded = events > CROWD;
        self.grant()
    }

    /// The batch that was served is done; whose turn it is now.
    fn leave(&mut self) -> Option<W> {
        self.free += 1;
        self.grant()
    }

    fn grant(&mut self) -> Option<W> {
        if self.free == 0 {
            return None;
        }
        let clock = self.clock;
        let begin = |queue: &Queue<W>| queue.end.max(clock);
        // On a draw the lane of the higher priority, which stands first.
        let next = self.lanes.iter_mut().filter(|queue| !queue.roads.is_empty()).min_by_key(|queue| begin(queue))?;
        let (events, waiting) = next.roads.next()?;
        self.clock = begin(next);
        next.end = self.clock.saturating_add((events.saturating_mul(EVENT) / next.weight).max(1));
        self.granted += 1;
        next.served = self.granted;
        self.free -= 1;
        Some(waiting)
    }

    fn precedence(&self, lane: Lane) -> Precedence {
        let own = self.lanes.iter().zip(Lane::ALL).find(|(_, name)| *name == lane).map_or(1, |(queue, _)| queue.weight);
        let is_at_work = |queue: &&Queue<W>| queue.served > 0 && queue.served + RECENT > self.granted;
        let (mut weight, mut crowded) = (0, false);
        for queue in self.lanes.iter().filter(|queue| queue.weight > own).filter(is_at_work) {
            weight += queue.weight;
            crowded |= queue.crowded;
        }
        match (weight, crowded) {
            (0, _) => Precedence::Free,
            (_, true) => Precedence::Short,
            (_, false) => Precedence::Pausing(u32::try_from(weight.div_ceil(own)).unwrap_or(u32::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(lane: Lane) -> u16 {
        match lane {
            Lane::Urgent => 8,
            Lane::Live => 4,
            Lane::Backfill | Lane::Inbox => 1,
        }
    }

    /// Every lane of `busy` always has a batch of 500 waiting; events served per lane in 1,300 turns.
    fn served(busy: &[Lane]) -> [usize; 4] {
        let mut state = State::new(1, weights);
        let mut counts = [0; 4];
        let mut turn = None;
        for lane in busy {
            turn = turn.or(state.enter(*lane, 500, *lane));
        }
        for _ in 0..1300 {
            let lane = turn.expect("somebody waits");
            counts[Lane::ALL.iter().position(|other| *other == lane).expect("known")] += 500;
            assert!(state.enter(lane, 500, lane).is_none(), "one at a time");
            turn = state.leave();
        }
        counts
    }

    #[test]
    fn under_contention_the_lanes_share_by_their_weights() {
        let [urgent, live, backfill, inbox] = served(&Lane::ALL);
        assert!(urgent.abs_diff(backfill * 8) <= 8 * 500, "{urgent} {live} {backfill}");
        assert!(live.abs_diff(backfill * 4) <= 4 * 500, "{urgent} {live} {backfill}");
        assert!(inbox.abs_diff(backfill) <= 500, "{backfill} {inbox}");
        assert!(backfill > 0, "no lane starves");
    }

    #[test]
    fn what_an_idle_lane_leaves_goes_to_the_others() {
        let [urgent, live, backfill, _] = served(&[Lane::Live, Lane::Backfill]);
        assert_eq!(urgent, 0);
        assert!(live.abs_diff(backfill * 4) <= 4 * 500, "{live} {backfill}");
        assert_eq!(served(&[Lane::Backfill])[2], 1300 * 500);
    }

    #[test]
    fn a_long_backfill_delays_live_traffic_by_one_batch() {
        let mut state = State::new(1, weights);
        assert_eq!(state.enter(Lane::Backfill, 500, "b0"), Some("b0"));
        for _ in 0..2000 {
            state.enter(Lane::Backfill, 500, "b");
            assert_eq!(state.leave(), Some("b"));
        }
        state.enter(Lane::Backfill, 500, "b");
        state.enter(Lane::Live, 1, "live");
        state.enter(Lane::Urgent, 1, "urgent");
        assert_eq!(state.leave(), Some("urgent"));
        assert_eq!(state.leave(), Some("live"));
        assert_eq!(state.leave(), Some("b"));
    }

    #[test]
    fn a_tenants_long_backlog_delays_the_front_door_by_one_batch_and_not_the_other_way_round() {
        let own = Place { lane: Lane::Live, road: 1 };
        let mut state = State::new(1, weights);
        assert_eq!(state.enter(own, 500, "own"), Some("own"));
        for _ in 0..2000 {
            state.enter(own, 500, "own");
            assert_eq!(state.leave(), Some("own"));
        }
        state.enter(own, 500, "own");
        state.enter(Lane::Live, 1, "front");
        assert_eq!(state.leave(), Some("front"), "before the backlog's next batch");
        assert_eq!(state.leave(), Some("own"));
        // Beside a backlog at the front door the tenant gets as much as that.
        let mut counts = [0_usize; 2];
        state.enter(Lane::Live, 100, "front");
        state.enter(own, 500, "own");
        for _ in 0..1200 {
            let is_front = state.leave().expect("somebody waits") == "front";
            counts[usize::from(is_front)] += if is_front { 100 } else { 500 };
            if is_front {
                state.enter(Lane::Live, 100, "front")
            } else {
                state.enter(own, 500, "own")
            };
        }
        assert!(counts[0].abs_diff(counts[1]) <= 600, "{counts:?}: a batch of each at most");
    }

    #[test]
    fn a_lane_of_many_roads_has_the_share_of_one_lane() {
        let mut state = State::new(1, weights);
        let mut turn = state.enter(Lane::Urgent, 100, None);
        for road in 0..17 {
            turn = turn.or(state.enter(Place { lane: Lane::Live, road }, 100, Some(road)));
        }
        let (mut urgent, mut live) = (0, [0; 17]);
        for _ in 0..5100 {
            let served = turn.expect("somebody waits");
            match served {
                None => urgent += 1,
                Some(road) => live[road] += 1,
            }
            let place = served.map_or(Lane::Urgent.into(), |road| Place { lane: Lane::Live, road });
            assert!(state.enter(place, 100, served).is_none(), "one at a time");
            turn = state.leave();
        }
        assert!(3400_usize.abs_diff(urgent) <= 2, "{urgent}: twice the weight of the live lane");
        assert!(live.iter().all(|count| 100_usize.abs_diff(*count) <= 1), "{live:?}");
    }

    #[test]
    fn a_lane_gives_way_while_one_above_it_is_at_work_and_not_for_ever() {
        let mut state = State::new(1, weights);
        state.enter(Lane::Backfill, 500, ());
        let ways = |state: &State<()>| Lane::ALL.map(|lane| state.precedence(lane));
        assert_eq!(ways(&state), [Precedence::Free; 4]);
        state.enter(Lane::Live, 1, ());
        state.leave();
        assert_eq!(
            ways(&state),
            [Precedence::Free, Precedence::Free, Precedence::Pausing(4), Precedence::Pausing(4)],
            "the weight of the one over that of the other"
        );
        state.enter(Lane::Urgent, 1, ());
        state.leave();
        let lowest = Precedence::Pausing(12);
        assert_eq!(ways(&state), [Precedence::Free, Precedence::Pausing(2), lowest, lowest]);
        for _ in 0..RECENT {
            state.enter(Lane::Backfill, 500, ());
            state.leave();
        }
        assert_eq!(ways(&state), [Precedence::Free; 4]);
    }

    #[test]
    fn beside_a_backlog_of_another_lane_the_weights_share_and_nobody_pauses() {
        let mut state = State::new(1, weights);
        state.enter(Lane::Live, 500, ());
        assert_eq!(state.precedence(Lane::Backfill), Precedence::Short);
        state.leave();
        state.enter(Lane::Live, 5, ());
        assert_eq!(state.precedence(Lane::Backfill), Precedence::Pausing(4), "the backlog is gone");
    }

    #[tokio::test]
    async fn a_turn_that_nobody_waits_for_goes_to_the_next() {
        let turns = Turns::new(1, weights);
        let first = turns.wait(Lane::Live.into(), 1).await;
        {
            let gone = turns.wait(Lane::Urgent.into(), 1);
            tokio::pin!(gone);
            assert!(futures::poll!(&mut gone).is_pending());
        }
        let next = turns.wait(Lane::Backfill.into(), 1);
        tokio::pin!(next);
        assert!(futures::poll!(&mut next).is_pending());
        drop(first);
        next.await;
    }
}
