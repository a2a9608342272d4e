//! `fis journal`.

use std::fmt::Write;
use std::process::ExitCode;

use chrono::NaiveDate;

use super::text::{columns, grouped, hanging};
use super::{TenantArg, printable, printable_within};
use crate::desk::entries::{EntriesPage, EntriesQuestion};
use crate::desk::{Desk, LIMIT_MAX, Page};
use crate::domain::entry::Side;
use crate::domain::ids::AccountCode;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Journal {
    #[command(flatten)]
    tenant: TenantArg,
    /// Only entries with a line to this account
    #[arg(long, value_parser = account)]
    account: Option<AccountCode>,
    /// First accounting date
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    from: Option<NaiveDate>,
    /// Last accounting date
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    to: Option<NaiveDate>,
    /// Only the entry of this event
    #[arg(long, value_name = "ID")]
    event: Option<String>,
    /// Only entries whose description contains all these words (case-insensitive)
    #[arg(long, value_name = "WORDS")]
    text: Option<String>,
    /// Show so many of the newest entries
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(0..=LIMIT_MAX))]
    limit: i64,
    /// Leave out so many of the newest entries
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
        let desk = Desk::open(config).await?;
        let question = EntriesQuestion {
            tenant: self.tenant.only(&desk).await?,
            account: self.account,
            from: self.from,
            to: self.to,
            event: self.event,
            words: self.text.unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
        };
        let page = desk.entries(&question, Page::new(self.limit, self.offset)?).await?;
        if self.json {
            super::print_text(&(super::json_text(&page)? + "\n"))?;
        } else {
            super::print_text(&listing(&page)?)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Two columns, debit and credit, right-aligned over the whole listing. Names come last: theirs is the only width that a
/// terminal may see differently.
fn listing(page: &EntriesPage) -> anyhow::Result<String> {
    let lines = || page.entries.iter().flat_map(|entry| &entry.lines);
    let account_width = lines().map(|line| line.account.len()).max().unwrap_or_default().max(7);
    let amount_width = lines().map(|line| grouped(&line.amount).len()).max().unwrap_or_default().max(6);
    let (mut out, width) = (String::new(), columns());
    if !page.entries.is_empty() {
        writeln!(out, "  {:<account_width$}  {:>amount_width$}  {:>amount_width$}\n", "account", "debit", "credit")?;
    }
    for entry in &page.entries {
        let head = format!("{}  {}  {}", entry.entry_id, entry.accounting_date, printable(&entry.description));
        writeln!(out, "{}", hanging(&head, 4, width))?;
        let mut more = format!("  event {}", printable(&entry.event_id));
        write!(more, ", rule {} of version {}", printable(&entry.rule), entry.rule_version)?;
        if let Some(original) = entry.original_date {
            write!(more, ", dated {original} itself")?;
        }
        if let Some(reverses) = &entry.reverses {
            write!(more, ", reverses {reverses}")?;
        }
        if let Some(reversal) = &entry.reversed_by {
            write!(more, ", reversed by {reversal}")?;
        }
        writeln!(out, "{}", hanging(&more, 4, width))?;
        for line in &entry.lines {
            let (debit, credit) = match line.side {
                Side::Debit => (grouped(&line.amount), String::new()),
                Side::Credit => (String::new(), grouped(&line.amount)),
            };
            let (account, currency) = (&line.account, line.currency);
            write!(out, "  {account:<account_width$}  {debit:>amount_width$}  {credit:>amount_width$}  {currency}")?;
            let base = entry.base_currency;
            if currency != base {
                write!(out, "  = {} {base}", grouped(&line.base_amount))?;
            }
            let used = out.len() - out.rfind('\n').map_or(0, |end| end + 1) + 2;
            writeln!(out, "  {}", printable_within(&line.account_name, width.saturating_sub(used).max(12)))?;
        }
        out.push('\n');
    }
    let older = if page.more { ", older ones follow with --offset or --limit" } else { "" };
    let count = i64::try_from(page.entries.len()).unwrap_or(i64::MAX);
    let entries = if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") };
    writeln!(out, "{entries}{older}")?;
    Ok(out)
}
