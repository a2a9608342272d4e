//! Beancount (versions 2 and 3). Strings are escaped so that beancount reads back exactly what the ledger holds.

use super::accounts::AccountNames;
use super::{ExportError, day, posting, prices, put};
use crate::domain::books::Books;
use crate::domain::chain::ChainedEntry;

/// Accounts are open before anything can be dated: beancount's years have four digits and begin with 1 or 2.
const OPENED: &str = "1000-01-01";
/// Beancount divides a total price by the units and multiplies again, with 28 digits: what that can lose, below the smallest
/// minor unit of any currency. Without it a transaction with no line in the base currency would have no tolerance.
const TOLERANCE: &str = "0.000001";

pub fn head(books: &Books, names: &AccountNames) -> String {
    let mut out = String::new();
    let (title, base) = (quoted(title(books)), books.base_currency);
    put(&mut out, format_args!("option \"title\" {title}\noption \"operating_currency\" \"{base}\"\n"));
    put(&mut out, format_args!("option \"inferred_tolerance_default\" \"{base}:{TOLERANCE}\"\n\n"));
    for (code, name) in names.iter() {
        let spoken = books.account(code).map(|account| account.name.as_str()).unwrap_or_default();
        put(&mut out, format_args!("{OPENED} open {name}\n  code: {}\n  name: {}\n", quoted(code), quoted(spoken)));
    }
    out.push('\n');
    for (day, from, rate, to) in prices(books) {
        put(&mut out, format_args!("{day} price {from} {rate} {to}\n"));
    }
    out
}

fn title(books: &Books) -> &str {
    if books.name.is_empty() { books.tenant_id.as_str() } else { &books.name }
}

pub fn entry(entry: &ChainedEntry, books: &Books, names: &AccountNames, out: &mut String) -> Result<(), ExportError> {
    put(out, format_args!("\n{} * {}\n", day(entry)?, quoted(&entry.description)));
    let mut meta = |key: &str, value: &str| put(out, format_args!("  {key}: {}\n", quoted(value)));
    meta("entry-id", &entry.entry_id());
    meta("event-id", entry.origin.event_id.as_str());
    meta("event-type", entry.origin.event_type.as_str());
    if let Some(original) = entry.original_date {
        meta("original-date", &original.to_string());
    }
    if let Some(reverses) = &entry.reverses_entry_id {
        meta("reverses", reverses);
    }
    meta("hash", &entry.hash);
    for line in &entry.lines {
        posting(entry, line, books.base_currency, names, out)?;
    }
    Ok(())
}

/// A string as beancount reads it. Line ends are written as escapes: beancount takes a string of many lines for a forgotten
/// quote.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
