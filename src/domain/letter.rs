//! The states of dead letters and of their replays, each with the one word by which the tables, the JSON answers and the command line
//! know it. A word enters, a state leaves, and the other way round; a word that no table may hold is refused.

/// An enum whose variants are stored, sent and shown as one word each.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$note:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$note])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// The state of a dead letter.
    pub enum LetterStatus {
        /// Waits for somebody.
        Parked = "parked",
        /// A replay has found that it may succeed later, and its event is held. A letter that is shown has this state also while a running
        /// replay has it before itself.
        Replaying = "replaying",
        /// In the books, or none of their business.
        Resolved = "resolved",
        /// Given up; it may be restored.
        Discarded = "discarded",
    }
}

impl LetterStatus {
    /// Open letters stand for money that is not in the books.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            Self::Parked | Self::Replaying => true,
            Self::Resolved | Self::Discarded => false,
        }
    }
}

words! {
    /// The way in which a letter was resolved.
    pub enum Resolution {
        Posted = "posted",
        /// Its event was in the books already.
        Duplicate = "duplicate",
        /// A rule ignores its event.
        Ignored = "ignored",
        /// Its publisher sent the event again, corrected, and that was posted.
        Superseded = "superseded",
    }
}

words! {
    /// The state of a replay.
    pub enum ReplayState {
        /// Shown, not yet confirmed.
        Chosen = "chosen",
        /// Confirmed; the service takes it.
        Running = "running",
        /// Halted by hand or by a limit; it may go on.
        Paused = "paused",
        /// Given up.
        Stopped = "stopped",
        /// Every place of its selection has a verdict.
        Done = "done",
    }
}

words! {
    /// The act that a line of the operators' log records.
    pub enum LetterAct {
        /// A message could not be booked, and is a letter now.
        Park = "park",
        /// A replay was started.
        Replay = "replay",
        Pause = "pause",
        Resume = "resume",
        Stop = "stop",
        /// A replayed letter may succeed later, and its event is held.
        Hold = "hold",
        Resolve = "resolve",
        /// A replayed letter was rejected again.
        Fail = "fail",
        /// A settled letter came again.
        Reopen = "reopen",
        Discard = "discard",
        /// A discarded letter was parked again by hand.
        Restore = "restore",
        Edit = "edit",
        /// An entry was booked from an edited copy.
        Book = "book",
        /// The letter came again, for another reason.
        Again = "again",
        /// Retention removed a settled letter.
        Prune = "prune",
        /// An entry was reversed by hand. This act and those below are about no letter.
        Revert = "revert",
        /// A publisher's batch was closed by hand.
        Close = "close",
        /// Held events were called back before their time.
        Release = "release",
        /// Announcements were sent again.
        Resend = "resend",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back_from_its_word_and_no_other() {
        for status in LetterStatus::ALL {
            assert_eq!(LetterStatus::parse(status.as_str()), Some(*status));
            let json = serde_json::to_string(status).unwrap();
            assert_eq!(json, format!("\"{status}\""));
            assert_eq!(serde_json::from_str::<LetterStatus>(&json).unwrap(), *status);
        }
        assert_eq!(LetterStatus::parse("Parked"), None);
        assert_eq!(format!("{:<9}|", ReplayState::Done), "done     |");
    }
}
