//! How many letters of a replay are under way: about as many as the service gets through in a moment. The service gives way to live
//! traffic by itself; the window follows how fast letters come to their end, so that behind a service that takes its time nothing piles
//! up in the outbox and the broker, where it would cost the live lane time, and a stop takes effect at once.

use std::time::{Duration, Instant};

/// The service's time that the letters under way are worth. Longer than an idle road from step to outcome, or it would be the
/// window that limits the speed.
const WORTH: Duration = Duration::from_millis(500);
/// A speed is told by at least so long a time.
const SPAN: Duration = Duration::from_millis(150);
/// Enough to find out how fast it goes.
const LETTERS_MIN: i64 = 200;
/// The most letters under way, whatever the speed: a few windows of the relay.
pub const LETTERS_MAX: i64 = 20_000;

pub struct Window {
    letters: i64,
    /// Letters heard of, and when.
    heard: i64,
    since: Instant,
}

impl Window {
    pub fn new(heard: i64, now: Instant) -> Self {
        Self { letters: LETTERS_MIN, heard, since: now }
    }

    /// Opens a window as wide as it can be: nobody listens, so nothing is learned.
    pub fn open(now: Instant) -> Self {
        Self { letters: LETTERS_MAX, heard: i64::MAX, since: now }
    }

    pub fn letters(&self) -> i64 {
        self.letters
    }

    /// So many are heard of by now. At most twice and at least half as wide as before: one quiet moment is no measure.
    pub fn learn(&mut self, heard: i64, now: Instant) {
        let span = now.saturating_duration_since(self.since);
        if span < SPAN || self.heard == i64::MAX {
            return;
        }
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX).max(1);
        let worth = (heard - self.heard).max(0).saturating_mul(micros(WORTH)) / micros(span);
        self.letters = worth.clamp(self.letters / 2, self.letters * 2).clamp(LETTERS_MIN, LETTERS_MAX);
        (self.heard, self.since) = (heard, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that ends `rate` letters a second at most, each after `road` at the earliest; the window after so many spans.
    fn after(rate: i64, road: Duration, spans: i64) -> i64 {
        let mut now = Instant::now();
        let mut window = Window::new(0, now);
        let mut heard = 0;
        for _ in 0..spans {
            now += SPAN;
            let span = i64::try_from(SPAN.as_millis()).unwrap();
            let by_road = window.letters() * span / i64::try_from(road.as_millis()).unwrap();
            heard += by_road.min(rate * span / 1000);
            window.learn(heard, now);
        }
        window.letters()
    }

    #[test]
    fn the_window_follows_the_speed_of_the_service() {
        let road = Duration::from_millis(100);
        assert_eq!(after(4_000, road, 20), 2_000);
        assert_eq!(after(1_000, road, 20), 500);
        assert_eq!(after(10, road, 20), LETTERS_MIN);
        assert_eq!(after(1_000_000, road, 20), LETTERS_MAX);
    }

    #[test]
    fn a_quiet_moment_halves_the_window_and_no_more() {
        let start = Instant::now();
        let mut window = Window { letters: 2_000, heard: 0, since: start };
        window.learn(0, start + SPAN / 2);
        assert_eq!(window.letters(), 2_000, "too short to tell");
        window.learn(0, start + SPAN);
        assert_eq!(window.letters(), 1_000);
        window.learn(100_000, start + SPAN * 2);
        assert_eq!(window.letters(), 2_000);
    }

    #[test]
    fn where_nobody_listens_it_is_wide_and_stays_so() {
        let now = Instant::now();
        let mut window = Window::open(now);
        window.learn(0, now + SPAN);
        assert_eq!(window.letters(), LETTERS_MAX);
    }
}
