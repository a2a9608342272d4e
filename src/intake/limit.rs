//! A limit on a tenant's events: a bucket that fills steadily and holds a second's worth. Events that are taken enter; how many may be taken, or how
//! long to wait for the next, leaves. What must never happen: more events leave than a second's worth and the limit times the time since.

use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The bucket's size, in time: whoever was silent may send so much at once.
const BURST: Duration = Duration::from_secs(1);
/// A bucket that was emptied is used again when it has filled for so long. One event at a time would cost a commit each.
const SLICE: Duration = Duration::from_millis(100);

/// A limit in events a second.
#[derive(Debug)]
pub struct Limit {
    pub per_second: NonZeroU32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The moment at which the bucket was empty if nothing was taken since. In the future while more was taken than it held.
    empty: Instant,
    /// The part of a second of waiting that is not told yet.
    waited: Duration,
}

impl Limit {
    /// A full bucket.
    #[must_use]
    pub fn new(per_second: NonZeroU32, now: Instant) -> Self {
        let empty = now.checked_sub(BURST).unwrap_or(now);
        Self { per_second, state: Mutex::new(State { empty, waited: Duration::ZERO }) }
    }

    /// The number of events that may be taken.
    ///
    /// # Errors
    /// Nothing may be taken for so long.
    pub fn room(&self, now: Instant) -> Result<usize, Duration> {
        let empty = self.state().empty;
        let filled = now.saturating_duration_since(empty).min(BURST);
        let enough = SLICE.max(self.time_of(1));
        if filled >= enough {
            return Ok(self.events_in(filled).max(1));
        }
        Err(empty.saturating_duration_since(now) + (enough - filled))
    }

    /// Takes events out, also more than there are: the next ones wait for longer.
    pub fn take(&self, events: usize, now: Instant) {
        let time = self.time_of(events);
        let mut state = self.state();
        let full = now.checked_sub(BURST).unwrap_or(state.empty);
        state.empty = state.empty.max(full) + time;
    }

    /// Adds a time that was waited; returns the whole seconds that nobody has told yet.
    pub fn waited(&self, time: Duration) -> u64 {
        let mut state = self.state();
        state.waited += time;
        let seconds = state.waited.as_secs();
        state.waited -= Duration::from_secs(seconds);
        seconds
    }

    /// The time in which so many events come in, rounded up.
    fn time_of(&self, events: usize) -> Duration {
        let nanos = (events as u128 * 1_000_000_000).div_ceil(u128::from(self.per_second.get()));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn events_in(&self, time: Duration) -> usize {
        let events = time.as_nanos() * u128::from(self.per_second.get()) / 1_000_000_000;
        usize::try_from(events).unwrap_or(usize::MAX)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(per_second: u32, now: Instant) -> Limit {
        Limit::new(NonZeroU32::new(per_second).unwrap(), now)
    }

    /// Whoever always takes all there is, gets the limit times the time and one burst.
    #[test]
    fn no_more_is_taken_than_the_limit_and_one_burst() {
        for per_second in [1, 3, 7, 500, 100_000] {
            let begun = Instant::now();
            let (limit, mut now, mut taken) = (limit(per_second, begun), begun, 0);
            while now < begun + Duration::from_secs(20) {
                match limit.room(now) {
                    Ok(events) => {
                        limit.take(events, now);
                        taken += events;
                    }
                    Err(wait) => now += wait,
                }
            }
            let (least, most) = (per_second as usize * 20 * 98 / 100, per_second as usize * 21);
            assert!((least..=most).contains(&taken), "{per_second}: {taken} is not from {least} to {most}");
        }
    }

    #[test]
    fn silence_fills_a_second_and_no_more() {
        let begun = Instant::now();
        let limit = limit(500, begun);
        assert_eq!(limit.room(begun), Ok(500));
        assert_eq!(limit.room(begun + Duration::from_secs(3600)), Ok(500));
    }

    #[test]
    fn an_empty_bucket_is_used_again_by_the_slice() {
        let begun = Instant::now();
        let limit = limit(500, begun);
        limit.take(500, begun);
        assert_eq!(limit.room(begun), Err(SLICE));
        assert_eq!(limit.room(begun + SLICE), Ok(50));
    }

    #[test]
    fn what_was_taken_too_much_is_waited_for() {
        let begun = Instant::now();
        let limit = limit(1, begun);
        limit.take(5, begun);
        assert_eq!(limit.room(begun), Err(Duration::from_secs(5)));
        assert_eq!(limit.room(begun + Duration::from_secs(5)), Ok(1));
    }

    #[test]
    fn waiting_is_told_in_whole_seconds_and_nothing_is_forgotten() {
        let limit = limit(1, Instant::now());
        let told: u64 = (0..25).map(|_| limit.waited(Duration::from_millis(300))).sum();
        assert_eq!(told, 7);
    }
}
