//! `fis journal`.

use std::collections::HashMap;
use std::fmt::Write;
use std::process::ExitCode;

use chrono::NaiveDate;
use serde_json::{Value, json};

use super::printable;
use crate::domain::books::Books;
use crate::domain::chain::{ChainedEntry, instant_text};
use crate::domain::entry::{Line, Side};
use crate::domain::ids::{AccountCode, TenantId};
use crate::platform::config::Config;
use crate::store::journal::pages::{Question, find_entries, find_reversals};

#[derive(clap::Args)]
pub struct Journal {
    /// Only this tenant
    #[arg(long, value_parser = super::tenant)]
    tenant: Option<TenantId>,
    /// Entries with a line to this account
    #[arg(long, value_parser = account)]
    account: Option<AccountCode>,
    /// First accounting date
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    from: Option<NaiveDate>,
    /// Last accounting date
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    to: Option<NaiveDate>,
    /// The entry of this event
    #[arg(long, value_name = "ID")]
    event: Option<String>,
    /// Words that all stand in the description, in any case
    #[arg(long, value_name = "WORDS")]
    text: Option<String>,
    /// How many of the newest
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(0..=100_000))]
    limit: i64,
    /// How many of the newest to leave out first
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    offset: i64,
    #[arg(long)]
    json: bool,
}

fn account(text: &str) -> Result<AccountCode, String> {
    AccountCode::parse(text).map_err(|error| error.to_string())
}

impl Journal {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = super::database(config).await?;
        let mut db = postgres.pool.acquire().await?;
        let mut books = HashMap::new();
        if let Some(tenant) = &self.tenant {
            books.insert(tenant.clone(), super::books_of(&mut db, tenant).await?);
        }
        let words = self.text.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let question = Question {
            tenant: self.tenant,
            account: self.account,
            from: self.from,
            to: self.to,
            event: self.event,
            words,
        };
        let (entries, more) = find_entries(&mut db, &question, self.limit, self.offset).await?;
        let reversed = find_reversals(&mut db, &entries).await?;
        for entry in &entries {
            let tenant = &entry.origin.tenant_id;
            if !books.contains_key(tenant) {
                books.insert(tenant.clone(), super::books_of(&mut db, tenant).await?);
            }
        }
        let told =
            |entry: &ChainedEntry| books.get(&entry.origin.tenant_id).map(|books| as_json(entry, books, &reversed));
        if self.json {
            let entries: Vec<Value> = entries.iter().filter_map(told).collect();
            let text = serde_json::to_string_pretty(&json!({ "entries": entries, "more": more }))?;
            super::print_text(&(text + "\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        super::print_text(&listing(&entries, &books, &reversed, more)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Two columns, debit and credit, right-aligned over the whole listing. Names come last: theirs is the only width that a
/// terminal may see differently.
fn listing(
    entries: &[ChainedEntry],
    books: &HashMap<TenantId, Books>,
    reversed: &HashMap<String, String>,
    more: bool,
) -> anyhow::Result<String> {
    let lines = || entries.iter().flat_map(|entry| &entry.lines);
    let account_width = lines().map(|line| line.account.as_str().len()).max().unwrap_or_default();
    let amount_width = lines().map(|line| line.currency.text(line.amount).len()).max().unwrap_or_default().max(6);
    let mut out = String::new();
    for entry in entries {
        let (origin, date) = (&entry.origin, entry.accounting_date);
        writeln!(out, "{}  {date}  {}", entry.entry_id(), printable(&entry.description))?;
        write!(out, "  event {}", printable(origin.event_id.as_str()))?;
        write!(out, ", rule {} of version {}", printable(&origin.rule_name), origin.rule_version)?;
        if let Some(original) = entry.original_date {
            write!(out, ", dated {original} itself")?;
        }
        if let Some(reverses) = &entry.reverses_entry_id {
            write!(out, ", reverses {reverses}")?;
        }
        if let Some(reversal) = reversed.get(&entry.entry_id()) {
            write!(out, ", reversed by {reversal}")?;
        }
        out.push('\n');
        let Some(books) = books.get(&origin.tenant_id) else { continue };
        for line in &entry.lines {
            let amount = line.currency.text(line.amount);
            let (debit, credit) = match line.side {
                Side::Debit => (amount.as_str(), ""),
                Side::Credit => ("", amount.as_str()),
            };
            let (account, currency) = (line.account.as_str(), line.currency);
            write!(out, "  {account:<account_width$}  {debit:>amount_width$}  {credit:>amount_width$}  {currency}")?;
            let base = books.base_currency;
            if currency != base {
                write!(out, "  = {} {base}", base.text(line.base_amount))?;
            }
            writeln!(out, "  {}", printable(name(books, line)))?;
        }
        out.push('\n');
    }
    let older = if more { ", older ones follow with --offset or --limit" } else { "" };
    writeln!(out, "{} entries{older}", entries.len())?;
    Ok(out)
}

fn name<'a>(books: &'a Books, line: &Line) -> &'a str {
    books.account(line.account.as_str()).map(|account| account.name.as_str()).unwrap_or_default()
}

fn as_json(entry: &ChainedEntry, books: &Books, reversed: &HashMap<String, String>) -> Value {
    let origin = &entry.origin;
    let line = |line: &Line| {
        json!({
            "account": line.account.as_str(),
            "accountName": name(books, line),
            "side": line.side.as_str(),
            "amount": line.currency.text(line.amount),
            "currency": line.currency.code(),
            "baseAmount": books.base_currency.text(line.base_amount),
        })
    };
    json!({
        "tenantId": origin.tenant_id.as_str(),
        "entryId": entry.entry_id(),
        "sequence": entry.seq,
        "eventId": origin.event_id.as_str(),
        "eventType": origin.event_type.as_str(),
        "payloadHash": origin.payload_hash,
        "accountingDate": entry.accounting_date.to_string(),
        "originalDate": entry.original_date.map(|date| date.to_string()),
        "postedAt": instant_text(entry.posted_at),
        "description": entry.description,
        "baseCurrency": books.base_currency.code(),
        "lines": entry.lines.iter().map(line).collect::<Vec<_>>(),
        "rule": origin.rule_name,
        "ruleVersion": origin.rule_version,
        "reverses": entry.reverses_entry_id,
        "reversedBy": reversed.get(&entry.entry_id()),
        "lane": origin.lane,
        "messageId": origin.message_id,
        "correlationId": origin.correlation_id,
        "traceparent": origin.traceparent,
        "previousHash": entry.previous_hash,
        "hash": entry.hash,
    })
}
