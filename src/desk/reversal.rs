//! A reversal by hand. An entry's place with who wants it reversed and why enters, its mirror leaves, posted like any other entry. An act
//! without a reason never gets this far: the reason becomes part of the entry's description.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;

use super::letters::BalanceChange;
use super::{Desk, DeskError, log_act};
use crate::domain::entry::Side;
use crate::domain::ids::{TenantId, entry_id};
use crate::domain::operator::{Operator, WHY_BYTES_MAX};
use crate::journal::{Reverse, Reversed, rehearse_revert, revert};
use crate::store::journal::pages::read_balances;

/// The wish to reverse one entry; its reason is one line that says something.
#[derive(Debug, Clone)]
pub struct RevertEntry {
    operator: Operator,
    tenant: TenantId,
    sequence: i64,
    date: Option<NaiveDate>,
    /// The date of the reversal that the person has seen.
    shown: Option<NaiveDate>,
}

impl RevertEntry {
    /// # Errors
    /// The reason is empty, or more than one line.
    pub fn new(
        operator: Operator,
        tenant: TenantId,
        sequence: i64,
        date: Option<NaiveDate>,
    ) -> Result<Self, DeskError> {
        let wrong = |why: String| Err(DeskError::Member { member: "why", why });
        if operator.why().is_empty() {
            return wrong("must say something".to_owned());
        }
        if operator.why().contains(char::is_control) {
            return wrong(format!("is one line of at most {WHY_BYTES_MAX} bytes"));
        }
        Ok(Self { operator, tenant, sequence, date, shown: None })
    }

    /// The wish of somebody who has seen what would be booked.
    #[must_use]
    pub fn confirmed(self, shown: &RehearsedReversal) -> Self {
        Self { shown: Some(shown.accounting_date), ..self }
    }

    fn order(&self) -> Reverse<'_> {
        Reverse { tenant: &self.tenant, seq: self.sequence, date: self.date, operator: &self.operator }
    }
}

/// The entry that reverses another one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reversal {
    pub entry_id: String,
    pub sequence: i64,
    pub hash: String,
    /// The id of the entry that was reversed.
    pub reverses: String,
    pub accounting_date: NaiveDate,
    pub date_reason: DateReason,
}

/// The cause of a reversal's date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DateReason {
    /// The operator has named it.
    Asked,
    /// The entry that is reversed has it, and its period is open.
    Original,
    /// The period of the entry is closed.
    Today,
    /// So is that of today, and the books move what is late.
    NextOpen,
}

/// A reversal as it would be booked now, and the balances of its accounts then.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RehearsedReversal {
    pub reverses: String,
    pub original_date: NaiveDate,
    pub original_description: String,
    pub accounting_date: NaiveDate,
    pub date_reason: DateReason,
    pub lines: Vec<ReversalLine>,
    pub balances: Vec<BalanceChange>,
}

#[derive(Debug, serde::Serialize)]
pub struct ReversalLine {
    pub account: String,
    pub side: Side,
    pub amount: String,
    pub currency: String,
}

impl Desk {
    /// Posts the mirror of an entry, takes that back, and says what it would have been.
    ///
    /// # Errors
    /// There is no such entry, it is reversed already, or the books do not allow it now.
    pub async fn rehearse_revert(&self, request: &RevertEntry) -> Result<RehearsedReversal, DeskError> {
        let RevertEntry { tenant, sequence, date, .. } = request;
        let reversed = rehearse_revert(&self.postgres.pool, &request.order()).await?;
        let original = self.entry(tenant, *sequence).await?;
        let line = |line: &crate::domain::entry::Line| ReversalLine {
            account: line.account.to_string(),
            side: line.side,
            amount: line.currency.text(line.amount),
            currency: line.currency.code().to_owned(),
        };
        Ok(RehearsedReversal {
            reverses: original.entry_id,
            original_date: reversed.original_date,
            original_description: original.description,
            accounting_date: reversed.entry.accounting_date,
            date_reason: date_reason(*date, &reversed),
            lines: reversed.entry.lines.iter().map(line).collect(),
            balances: self.balances_then(tenant, &reversed).await?,
        })
    }

    /// The balances of the accounts that a reversal would touch.
    async fn balances_then(&self, tenant: &TenantId, reversed: &Reversed) -> Result<Vec<BalanceChange>, DeskError> {
        let mut moved: BTreeMap<(String, String), (Decimal, Decimal)> = BTreeMap::new();
        for line in &reversed.entry.lines {
            let sums = moved.entry((line.account.to_string(), line.currency.code().to_owned())).or_default();
            match line.side {
                Side::Debit => sums.0 += line.amount,
                Side::Credit => sums.1 += line.amount,
            }
        }
        let now = read_balances(&mut *self.postgres.pool.acquire().await?, tenant).await?;
        let change = |((account, currency), (debit, credit)): ((String, String), (Decimal, Decimal))| {
            let is_it = |sum: &&crate::domain::trial_balance::AccountSum| {
                sum.account.as_str() == account && sum.currency.code() == currency
            };
            let balance_now = now.iter().find(is_it).map(|sum| sum.debit - sum.credit).unwrap_or_default();
            let (tenant_id, balance_then) = (tenant.to_string(), balance_now + debit - credit);
            BalanceChange { tenant_id, account, currency, balance_now, balance_then, debit, credit }
        };
        Ok(moved.into_iter().map(change).collect())
    }

    /// Posts the mirror of an entry.
    ///
    /// # Errors
    /// There is no such entry, it is reversed already, the books do not allow it now, or its date is not the one that was seen. Nothing is written
    /// then.
    pub async fn revert(&self, request: &RevertEntry) -> Result<Reversal, DeskError> {
        let RevertEntry { operator, tenant, sequence, date, shown } = request;
        let reversed = revert(&self.postgres.pool, &request.order(), *shown).await?;
        let receipt = &reversed.receipt;
        let reverses = entry_id(tenant, *sequence);
        log_act(operator, &format!("reversed {reverses} by {}", receipt.entry_id));
        Ok(Reversal {
            entry_id: receipt.entry_id.to_string(),
            sequence: receipt.seq,
            hash: receipt.hash.to_string(),
            reverses,
            accounting_date: reversed.entry.accounting_date,
            date_reason: date_reason(*date, &reversed),
        })
    }
}

fn date_reason(asked: Option<NaiveDate>, reversed: &Reversed) -> DateReason {
    let date = reversed.entry.accounting_date;
    if asked.is_some() {
        DateReason::Asked
    } else if date == reversed.original_date {
        DateReason::Original
    } else if date == reversed.today {
        DateReason::Today
    } else {
        DateReason::NextOpen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::operator::Through;

    #[test]
    fn a_reversal_without_a_reason_of_one_line_is_refused() {
        let asked = |why: &str| {
            let operator = Operator::new("anna", why, Through::CommandLine).unwrap();
            RevertEntry::new(operator, TenantId::parse("acme").unwrap(), 1, None)
        };
        assert!(asked("sent in error").is_ok());
        assert_eq!(asked(" ").unwrap_err().to_string(), "why must say something");
        assert_eq!(asked("a\nb").unwrap_err().to_string(), "why is one line of at most 500 bytes");
    }
}
