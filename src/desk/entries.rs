//! Journal entries as people and programs read them. A question enters, a page of entries with their lines leaves, newest last. Entries are
//! told with the names and the base currency of the books in force; the amounts are exact text.

use std::collections::HashMap;

use chrono::NaiveDate;

use super::{Desk, DeskError, Page, books_of};
use crate::domain::books::Books;
use crate::domain::chain::{ChainedEntry, instant_text};
use crate::domain::entry::{Line, Side};
use crate::domain::ids::{TenantId, entry_id};
use crate::store::journal::pages::{find_entries, find_reversals};
use crate::store::journal::read;

pub use crate::store::journal::pages::Question as EntriesQuestion;

/// A page of entries, newest last.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EntriesPage {
    pub entries: Vec<JournalEntry>,
    /// Older ones follow.
    pub more: bool,
}

/// An entry with everything that the ledger says about it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    pub tenant_id: String,
    pub entry_id: String,
    pub sequence: i64,
    pub event_id: String,
    pub event_type: String,
    pub payload_hash: String,
    pub accounting_date: NaiveDate,
    /// The date of the event itself, where its period was closed.
    pub original_date: Option<NaiveDate>,
    pub posted_at: String,
    pub description: String,
    pub base_currency: &'static str,
    pub lines: Vec<JournalLine>,
    pub rule: String,
    pub rule_version: i32,
    pub reverses: Option<String>,
    pub reversed_by: Option<String>,
    pub lane: &'static str,
    pub message_id: Option<String>,
    pub correlation_id: Option<String>,
    pub traceparent: Option<String>,
    pub previous_hash: String,
    pub hash: String,
}

/// One line of an entry.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalLine {
    pub account: String,
    pub account_name: String,
    pub side: Side,
    pub amount: String,
    pub currency: &'static str,
    pub base_amount: String,
}

impl Desk {
    /// A page of the newest entries that match; the page's offset leaves out the newest.
    ///
    /// # Errors
    /// There is no such tenant, or the database is away.
    pub async fn entries(&self, question: &EntriesQuestion, page: Page) -> Result<EntriesPage, DeskError> {
        let mut db = self.postgres.pool.acquire().await?;
        let mut books = HashMap::new();
        if let Some(tenant) = &question.tenant {
            books.insert(tenant.clone(), books_of(&mut db, tenant).await?);
        }
        let (entries, more) = find_entries(&mut db, question, page.limit(), page.offset()).await?;
        let mut reversed = find_reversals(&mut db, &entries).await?;
        let mut told = Vec::with_capacity(entries.len());
        for entry in entries {
            let tenant = &entry.origin.tenant_id;
            if !books.contains_key(tenant) {
                books.insert(tenant.clone(), books_of(&mut db, tenant).await?);
            }
            let Some(books) = books.get(tenant) else { unreachable!("found or inserted above") };
            let reversed_by = reversed.remove(&entry.entry_id());
            told.push(told_entry(entry, books, reversed_by));
        }
        Ok(EntriesPage { entries: told, more })
    }

    /// One entry by its place.
    ///
    /// # Errors
    /// There is no such tenant or entry, or the database is away.
    pub async fn entry(&self, tenant: &TenantId, sequence: i64) -> Result<JournalEntry, DeskError> {
        let mut db = self.postgres.pool.acquire().await?;
        let books = books_of(&mut db, tenant).await?;
        let place = (tenant.clone(), sequence);
        let Some(entry) = read::entries(&mut db, std::slice::from_ref(&place)).await?.remove(&place) else {
            return Err(DeskError::NotFound { what: "entry", name: entry_id(tenant, sequence) });
        };
        let reversed_by = find_reversals(&mut db, std::slice::from_ref(&entry)).await?.remove(&entry.entry_id());
        Ok(told_entry(entry, &books, reversed_by))
    }
}

fn told_entry(entry: ChainedEntry, books: &Books, reversed_by: Option<String>) -> JournalEntry {
    let entry_id = entry.entry_id();
    let origin = entry.origin;
    JournalEntry {
        tenant_id: origin.tenant_id.to_string(),
        entry_id,
        sequence: entry.seq,
        event_id: origin.event_id.to_string(),
        event_type: origin.event_type.to_string(),
        payload_hash: origin.payload_hash,
        accounting_date: entry.accounting_date,
        original_date: entry.original_date,
        posted_at: instant_text(entry.posted_at),
        description: entry.description,
        base_currency: books.base_currency.code(),
        lines: entry.lines.iter().map(|line| told_line(line, Some(books))).collect(),
        rule: origin.rule_name,
        rule_version: origin.rule_version,
        reverses: entry.reverses_entry_id,
        reversed_by,
        lane: origin.lane,
        message_id: origin.message_id,
        correlation_id: origin.correlation_id,
        traceparent: origin.traceparent,
        previous_hash: entry.previous_hash,
        hash: entry.hash,
    }
}

/// A line; without books it has no name, and its base amount is written as it is stored.
pub(super) fn told_line(line: &Line, books: Option<&Books>) -> JournalLine {
    let account = books.and_then(|books| books.account(line.account.as_str()));
    let base_amount = line.base_amount;
    JournalLine {
        account: line.account.to_string(),
        account_name: account.map(|account| account.name.clone()).unwrap_or_default(),
        side: line.side,
        amount: line.currency.text(line.amount),
        currency: line.currency.code(),
        base_amount: books.map_or_else(|| base_amount.to_string(), |books| books.base_currency.text(base_amount)),
    }
}
