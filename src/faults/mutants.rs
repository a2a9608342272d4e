//! Deliberate bugs, one at a time: with the feature `mutants` the environment variable `FIS_MUTANT` names the one to switch on.
//! They prove that the storm suite has teeth: each loses, doubles or reorders under faults, and must be caught. Without the
//! feature `mutant` is `false` at compile time, and nothing of them is left.

macro_rules! mutants {
    ($($name:ident $text:literal $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: &str = $text;)*
        /// Every mutant; each stands in the code.
        pub const ALL: &[&str] = &[$($text,)*];
    };
}

mutants! {
    ACK_BEFORE_COMMIT "ack_before_commit" "A batch is acknowledged before its transaction: a crash in between loses it.";
    HOLD_ACKED_BEFORE_COMMIT "hold_acked_before_commit" "The same, only for batches in which an event is about to be held.";
    PROCESSING_IS_DUPLICATE "processing_is_duplicate" "A key that says PROCESSING is believed: what comes again after a crash, or to be tried again, is dropped.";
    UNIQUE_DROPPED "unique_dropped" "Neither the look-up nor the constraint knows an event that is posted: one that comes again is posted twice.";
    HEAD_NOT_LOCKED "head_not_locked" "The heads are read without a lock: two batches take the same place in a chain.";
    RELAY_BY_ID_CURSOR "relay_by_id_cursor" "The relay reads on from the highest id: a row that commits late is passed over, and its tenant's next one overtakes it.";
    MARK_BEFORE_CONFIRM "mark_before_confirm" "Rows are removed as soon as they are sent: what the broker does not take is lost.";
    RETURN_IGNORED "return_ignored" "A message that came back counts as confirmed.";
    INBOX_REMOVED_EARLY "inbox_removed_early" "A held event is removed before the transaction that decides it: a crash in between loses it.";
    FORGED_KEY_BELIEVED "forged_key_believed" "A key that says COMPLETED is believed without its code: whoever can write to Redis loses events.";
    CONTENT_TYPE_IGNORED "content_type_ignored" "The content type is no part of a letter's id: of two events with the same bytes one letter is left.";
    HOLD_KNOWN_BY_ID "hold_known_by_id" "A hold is known by its event's id alone: other content under that id ends it, and what was held is lost.";
    FORGED_DEATH_BELIEVED "forged_death_believed" "A publisher's own record of a death is believed: one rejection makes a second letter under another routing key.";
    LEASE_IGNORED "lease_ignored" "Every instance runs every replay, and a step does not ask whether it was overtaken: places are counted twice.";
}

/// Tells whether this bug is switched on.
#[cfg(feature = "mutants")]
#[must_use]
pub fn mutant(name: &str) -> bool {
    static WANTED: std::sync::LazyLock<Option<String>> = std::sync::LazyLock::new(|| {
        let wanted = std::env::var("FIS_MUTANT").ok().filter(|wanted| !wanted.is_empty())?;
        // A misspelt one would be a mutant that nothing can catch.
        assert!(ALL.contains(&wanted.as_str()), "FIS_MUTANT must be one of {ALL:?}");
        Some(wanted)
    });
    WANTED.as_deref() == Some(name)
}

#[cfg(not(feature = "mutants"))]
#[must_use]
pub const fn mutant(_name: &str) -> bool {
    false
}
