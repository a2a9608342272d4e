//! The pace of a replay: how many of its letters may be decided now. Its rate and the canary enter, a number leaves.

use std::time::{Duration, Instant};

use crate::store::replays::step::RunningReplay;

/// The canary's steps; the rest follows.
const CANARY: [i64; 3] = [1, 10, 100];

/// The most letters of the next step: those up to the canary's next border, `None` where it has passed them all. A letter that was skipped
/// proves nothing.
pub fn canary_step(replay: &RunningReplay) -> Option<i64> {
    let proven = replay.decided - replay.skipped;
    let mut border = 0;
    for size in CANARY.into_iter().filter(|_| replay.canary) {
        border += size;
        if proven < border {
            return Some(border - proven);
        }
    }
    None
}

/// `--rate`: at most a quarter of a second's worth at once.
#[derive(Debug)]
pub struct Pace {
    /// The letters that may be decided now, in parts of a `LETTER`.
    saved: i64,
    since: Instant,
}

/// One letter, in the unit that a rate per second earns in a microsecond.
const LETTER: i64 = 1_000_000;

impl Pace {
    pub fn new(now: Instant) -> Self {
        Self { saved: LETTER, since: now }
    }

    /// The letters that may be decided by now at this rate.
    pub fn allowed(&mut self, rate: i64, now: Instant) -> i64 {
        let elapsed = i64::try_from(now.saturating_duration_since(self.since).as_micros()).unwrap_or(i64::MAX);
        self.since = now;
        let most = (rate.saturating_mul(LETTER) / 4).max(LETTER);
        self.saved = self.saved.saturating_add(elapsed.saturating_mul(rate)).min(most);
        self.saved / LETTER
    }

    pub fn spent(&mut self, letters: i64) {
        self.saved = self.saved.saturating_sub(letters.saturating_mul(LETTER));
    }

    /// The time until the next letter may be decided.
    pub fn until_next(&self, rate: i64) -> Duration {
        let missing = (LETTER - self.saved).max(0);
        Duration::from_micros(u64::try_from(missing / rate.max(1)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(decided: i64, skipped: i64, canary: bool) -> RunningReplay {
        let (by, why) = (String::new(), String::new());
        RunningReplay { id: 1, by, why, letters: 5_000, canary, rate: None, decided, skipped }
    }

    #[test]
    fn the_canary_decides_one_then_ten_then_a_hundred_then_the_rest() {
        for (decided, skipped, step) in [
            (0, 0, Some(1)),
            (1, 0, Some(10)),
            (1, 1, Some(1)),
            (5, 1, Some(7)),
            (11, 0, Some(100)),
            (110, 0, Some(1)),
            (111, 0, None),
        ] {
            assert_eq!(canary_step(&replay(decided, skipped, true)), step, "{decided} decided, {skipped} skipped");
        }
        assert_eq!(canary_step(&replay(0, 0, false)), None);
    }

    #[test]
    fn a_pace_is_kept_and_saves_up_no_more_than_a_quarter_of_a_second() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!(pace.allowed(1_000, start), 1);
        pace.spent(1);
        assert_eq!(pace.allowed(1_000, start), 0);
        assert_eq!(pace.until_next(1_000), Duration::from_millis(1));
        assert_eq!(pace.allowed(1_000, start + Duration::from_millis(20)), 20);
        assert_eq!(pace.allowed(1_000, start + Duration::from_secs(60)), 250);
    }
}
