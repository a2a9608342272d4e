//! `fis journal`.

use std::fmt::Write;
use std::process::ExitCode;

use chrono::NaiveDate;

use super::{TenantArg, printable};
use crate::desk::entries::{EntriesPage, EntriesQuestion};
use crate::desk::{Desk, LIMIT_MAX, Page};
use crate::domain::entry::Side;
use crate::domain::ids::AccountCode;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Journal {
    #[command(flatten)]
    tenant: TenantArg,
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
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(0..=LIMIT_MAX))]
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
    let account_width = lines().map(|line| line.account.len()).max().unwrap_or_default();
    let amount_width = lines().map(|line| line.amount.len()).max().unwrap_or_default().max(6);
    let mut out = String::new();
    for entry in &page.entries {
        writeln!(out, "{}  {}  {}", entry.entry_id, entry.accounting_date, printable(&entry.description))?;
        write!(out, "  event {}", printable(&entry.event_id))?;
        write!(out, ", rule {} of version {}", printable(&entry.rule), entry.rule_version)?;
        if let Some(original) = entry.original_date {
            write!(out, ", dated {original} itself")?;
        }
        if let Some(reverses) = &entry.reverses {
            write!(out, ", reverses {reverses}")?;
        }
        if let Some(reversal) = &entry.reversed_by {
            write!(out, ", reversed by {reversal}")?;
        }
        out.push('\n');
        for line in &entry.lines {
            let (debit, credit) = match line.side {
                Side::Debit => (line.amount.as_str(), ""),
                Side::Credit => ("", line.amount.as_str()),
            };
            let (account, currency) = (&line.account, line.currency);
            write!(out, "  {account:<account_width$}  {debit:>amount_width$}  {credit:>amount_width$}  {currency}")?;
            let base = entry.base_currency;
            if currency != base {
                write!(out, "  = {} {base}", line.base_amount)?;
            }
            writeln!(out, "  {}", printable(&line.account_name))?;
        }
        out.push('\n');
    }
    let older = if page.more { ", older ones follow with --offset or --limit" } else { "" };
    writeln!(out, "{} entries{older}", page.entries.len())?;
    Ok(out)
}
