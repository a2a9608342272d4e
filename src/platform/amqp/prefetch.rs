//! How much the broker may send ahead: batches enter, now and then a better bound leaves. Under load it grows, so that the
//! next batch is here while the last one commits; with large messages it shrinks, so that memory stays bounded.

use crate::platform::config;

/// Below this a lane would wait for the broker after every message.
const LEAST: u16 = 4;
/// So many batches in a row that leave the broker no room are load; one is a burst.
const BATCHES_OF_LOAD: u32 = 3;
/// The factor of one step in which the prefetch grows: each step costs the lane a moment without deliveries.
const STEP: u16 = 8;
/// Batches under way at once: what they hold together is what the broker waits for.
const UNDER_WAY: usize = 3;

#[derive(Debug)]
pub struct Prefetch {
    now: u16,
    most: u16,
    bytes_max: usize,
    /// Bytes of a message, as a slow mean.
    mean_bytes: usize,
    last: [usize; UNDER_WAY],
    full: u32,
}

impl Prefetch {
    #[must_use]
    pub fn new(config: &config::Intake) -> Self {
        let most = config.prefetch_max.max(config.prefetch);
        Self {
            now: config.prefetch,
            most,
            bytes_max: config.prefetch_bytes_max,
            mean_bytes: 0,
            last: [0; UNDER_WAY],
            full: 0,
        }
    }

    #[must_use]
    pub fn now(&self) -> u16 {
        self.now
    }

    /// Learns from a batch; the bound that would be better, where it is worth the change.
    pub fn learn(&mut self, events: usize, bytes: usize) -> Option<u16> {
        let mean = bytes / events.max(1);
        self.mean_bytes = if self.mean_bytes == 0 { mean } else { (self.mean_bytes * 7 + mean) / 8 };
        let affordable = self.bytes_max / self.mean_bytes.max(1);
        let bound = u16::try_from(affordable).unwrap_or(u16::MAX).clamp(LEAST.min(self.most), self.most);
        self.last.rotate_left(1);
        self.last[UNDER_WAY - 1] = events;
        let under_way: usize = self.last.iter().sum();
        self.full = if under_way * 3 >= usize::from(self.now) * 2 { self.full + 1 } else { 0 };
        if self.now / 2 > bound {
            return Some(bound);
        }
        let grown = self.now.saturating_mul(STEP).min(bound);
        (self.full >= BATCHES_OF_LOAD && grown > self.now).then_some(grown)
    }

    /// The change was made.
    pub fn set(&mut self, bound: u16) {
        self.now = bound;
        self.full = 0;
        self.last = [0; UNDER_WAY];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetch() -> Prefetch {
        Prefetch::new(&config::Intake::default())
    }

    #[test]
    fn it_grows_under_load_to_its_bound_and_stays_small_without() {
        let mut idle = prefetch();
        assert!((0..100).all(|_| idle.learn(10, 10_000).is_none()));
        let mut busy = prefetch();
        for _ in 0..100 {
            if let Some(bound) = busy.learn(usize::from(busy.now()), usize::from(busy.now()) * 1000) {
                busy.set(bound);
            }
        }
        assert_eq!(busy.now(), config::Intake::default().prefetch_max);
    }

    #[test]
    fn the_smallest_bound_that_may_be_configured_stays_as_it_is() {
        let config = config::Intake { prefetch: 1, prefetch_max: 1, ..config::Intake::default() };
        let mut prefetch = Prefetch::new(&config);
        assert!((0..10).all(|_| prefetch.learn(1, 1024 * 1024).is_none()));
    }

    #[test]
    fn large_messages_bound_the_bytes_that_are_under_way() {
        let mut prefetch = prefetch();
        let body = 1024 * 1024;
        for _ in 0..100 {
            if let Some(bound) = prefetch.learn(10, 10 * body) {
                prefetch.set(bound);
            }
        }
        assert!(usize::from(prefetch.now()) * body <= config::Intake::default().prefetch_bytes_max * 2);
        assert!(prefetch.now() >= LEAST);
    }
}
