//! Lists and groups of dead letters. A filter enters; a page of letters, or what they have in common with the money that waits, leaves.
//! Nothing is changed.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::ser::{Serialize, SerializeSeq, Serializer};

use super::{Filter, Letter, Scope, Sort};
use crate::desk::{Desk, DeskError};
use crate::platform::time;
use crate::store::dead_letters::{self as read, GroupMoney, GroupName, Sums};

/// The most letters on one page: a page is held in memory.
const PAGE_MAX: i64 = 100_000;

/// Money by currency, and how many letters name it. Letters that name none are counted and left out of the JSON.
#[derive(Debug, Clone, Default)]
pub struct LetterMoney(pub Sums);

impl LetterMoney {
    /// The sum of several, by currency; what names none comes last.
    #[must_use]
    pub fn total<'a>(several: impl Iterator<Item = &'a Self>) -> Self {
        let mut total: Sums = Vec::new();
        for (currency, letters, amount) in several.flat_map(|money| &money.0) {
            match total.iter_mut().find(|(known, ..)| known == currency) {
                Some((_, count, sum)) => {
                    *count += letters;
                    *sum = match (*sum, *amount) {
                        (Some(sum), Some(amount)) => sum.checked_add(amount),
                        (sum, amount) => sum.or(amount),
                    };
                }
                None => total.push((currency.clone(), *letters, *amount)),
            }
        }
        total.sort_by(|(one, ..), (other, ..)| (one.is_none(), one).cmp(&(other.is_none(), other)));
        Self(total)
    }

    #[must_use]
    pub fn letters(&self) -> i64 {
        self.0.iter().map(|(_, letters, _)| letters).sum()
    }
}

#[derive(serde::Serialize)]
struct NamedMoney<'a> {
    currency: &'a str,
    letters: i64,
    amount: String,
}

impl Serialize for LetterMoney {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(None)?;
        for (currency, letters, amount) in &self.0 {
            if let (Some(currency), Some(amount)) = (currency, amount) {
                rows.serialize_element(&NamedMoney { currency, letters: *letters, amount: amount.to_string() })?;
            }
        }
        rows.end()
    }
}

/// A question for a page of letters.
#[derive(Debug, Clone)]
pub struct ListLetters {
    pub filter: Filter,
    pub sort: Sort,
    pub limit: i64,
    pub offset: i64,
}

/// A page of letters, and how many there are in all.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LetterPage {
    pub dead_letters: Vec<Letter>,
    pub total: i64,
}

/// Letters that fail for the same cause.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LetterGroup {
    pub group: String,
    pub reason: String,
    pub rule: Option<String>,
    pub fingerprint: String,
    pub letters: i64,
    pub money: LetterMoney,
    pub oldest: Option<DateTime<Utc>>,
    pub newest: Option<DateTime<Utc>>,
    /// Since this time yesterday, and in the day before.
    pub since_yesterday: i64,
    pub day_before: i64,
}

/// The groups of the open letters, largest first.
#[derive(Debug, serde::Serialize)]
pub struct LetterGroups {
    pub groups: Vec<LetterGroup>,
    /// The moment that ages are counted from.
    #[serde(skip)]
    pub at: DateTime<Utc>,
}

impl Desk {
    /// # Errors
    /// The page is too large, or the database is away.
    pub async fn list_letters(&self, request: &ListLetters) -> Result<LetterPage, DeskError> {
        let ListLetters { filter, sort, limit, offset } = request;
        if !(0..=PAGE_MAX).contains(limit) || *offset < 0 {
            return Err(DeskError::Invalid { why: format!("a page has 0 to {PAGE_MAX} letters, behind 0 or more") });
        }
        let mut db = self.postgres.pool.acquire().await?;
        let (dead_letters, total) = read::list(&mut db, filter, *sort, *limit, *offset).await?;
        Ok(LetterPage { dead_letters, total })
    }

    /// # Errors
    /// The database is away.
    pub async fn letter_groups(&self, filter: &Filter) -> Result<LetterGroups, DeskError> {
        let (filter, at) = (Filter { scope: Scope::Open, ..filter.clone() }, time::now());
        let mut db = self.postgres.pool.acquire().await?;
        let (names, money) = read::groups(&mut db, &filter, at).await?;
        let mut by_id: BTreeMap<String, Vec<GroupMoney>> = BTreeMap::new();
        for money in money {
            by_id.entry(money.group_id.clone()).or_default().push(money);
        }
        let one = |name: GroupName| {
            let money = by_id.remove(&name.group_id).unwrap_or_default();
            group(name, &money)
        };
        let mut groups: Vec<LetterGroup> = names.into_iter().map(one).collect();
        groups.sort_by_key(|group| (-group.letters, group.group.clone()));
        Ok(LetterGroups { groups, at })
    }
}

fn group(name: GroupName, money: &[GroupMoney]) -> LetterGroup {
    let sum = |count: fn(&GroupMoney) -> i64| -> i64 { money.iter().map(count).sum() };
    LetterGroup {
        group: name.group_id,
        reason: name.reason,
        rule: name.rule_name,
        fingerprint: name.fingerprint,
        letters: sum(|money| money.letters),
        money: LetterMoney(money.iter().map(|money| (money.currency.clone(), money.letters, money.amount)).collect()),
        oldest: money.iter().map(|money| money.oldest).min(),
        newest: money.iter().map(|money| money.newest).max(),
        since_yesterday: sum(|money| money.today),
        day_before: sum(|money| money.yesterday),
    }
}
