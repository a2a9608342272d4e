//! Giving letters up, and retention. A filter or an age enters with what the person has seen and confirmed; how many went leaves.
//! Discarding needs a reason and deletes nothing; retention removes what is settled. More than a little needs a confirmation.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;

use super::look::LetterMoney;
use super::{Filter, parked, with_reason};
use crate::desk::{Desk, DeskError};
use crate::domain::operator::Operator;
use crate::parking::mend::{discard, prune};
use crate::platform::time;
use crate::store::dead_letters::{prunable, sums};

/// More than so many letters need a confirmation, whatever they are worth.
const LETTERS_FREE: i64 = 100;

/// The parked letters that a filter means now.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectedLetters {
    pub letters: i64,
    pub money: LetterMoney,
    /// The letters are too many, or worth too much, to be discarded without a confirmation.
    pub needs_confirmation: bool,
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
    /// Nothing is named, or the database is away.
    pub async fn letters_to_discard(&self, filter: &Filter, all: bool) -> Result<SelectedLetters, DeskError> {
        self.selected(&parked(filter, all)?).await
    }

    async fn selected(&self, filter: &Filter) -> Result<SelectedLetters, DeskError> {
        let money = LetterMoney(sums(&mut *self.postgres.pool.acquire().await?, filter).await?);
        let letters = money.letters();
        let most = Decimal::from(self.config.dlq.discard_amount_max);
        let is_dear = money.0.iter().any(|(_, _, amount)| amount.is_some_and(|amount| amount > most));
        Ok(SelectedLetters { letters, money, needs_confirmation: letters > LETTERS_FREE || is_dear })
    }

    /// Gives up exactly the letters that the person has seen, all of them or none.
    ///
    /// # Errors
    /// Nothing was discarded: nothing is named, there is no reason, they are too many or too dear and nobody has confirmed it, they are
    /// not as many as were seen, or the database is away.
    pub async fn discard_letters(&self, request: &DiscardLetters) -> Result<DiscardedLetters, DeskError> {
        let filter = parked(&request.filter, request.all)?;
        with_reason(&request.operator)?;
        let changed = || DeskError::Changed { what: "the selection".to_owned() };
        if !request.confirmed {
            let selected = self.selected(&filter).await?;
            if selected.letters != request.expected {
                return Err(changed());
            }
            if selected.needs_confirmation {
                let what = format!("{} letters are discarded for good", selected.letters);
                return Err(DeskError::NotConfirmed { what });
            }
        }
        let now = time::now();
        let discarded = discard(&self.postgres.pool, &filter, &request.operator, request.expected, now).await?;
        Ok(DiscardedLetters { discarded })
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
