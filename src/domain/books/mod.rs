//! A tenant's books: chart of accounts, periods, rates and rules. A TOML text enters, compiled books leave, or every
//! mistake at once. Books that would let an event be booked in two ways, or to an account that does not exist,
//! are never made.

mod cause;
mod compile_rule;
mod fields;
mod file;
mod index;
mod mistake;
mod outline;
mod plan;
mod rule;
mod source;
mod topic;

use std::collections::HashMap;

use chrono::{DateTime, NaiveDate, Utc};

use super::disposition::{Failure, Reason};
use super::event::InboundEvent;
use super::expr::Scope;
use super::fx::Rates;
use super::ids::{AccountCode, TenantId};
use super::money::Currency;
use super::period::Calendar;
use super::retry::RetryPolicy;
use index::RuleIndex;
pub use mistake::{Mistake, Position};
pub use outline::Thing;
pub use plan::{Act, Change, Detail, Plan};
pub use rule::{Mapped, ReversalRequest, Rule};
use rule::{occurred_text, scope};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountType {
    Asset,
    Liability,
    Equity,
    Income,
    Expense,
}

impl AccountType {
    /// The words of the books file.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("asset", Self::Asset),
        ("liability", Self::Liability),
        ("equity", Self::Equity),
        ("income", Self::Income),
        ("expense", Self::Expense),
    ];

    /// Words that people use for them, for a suggestion.
    pub const OTHER_WORDS: [(&'static str, &'static str); 16] = [
        ("bank", "asset"),
        ("cash", "asset"),
        ("receivable", "asset"),
        ("liabilities", "liability"),
        ("debt", "liability"),
        ("loan", "liability"),
        ("payable", "liability"),
        ("capital", "equity"),
        ("earnings", "income"),
        ("revenue", "income"),
        ("revenues", "income"),
        ("sales", "income"),
        ("turnover", "income"),
        ("cost", "expense"),
        ("costs", "expense"),
        ("spending", "expense"),
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asset => "asset",
            Self::Liability => "liability",
            Self::Equity => "equity",
            Self::Income => "income",
            Self::Expense => "expense",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Account {
    pub code: AccountCode,
    pub name: String,
    pub kind: AccountType,
    /// Only this currency, where set.
    pub currency: Option<Currency>,
    pub closed: bool,
}

/// The fate of an event that no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmatched {
    Reject,
    Ignore,
}

/// The books' answer for one event.
#[derive(Debug)]
pub struct Considered<'b> {
    pub outcome: Result<Mapped, Failure>,
    /// The day that the event is about: the date of the rule that matched where it can be read, else the event's own.
    pub event_date: NaiveDate,
    /// The retry policy of the rule that matched, where it has its own.
    pub retry: Option<&'b RetryPolicy>,
    /// The steps that all evaluations took together.
    pub steps: u32,
}

/// One version of a tenant's books, ready to map events.
#[derive(Debug)]
pub struct Books {
    pub tenant_id: TenantId,
    pub version: i32,
    pub name: String,
    pub base_currency: Currency,
    pub calendar: Calendar,
    pub rates: Rates,
    pub rounding_account: Option<AccountCode>,
    unmatched: Unmatched,
    /// Dead letters whose cause these books remove are replayed without being asked for.
    pub auto_replay: bool,
    accounts: HashMap<String, Account>,
    rules: Vec<Rule>,
    index: RuleIndex,
}

impl Books {
    /// Compiles a books file as the given version.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn parse(text: &str, version: i32) -> Result<Self, Vec<Mistake>> {
        source::parse(text, version)
    }

    /// The base currency of a stored version, also of one that this program cannot compile any more.
    #[must_use]
    pub fn base_currency_of(text: &str) -> Option<String> {
        toml::from_str::<toml::Table>(text).ok()?.get("base_currency")?.as_str().map(str::to_owned)
    }

    #[must_use]
    pub fn account(&self, code: &str) -> Option<&Account> {
        self.accounts.get(code)
    }

    pub fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.accounts.values()
    }

    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// An account that takes new lines.
    ///
    /// # Errors
    /// It does not exist, or it is closed.
    pub fn open_account(&self, code: &str) -> Result<&Account, Failure> {
        let account = self.accounts.get(code).ok_or_else(|| {
            Failure::new(Reason::UnknownAccount, format!("account `{code}` is not in the books of {}", self.tenant_id))
        })?;
        if account.closed {
            return Err(Failure::new(Reason::AccountClosed, format!("account `{code}` ({}) is closed", account.name)));
        }
        Ok(account)
    }

    /// Maps an event by the books. The first rule that matches wins, in file order.
    ///
    /// # Errors
    /// The event cannot be booked, or not yet; the reason says which.
    pub fn map(&self, event: &InboundEvent<'_>, received_at: DateTime<Utc>) -> Result<Mapped, Failure> {
        self.consider(event, received_at).outcome
    }

    /// Maps an event, and tells what is known of it besides. Everything that is evaluated for it draws from one budget of steps.
    #[must_use]
    pub fn consider(&self, event: &InboundEvent<'_>, received_at: DateTime<Utc>) -> Considered<'_> {
        let occurred_at = occurred_text(event);
        let mut scope = scope(event, occurred_at.as_deref());
        let (rule, outcome) = match self.matching(event, &scope) {
            Ok(Some(rule)) => (Some(rule), rule.map(event, &mut scope, self, received_at)),
            Ok(None) => (None, self.without_rule(event)),
            Err(failure) => (None, Err(failure)),
        };
        let event_date = match &outcome {
            Ok(Mapped::Entry { entry, .. }) => Some(entry.original_date().unwrap_or(entry.accounting_date())),
            Ok(Mapped::Reversal(request)) => Some(request.own_date),
            Ok(Mapped::Ignored { .. }) => None,
            Err(_) => rule.and_then(|rule| rule.event_date(event, &scope, self, received_at)),
        };
        let own_date = || self.calendar.local_date(event.occurred_at.unwrap_or(received_at));
        let retry = rule.and_then(|rule| rule.retry.as_ref());
        Considered { outcome, event_date: event_date.unwrap_or_else(own_date), retry, steps: scope.steps() }
    }

    fn without_rule(&self, event: &InboundEvent<'_>) -> Result<Mapped, Failure> {
        match self.unmatched {
            Unmatched::Ignore => Ok(Mapped::Ignored { rule: None }),
            Unmatched::Reject => {
                let detail = format!("no rule of {} matches event type `{}`", self.tenant_id, event.event_type);
                Err(Failure::new(Reason::RuleNotFound, detail))
            }
        }
    }

    fn matching(&self, event: &InboundEvent<'_>, scope: &Scope<'_>) -> Result<Option<&Rule>, Failure> {
        let words: Vec<&str> = event.event_type.as_str().split('.').collect();
        for rule in self.candidates(event) {
            if rule.matches(&words, scope)? {
                return Ok(Some(rule));
            }
        }
        Ok(None)
    }

    fn candidates(&self, event: &InboundEvent<'_>) -> impl Iterator<Item = &Rule> {
        self.index.candidates(event.event_type.as_str()).filter_map(|place| self.rules.get(place))
    }
}
