//! CSV after RFC 4180: a header, a row per line, CR LF. Values are the ledger's, exactly: nothing is put before a value that
//! a spreadsheet would take for a formula, because a file that says `'=1` where the ledger says `=1` is wrong.
//! Import it with all columns as text where publishers are not trusted; `docs/reading.md` says so.

use super::ExportError;
use crate::domain::books::Books;
use crate::domain::chain::{ChainedEntry, instant_text};

const COLUMNS: [&str; 22] = [
    "entry_id",
    "sequence",
    "accounting_date",
    "original_date",
    "posted_at",
    "event_id",
    "event_type",
    "description",
    "rule",
    "rule_version",
    "reverses",
    "line",
    "account",
    "account_name",
    "side",
    "amount",
    "currency",
    "base_amount",
    "base_currency",
    "payload_hash",
    "previous_hash",
    "hash",
];

pub fn head() -> String {
    let mut out = String::new();
    row(COLUMNS, &mut out);
    out
}

pub fn entry(entry: &ChainedEntry, books: &Books, out: &mut String) -> Result<(), ExportError> {
    let origin = &entry.origin;
    let (id, seq, date) = (entry.entry_id(), entry.seq.to_string(), entry.accounting_date.to_string());
    let original = entry.original_date.map(|date| date.to_string()).unwrap_or_default();
    let (posted_at, version) = (instant_text(entry.posted_at), origin.rule_version.to_string());
    let base = books.base_currency;
    for (index, line) in entry.lines.iter().enumerate() {
        let account = line.account.as_str();
        let values: [&str; COLUMNS.len()] = [
            &id,
            &seq,
            &date,
            &original,
            &posted_at,
            origin.event_id.as_str(),
            origin.event_type.as_str(),
            &entry.description,
            &origin.rule_name,
            &version,
            entry.reverses_entry_id.as_deref().unwrap_or_default(),
            &(index + 1).to_string(),
            account,
            books.account(account).map(|account| account.name.as_str()).unwrap_or_default(),
            line.side.as_str(),
            &line.currency.text(line.amount),
            line.currency.code(),
            &base.text(line.base_amount),
            base.code(),
            &origin.payload_hash,
            &entry.previous_hash,
            &entry.hash,
        ];
        row(values, out);
    }
    Ok(())
}

/// Appends one record.
pub fn row<'a>(values: impl IntoIterator<Item = &'a str>, out: &mut String) {
    for (place, value) in values.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        // White space at the edges is quoted too: some readers trim it otherwise.
        if value.contains([',', '"', '\r', '\n']) || value.trim() != value {
            out.push('"');
            out.push_str(&value.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(value);
        }
    }
    out.push_str("\r\n");
}
