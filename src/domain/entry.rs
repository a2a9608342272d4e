//! From draft to balanced: the lines that a rule proposed enter, an entry that double-entry book-keeping accepts leaves.
//! An entry whose debits and credits differ, in its currency where it has one and in the base currency always, can
//! not be made.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;

use super::books::Books;
use super::disposition::{Failure, Reason};
use super::fx::ConvertError;
use super::ids::AccountCode;
use super::money::{Amount, BASE_AMOUNT_MAX, Currency};
use super::waits_for::WaitsFor;

/// An event with more lines than this is a file; it is also what a `smallint` line number can hold.
pub const LINES_MAX: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    Debit,
    Credit,
}

impl Side {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debit => "debit",
            Self::Credit => "credit",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "debit" => Some(Self::Debit),
            "credit" => Some(Self::Credit),
            _ => None,
        }
    }

    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Debit => Self::Credit,
            Self::Credit => Self::Debit,
        }
    }
}

/// A line as a rule proposes it: nothing is proven.
#[derive(Debug, Clone)]
pub struct DraftLine<'a> {
    pub account: Cow<'a, str>,
    pub side: Side,
    pub amount: Decimal,
    pub currency: Cow<'a, str>,
}

#[derive(Debug, Clone)]
pub struct DraftEntry<'a> {
    pub date: NaiveDate,
    pub description: String,
    pub lines: Vec<DraftLine<'a>>,
}

/// A line of a balanced entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub account: AccountCode,
    pub side: Side,
    pub amount: Decimal,
    pub currency: Currency,
    pub base_amount: Decimal,
}

/// Debits equal credits, every account is known and open, the date lies in an open period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalancedEntry {
    accounting_date: NaiveDate,
    original_date: Option<NaiveDate>,
    description: String,
    lines: Vec<Line>,
}

/// The parts of an entry, for the chain.
pub struct EntryParts {
    pub accounting_date: NaiveDate,
    pub original_date: Option<NaiveDate>,
    pub description: String,
    pub lines: Vec<Line>,
}

impl BalancedEntry {
    #[must_use]
    pub fn accounting_date(&self) -> NaiveDate {
        self.accounting_date
    }

    /// The event's own date, where no period was open on it.
    #[must_use]
    pub fn original_date(&self) -> Option<NaiveDate> {
        self.original_date
    }

    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    #[must_use]
    pub fn into_parts(self) -> EntryParts {
        let Self { accounting_date, original_date, description, lines } = self;
        EntryParts { accounting_date, original_date, description, lines }
    }

    /// The only door: checks everything that can never succeed before what may succeed later (a period, a rate).
    ///
    /// # Errors
    /// The first thing that is wrong, with its reason.
    pub fn balance(draft: DraftEntry<'_>, books: &Books) -> Result<Self, Failure> {
        if draft.lines.len() < 2 {
            let detail = format!("an entry has at least two lines, the rule made {}", draft.lines.len());
            return Err(Failure::new(Reason::Unbalanced, detail));
        }
        if draft.lines.len() > LINES_MAX {
            let detail = format!("an entry has at most {LINES_MAX} lines, the rule made {}", draft.lines.len());
            return Err(Failure::new(Reason::RuleFailed, detail));
        }
        let mut lines = draft.lines.iter().map(|line| check_line(line, books)).collect::<Result<Vec<_>, _>>()?;
        let single = single_currency(&lines);
        if let Some(currency) = single {
            let (debit, credit) = totals(&lines, |line| line.amount);
            if debit != credit {
                return Err(differs(debit, credit, currency, ""));
            }
        }
        let accounting_date = books.calendar.posting_date(draft.date)?;
        if single != Some(books.base_currency) {
            convert(&mut lines, books, accounting_date)?;
        }
        let original_date = (accounting_date != draft.date).then_some(draft.date);
        Ok(Self { accounting_date, original_date, description: draft.description, lines })
    }

    /// The mirror of a posted entry. `own_date` is the reversal's own, where it could not be dated as the original.
    ///
    /// # Errors
    /// An account of the original takes no new lines any more.
    pub fn reversal(
        original: &[Line],
        accounting_date: NaiveDate,
        own_date: Option<NaiveDate>,
        description: String,
        books: &Books,
    ) -> Result<Self, Failure> {
        let mirror = |line: &Line| {
            books.open_account(line.account.as_str())?;
            Ok(Line { side: line.side.opposite(), ..line.clone() })
        };
        let lines = original.iter().map(mirror).collect::<Result<Vec<_>, Failure>>()?;
        let original_date = own_date.filter(|own| *own != accounting_date);
        Ok(Self { accounting_date, original_date, description, lines })
    }
}

fn check_line(line: &DraftLine<'_>, books: &Books) -> Result<Line, Failure> {
    let account = books.open_account(&line.account)?;
    let currency = Currency::parse(&line.currency)
        .ok_or_else(|| Failure::new(Reason::BadCurrency, format!("`{}` is not an ISO 4217 currency", line.currency)))?;
    if let Some(only) = account.currency
        && only != currency
    {
        let detail = format!("account {} takes {only} only, the line is in {currency}", account.code);
        return Err(Failure::new(Reason::BadCurrency, detail));
    }
    let amount = Amount::new(line.amount, currency)
        .map_err(|error| Failure::new(Reason::BadAmount, format!("line to account {}: {error}", account.code)))?
        .value();
    Ok(Line { account: account.code.clone(), side: line.side, amount, currency, base_amount: amount })
}

fn single_currency(lines: &[Line]) -> Option<Currency> {
    let first = lines.first()?.currency;
    lines.iter().all(|line| line.currency == first).then_some(first)
}

/// Sums stay exact: at most 10,000 lines below 10^15 with at most four decimals have 23 digits.
fn totals(lines: &[Line], value: impl Fn(&Line) -> Decimal) -> (Decimal, Decimal) {
    let sum = |side| lines.iter().filter(|line| line.side == side).map(&value).sum();
    (sum(Side::Debit), sum(Side::Credit))
}

/// Names every rate that is missing, so that nobody is told of the second one after bringing the first.
fn no_rate(lines: &[Line], books: &Books, date: NaiveDate) -> Failure {
    let to = books.base_currency;
    let mut from: Vec<Currency> = Vec::new();
    for line in lines {
        if !from.contains(&line.currency) && !books.rates.has(line.currency, to, date) {
            from.push(line.currency);
        }
    }
    from.sort_by_key(|currency| currency.code());
    let codes: Vec<&str> = from.iter().map(|currency| currency.code()).collect();
    let detail = format!("no rate from {} to {to} on {date}", codes.join(" and "));
    Failure::new(Reason::FxRateMissing, detail).until(WaitsFor::Rates { from, to, date })
}

/// Fills in the base amounts and books what rounding left over.
fn convert(lines: &mut Vec<Line>, books: &Books, date: NaiveDate) -> Result<(), Failure> {
    let base = books.base_currency;
    for line in lines.iter_mut() {
        line.base_amount = match books.rates.convert(line.amount, line.currency, base, date) {
            Ok(converted) => converted,
            Err(ConvertError::NoRate) => return Err(no_rate(lines, books, date)),
            Err(ConvertError::TooLarge) => {
                let detail = format!("{} {} is too large in {base}", line.amount, line.currency);
                return Err(Failure::new(Reason::BadAmount, detail));
            }
        };
        if line.base_amount >= BASE_AMOUNT_MAX {
            let detail = format!(
                "{} {} is {} {base}, which is not below {BASE_AMOUNT_MAX}",
                line.amount, line.currency, line.base_amount
            );
            return Err(Failure::new(Reason::BadAmount, detail));
        }
    }
    // Zero equals zero, whatever was given for what: only their own currencies can tell.
    if lines.iter().all(|line| line.base_amount.is_zero()) {
        return balance_each_currency(lines);
    }
    let (debit, credit) = totals(lines, |line| line.base_amount);
    let residue = debit - credit;
    if residue.is_zero() {
        return Ok(());
    }
    if residue.abs() > residue_max(lines, base) {
        return Err(differs(debit, credit, base, ""));
    }
    let Some(account) = &books.rounding_account else {
        return Err(differs(debit, credit, base, ", and the books name no rounding_account for the residue"));
    };
    books.open_account(account.as_str())?;
    let side = if residue.is_sign_negative() { Side::Debit } else { Side::Credit };
    let amount = residue.abs();
    lines.push(Line { account: account.clone(), side, amount, currency: base, base_amount: amount });
    Ok(())
}

/// The most that honest rounding can leave: half a minor unit for each line that was converted, rounded up. Lines in the base currency are
/// exact; what they do not balance is no residue.
fn residue_max(lines: &[Line], base: Currency) -> Decimal {
    let converted = lines.iter().filter(|line| line.currency != base).count();
    // At most `LINES_MAX` lines come here.
    Decimal::new(i64::try_from(converted.div_ceil(2)).unwrap_or(i64::MAX), base.minor_units())
}

/// One pass, whatever the number of currencies.
fn balance_each_currency(lines: &[Line]) -> Result<(), Failure> {
    let mut sums: BTreeMap<Currency, (Decimal, Decimal)> = BTreeMap::new();
    for line in lines {
        let (debit, credit) = sums.entry(line.currency).or_default();
        match line.side {
            Side::Debit => *debit += line.amount,
            Side::Credit => *credit += line.amount,
        }
    }
    match sums.into_iter().find(|(_, (debit, credit))| debit != credit) {
        Some((currency, (debit, credit))) => Err(differs(debit, credit, currency, "")),
        None => Ok(()),
    }
}

fn differs(debit: Decimal, credit: Decimal, currency: Currency, why: &str) -> Failure {
    let detail = format!("debits are {debit} {currency}, credits are {credit} {currency}{why}");
    Failure::new(Reason::Unbalanced, detail)
}
