//! Dead letters at the desk: every question about them, and every act on them. A filter or a name enters with the operator and what
//! the person has confirmed; what was found, or what became of it, leaves. Looking never changes anything; an act that moves more than
//! it may without a confirmation does nothing, and money is never given up without a reason.

mod difference;
mod discard;
mod edit;
mod look;
mod offer;
mod rehearse;
mod remedy;
mod replay;
mod show;
mod watch;

pub use difference::{Difference, Mark};
pub use discard::{
    DiscardLetters, DiscardedLetters, PruneLetters, PrunedLetters, RestoreLetters, RestoredLetters, SelectedLetters,
};
pub use edit::{DraftEdit, EDITS_MAX, EditLetters, EditedLetters};
pub use look::{LetterGroup, LetterGroups, LetterMoney, LetterPage, ListLetters};
pub use offer::{MendedGroup, Offer, OpenInPeriod};
pub use rehearse::{BalanceChange, ReasonCount, Rehearsed};
pub use replay::{
    ChooseLetters, PauseReplay, ReplayReport, ReplaySelection, Replays, ResumeReplay, StartReplay, StopReplay,
};
pub use show::{LetterBody, LetterStory, WholeLetter, WholePage};
pub use watch::{End, Watch};

// The words of the store that a request or an answer is made of.
pub use crate::store::dead_letters::{Filter, Letter, Scope, Sort};
pub use crate::store::letter_edits::EditLine;
pub use crate::store::operator_log::LogLine;
pub use crate::store::replays::{Progress, ReplayLine, ReplayPace};

use super::{Desk, DeskError};
use crate::domain::letter::LetterStatus;
use crate::domain::operator::Operator;
use crate::store::dead_letters::statuses;

/// The parked letters that a request names; only those can be moved.
///
/// # Errors
/// Nothing is asked for, and all was not said.
fn parked(filter: &Filter, all: bool) -> Result<Filter, DeskError> {
    if filter.is_everything() && !all {
        return Err(DeskError::Invalid { why: "neither letters, nor a filter, nor all are named".to_owned() });
    }
    Ok(Filter { scope: Scope::Parked, ..filter.clone() })
}

impl Desk {
    /// The states of letters that are named by their ids.
    ///
    /// # Errors
    /// One of them does not exist, or the database is away.
    pub async fn named_letters(&self, ids: &[String]) -> Result<Vec<(String, LetterStatus)>, DeskError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let found = statuses(&mut *self.postgres.pool.acquire().await?, ids).await?;
        let is_missing = |id: &&String| !found.iter().any(|(known, _)| known == *id);
        let missing: Vec<String> = ids.iter().filter(is_missing).cloned().collect();
        if missing.is_empty() { Ok(found) } else { Err(DeskError::NoLetters { ids: missing }) }
    }
}

/// The error of an act whose selection is empty.
fn nothing() -> DeskError {
    DeskError::Missing { why: "nothing parked is selected; nothing was done".to_owned() }
}

/// # Errors
/// The act needs a reason, and none is given.
fn with_reason(operator: &Operator) -> Result<(), DeskError> {
    if operator.why().is_empty() {
        return Err(DeskError::Invalid { why: "the reason is empty; whoever asks later wants to know".to_owned() });
    }
    Ok(())
}
