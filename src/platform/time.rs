//! The clock and the backoff: the only place where time is read.

use std::time::Duration;

use chrono::{DateTime, SubsecRound, Utc};

/// The time now, in microseconds: what PostgreSQL keeps, so that a value is the same after a round trip.
#[must_use]
pub fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(6)
}

/// Delays between attempts: doubling from `first` to `most`, with jitter so that instances do not march in step.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    #[must_use]
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, next: first }
    }

    /// The next delay, between half and the whole of the current step.
    pub fn delay(&mut self) -> Duration {
        let step = self.next;
        self.next = (self.next * 2).min(self.most);
        step / 2 + (step / 2).mul_f64(fastrand::f64()) // a share of a delay, never of money
    }

    /// The next delay after an attempt that held for a while. One that held for longer than any pause was well: what ended it is a
    /// new trouble.
    pub fn delay_after(&mut self, held: Duration) -> Duration {
        if held > self.most {
            self.reset();
        }
        self.delay()
    }

    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_grows_to_its_most_and_starts_again() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let delays: Vec<_> = (0..6).map(|_| backoff.delay()).collect();
        assert!(delays[0] <= Duration::from_millis(100) && delays[0] >= Duration::from_millis(50));
        assert!(delays[5] <= Duration::from_secs(1) && delays[5] >= Duration::from_millis(500));
        backoff.reset();
        assert!(backoff.delay() <= Duration::from_millis(100));
    }

    #[test]
    fn a_backoff_starts_again_after_an_attempt_that_held() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let short: Vec<_> = (0..6).map(|_| backoff.delay_after(Duration::from_millis(10))).collect();
        assert!(short[5] >= Duration::from_millis(500));
        assert!(backoff.delay_after(Duration::from_secs(3600)) <= Duration::from_millis(100));
    }
}
