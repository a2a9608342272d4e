//! The log of rejections: an event and the reason why it is rejected enter; a line that names the event leaves, at most ten of a reason in a second, then one
//! line with the number of the others. What must never happen: a publisher's flood fills the disk, or a rejection is counted in no line.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::read::Event;
use crate::domain::disposition::{Failure, Reason};
use crate::intake::Lane;

/// The lines of one reason in one second: enough to see which events it is about.
const LINES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(1);

/// The lines of the last second, by reason.
#[derive(Default)]
pub(super) struct RejectionLog {
    windows: Mutex<BTreeMap<&'static str, Window>>,
}

struct Window {
    began: Instant,
    lines: u32,
    left_out: u64,
}

impl RejectionLog {
    /// Logs a rejection, or counts it.
    pub fn tell(&self, lane: Lane, event: &Event<'_>, failure: &Failure) {
        if self.may_tell(failure.reason, Instant::now()) {
            let (tenant, id, letter) = event.message.names();
            let whose = match (tenant, id) {
                (Some(tenant), Some(id)) => format!("event {id} of {tenant}"),
                (None, Some(id)) => format!("event {id} of no known tenant"),
                (Some(tenant), None) => format!("a message of {tenant} without an event id"),
                (None, None) => "a message that names neither tenant nor event".to_owned(),
            };
            let (tenant, id) = (tenant.unwrap_or_default(), id.unwrap_or_default());
            let (key, reason) = (event.message.routing_key(), failure.reason.code());
            tracing::warn!(
                tenant.id = tenant,
                event.id = id,
                dead_letter.id = letter,
                routing_key = key,
                lane = lane.name(),
                reason,
                "rejected {whose}: {failure}; see `fis dlq show {letter}`"
            );
        }
    }

    /// Logs what was left out in seconds that are over; at the end of the service, in the last one too.
    pub fn tell_left_out(&self, is_last: bool) {
        let now = Instant::now() + if is_last { WINDOW } else { Duration::ZERO };
        for (reason, left_out) in self.left_out(now) {
            tracing::warn!(reason, count = left_out, "rejected {left_out} more events: {reason}; see `fis dlq groups`");
        }
    }

    /// The first of a second may be told. A second is over when somebody asks for what was left out in it.
    fn may_tell(&self, reason: Reason, now: Instant) -> bool {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.entry(reason.code()).or_insert(Window { began: now, lines: 0, left_out: 0 });
        if window.lines < LINES_MAX {
            window.lines += 1;
            return true;
        }
        window.left_out += 1;
        false
    }

    fn left_out(&self, now: Instant) -> Vec<(&'static str, u64)> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = Vec::new();
        windows.retain(|reason, window| {
            let is_over = now.duration_since(window.began) >= WINDOW;
            if is_over && window.left_out > 0 {
                told.push((*reason, window.left_out));
            }
            !is_over
        });
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_of_a_reason_are_told_and_the_others_counted() {
        let (log, began) = (RejectionLog::default(), Instant::now());
        let told = |reason| (0..25).filter(|_| log.may_tell(reason, began)).count();
        assert_eq!((told(Reason::BadAmount), told(Reason::Unbalanced)), (10, 10));
        assert_eq!(log.left_out(began), [], "the second is not over");
        let later = began + WINDOW;
        assert_eq!(log.left_out(later), [("bad_amount", 15), ("unbalanced", 15)]);
        assert_eq!(log.left_out(later), []);
        assert!(log.may_tell(Reason::BadAmount, later));
    }
}
