//! How much the broker may send ahead: batches enter, now and then a better bound leaves. It begins with what would fit if every message were as large
//! as can be, because nobody knows yet; as sizes are learned it grows to the usual bound, and under load beyond it, so that the next
//! batch is here while the last one commits. With large messages it shrinks, so that memory stays bounded.

use crate::platform::config;

/// Below this a lane would wait for the broker after every message.
const LEAST: u16 = 4;
/// The size of a message of which nothing is known: the largest that `ops/rabbitmq.conf` lets the broker take.
const UNKNOWN_BYTES: usize = 8 * 1024 * 1024;
/// So many batches in a row that leave the broker no room are load; one is a burst.
const BATCHES_OF_LOAD: u32 = 3;
/// The factor of one step in which the prefetch grows: each step costs the lane a moment without deliveries.
const STEP: u16 = 8;
/// Batches under way at once: what they hold together is what the broker waits for.
const UNDER_WAY: usize = 3;

#[derive(Debug)]
pub struct Prefetch {
    now: u16,
    /// The bound where sizes are known and there is no load.
    usual: u16,
    most: u16,
    bytes_max: usize,
    /// Bytes of a message: what the last batch says, or a slow mean where that is more.
    message_bytes: usize,
    /// The messages seen under the present bound.
    seen: usize,
    last: [usize; UNDER_WAY],
    full: u32,
}

impl Prefetch {
    #[must_use]
    pub fn new(config: &config::Intake) -> Self {
        let (usual, most) = (config.prefetch, config.prefetch_max.max(config.prefetch));
        let mut prefetch = Self {
            now: 0,
            usual,
            most,
            bytes_max: config.prefetch_bytes_max,
            message_bytes: 0,
            seen: 0,
            last: [0; UNDER_WAY],
            full: 0,
        };
        prefetch.now = prefetch.affordable(UNKNOWN_BYTES).min(usual);
        prefetch
    }

    /// The bound at which messages of this size fit the memory.
    fn affordable(&self, message_bytes: usize) -> u16 {
        let messages = self.bytes_max / message_bytes.max(1);
        u16::try_from(messages).unwrap_or(u16::MAX).clamp(LEAST.min(self.most), self.most)
    }

    #[must_use]
    pub fn now(&self) -> u16 {
        self.now
    }

    /// Learns from a batch; the bound that would be better, where it is worth the change.
    pub fn learn(&mut self, events: usize, bytes: usize) -> Option<u16> {
        let mean = bytes / events.max(1);
        self.message_bytes = mean.max((self.message_bytes.saturating_mul(7).saturating_add(mean)) / 8);
        self.seen = self.seen.saturating_add(events);
        let bound = self.affordable(self.message_bytes);
        self.last.rotate_left(1);
        self.last[UNDER_WAY - 1] = events;
        let under_way: usize = self.last.iter().sum();
        self.full = if under_way * 3 >= usize::from(self.now) * 2 { self.full + 1 } else { 0 };
        if self.now / 2 > bound {
            return Some(bound);
        }
        let most = if self.full >= BATCHES_OF_LOAD { bound } else { bound.min(self.usual) };
        let grown = self.now.saturating_mul(STEP).min(most);
        // As many messages as may be sent ahead have told their size.
        (self.seen >= usize::from(self.now) && grown > self.now).then_some(grown)
    }

    /// The change was made.
    pub fn set(&mut self, bound: u16) {
        self.now = bound;
        self.seen = 0;
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
    fn it_begins_with_what_fits_if_every_message_were_as_large_as_can_be() {
        let config = config::Intake::default();
        let mut prefetch = prefetch();
        assert!(usize::from(prefetch.now()) * UNKNOWN_BYTES <= config.prefetch_bytes_max);
        assert_eq!(prefetch.learn(1, UNKNOWN_BYTES), None, "and stays there if they are");
        assert!((0..100).all(|_| prefetch.learn(4, 4 * UNKNOWN_BYTES).is_none()));
        let roomy = config::Intake { prefetch_bytes_max: 1024 * 1024 * 1024, ..config };
        assert_eq!(Prefetch::new(&roomy).now(), 128);
    }

    #[test]
    fn it_is_at_its_usual_bound_after_two_steps_and_without_load_no_further() {
        let mut idle = prefetch();
        let mut steps = Vec::new();
        for _ in 0..1_000 {
            if let Some(bound) = idle.learn(1, 1_000) {
                idle.set(bound);
                steps.push(bound);
            }
        }
        assert_eq!(steps, [32, config::Intake::default().prefetch]);
    }

    #[test]
    fn one_large_batch_is_enough_to_shrink_it() {
        let mut prefetch = prefetch();
        prefetch.set(2000);
        assert!((0..100).all(|_| prefetch.learn(100, 100_000).is_none()));
        assert_eq!(prefetch.learn(1, UNKNOWN_BYTES), Some(LEAST));
    }

    #[test]
    fn it_grows_under_load_to_its_bound() {
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
