//! hledger's journal format. It has no way to quote: what would end a description or a tag is shown as a code, `\n` or
//! `\u{3b}`, and a backslash as two, so that the ledger's text can still be told.

use std::collections::BTreeSet;

use super::accounts::AccountNames;
use super::{ExportError, day, posting, prices, put};
use crate::domain::books::Books;
use crate::domain::chain::ChainedEntry;
use crate::domain::money::Currency;

pub fn head(books: &Books, names: &AccountNames, currencies: &[Currency]) -> String {
    let mut out = String::new();
    put(&mut out, format_args!("; {}\n", tag(books.tenant_id.as_str())));
    // Else `1.234` of a currency with three decimals may be a thousand and more.
    out.push_str("decimal-mark .\n\n");
    let prices = prices(books);
    let priced = prices.iter().flat_map(|(_, from, _, to)| [*from, *to]);
    // A strict check wants every currency declared, also one that only a rate names.
    for currency in currencies.iter().copied().chain(priced).collect::<BTreeSet<Currency>>() {
        let zeros = "0".repeat(usize::try_from(currency.minor_units()).unwrap_or_default());
        put(&mut out, format_args!("commodity 1000.{zeros} {currency}\n"));
    }
    out.push('\n');
    for (code, name) in names.iter() {
        let spoken = books.account(code).map(|account| account.name.as_str()).unwrap_or_default();
        put(&mut out, format_args!("account {name}  ; code: {}, name: {}\n", tag(code), tag(spoken)));
    }
    out.push('\n');
    for (day, from, rate, to) in prices {
        put(&mut out, format_args!("P {day} {from} {rate} {to}\n"));
    }
    out
}

pub fn entry(entry: &ChainedEntry, books: &Books, names: &AccountNames, out: &mut String) -> Result<(), ExportError> {
    // Status and code are always there, so that a description that begins like one is not taken for it.
    let head = format!("\n{} * ({}) {}", day(entry)?, entry.entry_id(), described(&entry.description));
    put(out, format_args!("{}\n", head.trim_end()));
    let mut tagged = |key: &str, value: &str| put(out, format_args!("  ; {key}: {}\n", tag(value)));
    tagged("event", entry.origin.event_id.as_str());
    tagged("type", entry.origin.event_type.as_str());
    if let Some(original) = entry.original_date {
        tagged("original", &original.to_string());
    }
    if let Some(reverses) = &entry.reverses_entry_id {
        tagged("reverses", reverses);
    }
    tagged("hash", &entry.hash);
    for line in &entry.lines {
        posting(entry, line, books.base_currency, names, out)?;
    }
    Ok(())
}

/// A semicolon begins a comment.
fn described(text: &str) -> String {
    coded(text, &[';'])
}

/// A comma ends a tag's value.
fn tag(text: &str) -> String {
    coded(text, &[',', ';'])
}

fn coded(text: &str, sensitive: &[char]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            c if sensitive.contains(&c) => out.extend(c.escape_unicode()),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}
