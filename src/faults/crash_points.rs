//! Crash points: named places at the borders of the phases where a test may kill the process. Without the feature
//! `failpoints` a crash point is nothing at all.

macro_rules! crash_points {
    ($($name:ident $text:literal $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: &str = $text;)*
        /// Every crash point; each has a test.
        pub const ALL: &[&str] = &[$($text,)*];
    };
}

crash_points! {
    AFTER_CLAIM "after_claim" "The key says PROCESSING; nothing is written.";
    BEFORE_COMMIT "before_commit" "Everything is written, nothing is committed.";
    AFTER_COMMIT "after_commit" "Committed; Redis and the broker do not know.";
    AFTER_MARK "after_mark" "Redis says COMPLETED; the broker does not know.";
    AFTER_SETTLE "after_settle" "Acknowledged.";
    AFTER_PUBLISH "after_publish" "The relay's window is confirmed; its rows are still there.";
    AFTER_MIRROR "after_mirror" "The mirror's window is confirmed; its cursors have not moved.";
    AFTER_PARK "after_park" "Dead letters are committed, not acknowledged.";
    AFTER_CHOOSE "after_choose" "A selection is frozen; nobody has confirmed it.";
    BEFORE_START "before_start" "A replay is about to run, not committed.";
    AFTER_START "after_start" "A replay runs; the command does not know.";
    BEFORE_PAUSE "before_pause" "A replay is about to be paused, not committed.";
    AFTER_PAUSE "after_pause" "A replay is paused; the command does not know.";
    BEFORE_EDIT "before_edit" "An edit and its replay are written, not committed.";
    AFTER_EDIT "after_edit" "An edit and its replay are committed.";
    BEFORE_DISCARD "before_discard" "Discarded letters are written, not committed.";
    AFTER_DISCARD "after_discard" "Discarded letters are committed.";
    INBOX_READ "inbox_read" "Messages of the inbox are read; nothing is decided.";
    BEFORE_INBOX_COMMIT "before_inbox_commit" "A batch of the inbox is decided and written, not committed.";
    AFTER_INBOX_COMMIT "after_inbox_commit" "A batch of the inbox is committed; Redis does not know.";
    BEFORE_RELEASE "before_release" "Held events are called back, not committed.";
    AFTER_RELEASE "after_release" "Held events are called back.";
}

/// Dies here if the environment variable `FIS_FAILPOINT` names this point.
#[cfg(feature = "failpoints")]
pub fn crash_point(name: &str) {
    if std::env::var("FIS_FAILPOINT").is_ok_and(|wanted| wanted == name) {
        // As `kill -9`: no destructor runs, no buffer is flushed.
        std::process::abort();
    }
}

#[cfg(not(feature = "failpoints"))]
pub fn crash_point(_name: &str) {}

/// Dies at the sight of an event if `FIS_FAILPOINT` is `event:` and its id: what a fault of ours, met only by one event, does.
#[cfg(feature = "failpoints")]
pub fn crash_event(id: &str) {
    if std::env::var("FIS_FAILPOINT").is_ok_and(|wanted| wanted.strip_prefix("event:") == Some(id)) {
        std::process::abort();
    }
}

#[cfg(not(feature = "failpoints"))]
pub fn crash_event(_id: &str) {}
