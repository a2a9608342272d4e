//! The journal as a file for other programs. Entries enter one by one in sequence order, text leaves; nothing is collected,
//! and no figure is rounded or left out.
//!
//! | format | whole entries as | what balances a currency other than the base |
//! |---|---|---|
//! | `csv` | a row per line (RFC 4180) | `base_amount` beside `amount` |
//! | `beancount`, `hledger` | a transaction | `@@` with the line's base amount as its total price |
//!
//! In a transaction every line counts with its base amount: lines in the base currency as they are, all others through their
//! price. The rates of the books follow the accounts, so that both programs can value balances at the rates of a day. An entry balances in the base currency by construction, its rounding line included, so the transaction does.

mod accounts;
mod beancount;
mod csv;
mod hledger;

use std::fmt::Write;

use chrono::NaiveDate;
use rust_decimal::Decimal;

use super::books::Books;
use super::chain::ChainedEntry;
use super::entry::{Line, Side};
use super::money::Currency;
use accounts::{AccountNames, Style};
pub use csv::row as csv_row;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Csv,
    Beancount,
    Hledger,
}

/// Why an entry cannot stand in the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    #[error("entry {entry}: account `{account}` is not in the books in force")]
    UnknownAccount { entry: String, account: String },
    #[error("entry {entry}: the year of {date} does not have four digits, which this format needs")]
    Year { entry: String, date: String },
}

/// Writes one tenant's journal in one format.
pub struct Exporter<'a> {
    format: Format,
    books: &'a Books,
    names: AccountNames,
}

impl<'a> Exporter<'a> {
    #[must_use]
    pub fn new(format: Format, books: &'a Books) -> Self {
        let style = match format {
            Format::Beancount => Style::Beancount,
            Format::Csv | Format::Hledger => Style::Hledger,
        };
        Self { format, books, names: AccountNames::of(books, style) }
    }

    /// The text before the first entry. `currencies` are all that occur.
    #[must_use]
    pub fn head(&self, currencies: &[Currency]) -> String {
        match self.format {
            Format::Csv => csv::head(),
            Format::Beancount => beancount::head(self.books, &self.names),
            Format::Hledger => hledger::head(self.books, &self.names, currencies),
        }
    }

    /// Appends one entry.
    ///
    /// # Errors
    /// The format cannot hold it; nothing half is left in `out`.
    pub fn entry(&self, entry: &ChainedEntry, out: &mut String) -> Result<(), ExportError> {
        let before = out.len();
        let written = match self.format {
            Format::Csv => csv::entry(entry, self.books, out),
            Format::Beancount => beancount::entry(entry, self.books, &self.names, out),
            Format::Hledger => hledger::entry(entry, self.books, &self.names, out),
        };
        if written.is_err() {
            out.truncate(before);
        }
        written
    }
}

fn day(entry: &ChainedEntry) -> Result<String, ExportError> {
    let date = entry.accounting_date;
    plain_day(date).ok_or_else(|| ExportError::Year { entry: entry.entry_id(), date: date.to_string() })
}

/// `2026-02-25`; both programs read four digits of a year.
fn plain_day(date: NaiveDate) -> Option<String> {
    Some(date.to_string()).filter(|date| date.len() == 10 && date.starts_with(['1', '2']))
}

/// The rates of the books as `(day, from, rate, to)`, the oldest first. A rate of a year that cannot be written applies to no entry that can.
fn prices(books: &Books) -> Vec<(String, Currency, Decimal, Currency)> {
    let rates = books.rates.all().filter_map(|(from, to, date, rate)| Some((plain_day(date)?, from, rate, to)));
    let mut prices: Vec<_> = rates.collect();
    prices.sort();
    prices
}

/// `Assets:1100 Bank  119.00 USD @@ 109.48 EUR`: debits are positive.
fn posting(
    entry: &ChainedEntry,
    line: &Line,
    base: Currency,
    names: &AccountNames,
    out: &mut String,
) -> Result<(), ExportError> {
    let account = names.get(line.account.as_str()).ok_or_else(|| ExportError::UnknownAccount {
        entry: entry.entry_id(),
        account: line.account.as_str().to_owned(),
    })?;
    let signed = |amount: Decimal| match line.side {
        Side::Debit => amount,
        Side::Credit => -amount,
    };
    put(out, format_args!("  {account}  {} {}", line.currency.text(signed(line.amount)), line.currency));
    if line.currency != base {
        // Unsigned: the price takes the sign of what is priced, in both programs.
        put(out, format_args!(" @@ {} {base}", base.text(line.base_amount)));
    }
    out.push('\n');
    Ok(())
}

/// Appends formatted text; writing to a string cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests;
