//! New books and dead letters. After books are applied, the letters whose cause has disappeared are offered: they run through the new
//! books for it, and are rolled back; they are replayed without a question only where the books say `auto_replay`. Before a period is
//! closed, the money that is dated in it and not in the books is told.

use std::collections::BTreeMap;

use super::look::LetterMoney;
use super::rehearse::waiting;
use super::{ChooseLetters, Filter, ReplayPace, ReplayReport, Scope, StartReplay, Watch};
use crate::desk::{Desk, DeskError};
use crate::domain::books::Books;
use crate::domain::disposition::Reason;
use crate::domain::ids::TenantId;
use crate::domain::operator::Operator;
use crate::domain::period::Period;
use crate::store::dead_letters::{Whole, dated_between, whole_page};

/// Letters that are tried: enough to tell, and a second's work.
const TRIED_MAX: i64 = 1_000;
/// Groups that are named.
const GROUPS_MAX: usize = 5;

/// A group of letters that would now be resolved.
#[derive(Debug, serde::Serialize)]
pub struct MendedGroup {
    pub group: String,
    pub letters: i64,
}

/// The letters of a tenant that would post under the books in force.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    /// Largest first; the smallest of many are left out.
    pub groups: Vec<MendedGroup>,
    /// False where there are so many letters that only the oldest were tried.
    pub all_tried: bool,
    /// The books ask for a replay without a question.
    pub replays: bool,
}

/// Money that is dated in a period and not in the books.
#[derive(Debug, serde::Serialize)]
pub struct OpenInPeriod {
    pub letters: LetterMoney,
    pub held: LetterMoney,
}

impl Desk {
    /// # Errors
    /// The database is away, or its books cannot be read.
    pub async fn offer_after_books(&self, books: &Books) -> Result<Offer, DeskError> {
        let (mut groups, all_tried) = self.mended(&books.tenant_id).await?;
        groups.truncate(GROUPS_MAX);
        Ok(Offer { groups, all_tried, replays: books.auto_replay })
    }

    /// Replays a group that the books have mended, with the canary and without a question: the books have said so.
    ///
    /// # Errors
    /// The books do not say so, or the database is away.
    pub async fn replay_mended(
        &self,
        books: &Books,
        group: &str,
        operator: &Operator,
        watch: &Watch<'_>,
    ) -> Result<ReplayReport, DeskError> {
        if !books.auto_replay {
            return Err(DeskError::NotConfirmed { what: format!("group {group} is replayed") });
        }
        let filter = Filter { group: Some(group.to_owned()), ..of_tenant(&books.tenant_id) };
        let manner = ReplayPace { canary: true, rate: None, max_failures: Some(0) };
        let chosen = ChooseLetters { filter, all: false, manner, operator: operator.clone() };
        let replay_id = self.choose_letters(&chosen).await?.replay_id;
        let start = StartReplay { replay_id, confirmed: true, operator: operator.clone() };
        self.start_replay(&start, watch).await
    }

    /// # Errors
    /// The database is away.
    pub async fn open_in_period(&self, tenant: &TenantId, period: &Period) -> Result<OpenInPeriod, DeskError> {
        let mut db = self.postgres.pool.acquire().await?;
        let [letters, held] = dated_between(&mut db, tenant.as_str(), (period.starts, period.ends)).await?;
        Ok(OpenInPeriod { letters: LetterMoney(letters), held: LetterMoney(held) })
    }

    /// The groups of the tenant's letters that would now be resolved, largest first, and whether all letters were tried.
    async fn mended(&self, tenant: &TenantId) -> Result<(Vec<MendedGroup>, bool), DeskError> {
        let tried = of_tenant(tenant);
        let mut letters = whole_page(&mut *self.postgres.pool.acquire().await?, &tried, None, TRIED_MAX).await?;
        let all_tried = i64::try_from(letters.len()).is_ok_and(|tried| tried < TRIED_MAX);
        letters.retain(may_be_mended);
        if letters.is_empty() {
            return Ok((Vec::new(), all_tried));
        }
        let messages: Vec<_> =
            letters.iter().map(|whole| waiting(&whole.letter, &whole.properties, whole.body.clone())).collect();
        let rehearsed = self.rehearse_messages(&messages).await?;
        let mut groups: BTreeMap<String, i64> = BTreeMap::new();
        for (whole, _) in letters.iter().zip(&rehearsed.would).filter(|(_, would)| **would) {
            *groups.entry(whole.letter.group_id.clone()).or_default() += 1;
        }
        let mut groups: Vec<MendedGroup> =
            groups.into_iter().map(|(group, letters)| MendedGroup { group, letters }).collect();
        groups.sort_by_key(|mended| (-mended.letters, mended.group.clone()));
        Ok((groups, all_tried))
    }
}

fn may_be_mended(whole: &Whole) -> bool {
    Reason::from_code(&whole.letter.reason).is_some_and(|reason| reason.next_step().books_may_mend())
}

fn of_tenant(tenant: &TenantId) -> Filter {
    Filter { scope: Scope::Parked, tenant: Some(tenant.to_string()), ..Filter::default() }
}
