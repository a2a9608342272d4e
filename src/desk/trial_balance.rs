//! The trial balance of one tenant. A date or a wish for the base currency enters; sums, totals and whether they may differ leave, all
//! of one moment. Totals that differ without a reason are named, never passed over.

use chrono::NaiveDate;
use sqlx::PgConnection;

use super::{Desk, DeskError, books_of};
use crate::domain::books::Books;
use crate::domain::ids::TenantId;
use crate::domain::trial_balance::{AccountSum, Total, TrialBalance};
use crate::journal::audit;
use crate::store;
use crate::store::journal::pages as report;

/// The sums that are asked for.
#[derive(Debug, Clone)]
pub struct TrialBalanceQuestion {
    pub tenant: TenantId,
    /// The last accounting date that counts; none: all count.
    pub as_of: Option<NaiveDate>,
    /// Sums in the base currency, one for each account.
    pub base: bool,
}

/// Sums of all accounts with their totals.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialBalanceSheet {
    pub tenant_id: String,
    pub as_of: Option<NaiveDate>,
    pub base_currency: &'static str,
    pub accounts: Vec<AccountRow>,
    pub totals: Vec<TotalRow>,
    #[serde(rename = "balanced", serialize_with = "is_balanced")]
    pub verdict: TotalsVerdict,
}

/// The sums of one account in one currency.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AccountRow {
    pub account: String,
    #[serde(rename = "accountName")]
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub currency: &'static str,
    pub debit: String,
    pub credit: String,
    /// Debit less credit.
    pub balance: String,
}

/// The sums of all accounts in one currency.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TotalRow {
    pub currency: &'static str,
    pub debit: String,
    pub credit: String,
    pub difference: String,
}

/// The meaning of the totals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TotalsVerdict {
    Balanced,
    /// Currencies differ because entries exchange one for another; each entry balances in the base currency.
    Exchanged,
    Broken(String),
}

fn is_balanced<S: serde::Serializer>(verdict: &TotalsVerdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(match verdict {
        TotalsVerdict::Balanced | TotalsVerdict::Exchanged => true,
        TotalsVerdict::Broken(_) => false,
    })
}

impl TrialBalanceQuestion {
    /// The kept balances answer this; else the lines are summed.
    fn is_kept(&self) -> bool {
        self.as_of.is_none() && !self.base
    }
}

impl Desk {
    /// The trial balance, whether or not it balances: the verdict says which.
    ///
    /// # Errors
    /// There is no such tenant, a total has too many digits to be exact, or the database is away.
    pub async fn trial_balance(&self, question: &TrialBalanceQuestion) -> Result<TrialBalanceSheet, DeskError> {
        let mut transaction = self.postgres.pool.begin().await?;
        // The books, the sums and what explains them are of one moment.
        store::read_one_moment(&mut transaction).await?;
        let books = books_of(&mut transaction, &question.tenant).await?;
        let base = question.base.then_some(books.base_currency);
        let sums = if question.is_kept() {
            report::read_balances(&mut transaction, &question.tenant).await?
        } else {
            report::sum_lines(&mut transaction, &question.tenant, question.as_of, base).await?
        };
        let trial = TrialBalance::new(sums).map_err(|error| DeskError::Refused { why: error.to_string() })?;
        let verdict = verdict(&mut transaction, question, &trial).await?;
        transaction.rollback().await?;
        Ok(TrialBalanceSheet {
            tenant_id: question.tenant.to_string(),
            as_of: question.as_of,
            base_currency: books.base_currency.code(),
            accounts: trial.sums.iter().map(|sum| account_row(sum, &books)).collect(),
            totals: trial.totals.iter().map(total_row).collect(),
            verdict,
        })
    }
}

/// Totals that differ are looked into: an entry may exchange currencies, and its rounding line stands in the base
/// currency alone, but it may never be out of balance itself.
async fn verdict(
    db: &mut PgConnection,
    question: &TrialBalanceQuestion,
    trial: &TrialBalance,
) -> Result<TotalsVerdict, DeskError> {
    let tenant = &question.tenant;
    if trial.is_balanced() {
        return Ok(TotalsVerdict::Balanced);
    }
    if let Some(seq) = report::find_unbalanced_entry(db, tenant, question.as_of).await? {
        return Ok(TotalsVerdict::Broken(format!("the lines of entry {tenant}/{seq} do not balance")));
    }
    if question.is_kept()
        && let Some(fault) = audit::balance_fault(db, tenant.as_str()).await?
    {
        return Ok(TotalsVerdict::Broken(fault));
    }
    Ok(if question.base {
        TotalsVerdict::Broken("debits and credits differ".to_owned())
    } else {
        TotalsVerdict::Exchanged
    })
}

fn account_row(sum: &AccountSum, books: &Books) -> AccountRow {
    let account = books.account(sum.account.as_str());
    AccountRow {
        account: sum.account.to_string(),
        name: account.map(|account| account.name.clone()).unwrap_or_default(),
        kind: account.map(|account| account.kind.as_str()).unwrap_or_default(),
        currency: sum.currency.code(),
        debit: sum.currency.text(sum.debit),
        credit: sum.currency.text(sum.credit),
        balance: sum.currency.text(sum.balance()),
    }
}

fn total_row(total: &Total) -> TotalRow {
    TotalRow {
        currency: total.currency.code(),
        debit: total.currency.text(total.debit),
        credit: total.currency.text(total.credit),
        difference: total.currency.text(total.difference()),
    }
}
