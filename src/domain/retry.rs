//! When a held event comes back. A policy and an attempt enter, a delay leaves: exponential, capped, jittered.

use std::time::Duration;

/// Defaults come from the configuration; a rule may override them.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    pub max_retries: u32,
    pub base_delay_seconds: u64,
    pub backoff_multiplier: f64, // a ratio of durations, never of money
    pub max_delay_seconds: u64,
    pub jitter_seconds: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 5,
            base_delay_seconds: 60,
            backoff_multiplier: 2.0,
            max_delay_seconds: 3600,
            jitter_seconds: 10,
        }
    }
}

/// More is a slip of the pen: a month of waiting, or a thousand tries.
const DELAY_SECONDS_MAX: u64 = 30 * 86_400;
const RETRIES_MAX: u32 = 1_000;

impl RetryPolicy {
    /// Tells the fault of a policy that somebody wrote down; the bounds are those of the configuration. Without them a
    /// due time could lie beyond what a calendar holds.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let delays = [self.base_delay_seconds, self.max_delay_seconds, self.jitter_seconds];
        if self.max_retries > RETRIES_MAX {
            Some("max_retries is at most 1000")
        } else if delays.iter().any(|delay| *delay > DELAY_SECONDS_MAX) {
            Some("delays and jitter are at most 2592000 seconds, which are 30 days")
        } else if !(1.0..=100.0).contains(&self.backoff_multiplier) {
            Some("backoff_multiplier is from 1 to 100")
        } else {
            None
        }
    }

    /// The same delays, without an end: for an event whose cause is nobody's but the ledger's own.
    #[must_use]
    pub fn without_end(&self) -> Self {
        Self { max_retries: u32::MAX, ..self.clone() }
    }

    /// The delay before retry number `attempt` (1 is the first), or `None` when the attempts are used up. `jitter` is
    /// a fraction of `jitter_seconds` in thousandths, chosen by the caller so that this stays a function.
    #[must_use]
    pub fn delay(&self, attempt: u32, max_attempts: Option<u32>, jitter: u64) -> Option<Duration> {
        let allowed = max_attempts.map_or(self.max_retries, |max| max.min(self.max_retries));
        if attempt > allowed {
            return None;
        }
        let cap = Duration::from_secs(self.max_delay_seconds);
        let mut delay = Duration::from_secs(self.base_delay_seconds);
        for _ in 1..attempt {
            if delay >= cap {
                break;
            }
            delay = Duration::try_from_secs_f64(delay.as_secs_f64() * self.backoff_multiplier).unwrap_or(cap).min(cap);
        }
        Some(delay.min(cap) + Duration::from_millis(self.jitter_seconds.saturating_mul(jitter.min(1000))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_cap_and_end() {
        let policy = RetryPolicy { max_delay_seconds: 300, ..RetryPolicy::default() };
        let seconds: Vec<_> = (1..=6).map(|n| policy.delay(n, None, 0).map(|d| d.as_secs())).collect();
        assert_eq!(seconds, [Some(60), Some(120), Some(240), Some(300), Some(300), None]);
        assert_eq!(policy.delay(1, None, 500), Some(Duration::from_secs(65)));
    }

    #[test]
    fn the_envelope_may_only_lower_the_number_of_attempts() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(3, Some(2), 0), None);
        assert_eq!(policy.delay(6, Some(100), 0), None);
    }
}
