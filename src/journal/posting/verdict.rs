//! The verdict on an event: how it ended, or that it waits.

use crate::domain::disposition::Failure;
use crate::domain::receipt::{Posted, Receipt};

/// The end of an event in its batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Posted(Receipt),
    /// The receipt is missing where Redis knew it and PostgreSQL was not asked.
    Duplicate(Option<Receipt>),
    Ignored,
    Held(Failure),
    Rejected {
        failure: Failure,
        /// The posting under the same event id, where that is the reason.
        posted: Option<Posted>,
    },
    /// It waited in the inbox, and somebody else has decided it meanwhile.
    Gone,
}
