//! Giving letters up, taking that back, and retention. A filter, ids or an age enters with what the person has seen and confirmed; how many were moved
//! leaves. Discarding needs a reason and a confirmation and deletes nothing; retention removes what is settled.

use chrono::{DateTime, Utc};

use super::look::LetterMoney;
use super::{Filter, parked, with_reason};
use crate::desk::{Desk, DeskError};
use crate::domain::letter::LetterStatus;
use crate::domain::operator::Operator;
use crate::parking::mend::{discard, prune, restore};
use crate::platform::time;
use crate::store::dead_letters::{prunable, sums};

/// The parked letters that a filter means now.
#[derive(Debug, serde::Serialize)]
pub struct SelectedLetters {
    pub letters: i64,
    pub money: LetterMoney,
}

#[derive(Debug)]
pub struct DiscardLetters {
    pub filter: Filter,
    /// All that is parked is meant where the filter names nothing.
    pub all: bool,
    /// The number of letters that the person has seen.
    pub expected: i64,
    pub confirmed: bool,
    pub operator: Operator,
}

#[derive(Debug, serde::Serialize)]
pub struct DiscardedLetters {
    pub discarded: u64,
}

/// Discarded letters that are to be parked again.
#[derive(Debug)]
pub struct RestoreLetters {
    pub ids: Vec<String>,
    pub operator: Operator,
}

#[derive(Debug, serde::Serialize)]
pub struct RestoredLetters {
    pub restored: u64,
}

#[derive(Debug)]
pub struct PruneLetters {
    /// Letters that were settled before this moment go.
    pub before: DateTime<Utc>,
    pub confirmed: bool,
    pub operator: Operator,
}

#[derive(Debug, serde::Serialize)]
pub struct PrunedLetters {
    pub pruned: u64,
}

impl Desk {
    /// # Errors
    /// Nothing is named, a letter that is named does not exist, nothing parked is selected, or the database is away.
    pub async fn letters_to_discard(&self, filter: &Filter, all: bool) -> Result<SelectedLetters, DeskError> {
        let filter = parked(filter, all)?;
        self.named_letters(&filter.ids).await?;
        let money = LetterMoney(sums(&mut *self.postgres.pool.acquire().await?, &filter).await?);
        match money.letters() {
            0 => Err(super::nothing()),
            letters => Ok(SelectedLetters { letters, money }),
        }
    }

    /// Gives up exactly the letters that the person has seen, all of them or none.
    ///
    /// # Errors
    /// Nothing was discarded: nothing is named, a letter that is named does not exist, there is no reason, nobody has confirmed it, they are not as many
    /// as were seen, or the database is away.
    pub async fn discard_letters(&self, request: &DiscardLetters) -> Result<DiscardedLetters, DeskError> {
        let filter = parked(&request.filter, request.all)?;
        with_reason(&request.operator)?;
        self.named_letters(&filter.ids).await?;
        if !request.confirmed {
            return Err(DeskError::NotConfirmed { what: format!("{} letters are discarded", request.expected) });
        }
        let now = time::now();
        let discarded = discard(&self.postgres.pool, &filter, &request.operator, request.expected, now).await?;
        Ok(DiscardedLetters { discarded })
    }

    /// Parks discarded letters again, all of them or none.
    ///
    /// # Errors
    /// Nothing was restored: none is named, one does not exist or is not discarded, there is no reason, or the database is away.
    pub async fn restore_letters(&self, request: &RestoreLetters) -> Result<RestoredLetters, DeskError> {
        with_reason(&request.operator)?;
        if request.ids.is_empty() {
            return Err(DeskError::Invalid { why: "no letter is named".to_owned() });
        }
        let named = self.named_letters(&request.ids).await?;
        if let Some((id, status)) = named.iter().find(|(_, status)| *status != LetterStatus::Discarded) {
            let why = format!("dead letter {id} is {status}, not discarded; nothing was restored");
            return Err(DeskError::Refused { why });
        }
        let ids: Vec<String> = named.into_iter().map(|(id, _)| id).collect();
        Ok(RestoredLetters { restored: restore(&self.postgres.pool, &ids, &request.operator).await? })
    }

    /// The number of settled letters that retention would remove.
    ///
    /// # Errors
    /// The database is away.
    pub async fn prunable_letters(&self, before: DateTime<Utc>) -> Result<i64, DeskError> {
        Ok(prunable(&mut *self.postgres.pool.acquire().await?, before).await?)
    }

    /// Removes settled letters; open ones are never removed.
    ///
    /// # Errors
    /// There are some, and nobody has confirmed it; or the database is away, and what was removed until then is in the log.
    pub async fn prune_letters(&self, request: &PruneLetters) -> Result<PrunedLetters, DeskError> {
        if !request.confirmed {
            let letters = self.prunable_letters(request.before).await?;
            if letters > 0 {
                return Err(DeskError::NotConfirmed { what: format!("{letters} letters are removed") });
            }
        }
        let pruned = prune(&self.postgres.pool, request.before, &request.operator).await?;
        Ok(PrunedLetters { pruned })
    }
}
