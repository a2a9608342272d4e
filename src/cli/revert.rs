//! `fis revert`: shows the entry that it would book, its date with the reason for that date, and the balances then; books it once somebody has
//! confirmed that.

use std::process::ExitCode;

use anyhow::Context;
use chrono::NaiveDate;

use super::dlq::{balances_table, confirmed, not_confirmed};
use super::{TenantArg, Who, WrongUsage, printable};
use crate::desk::reversal::{DateReason, RehearsedReversal, RevertEntry};
use crate::desk::{Desk, DeskError};
use crate::domain::entry::Side;
use crate::platform::config::Config;

/// Lines that are shown; an entry may have ten thousand.
const LINES_SHOWN: usize = 40;

#[derive(clap::Args)]
pub struct Revert {
    #[command(flatten)]
    tenant: TenantArg,
    /// The entry: `acme/1042`, or its sequence, `1042`
    entry: String,
    /// The reason; it becomes part of the reversal's description
    #[arg(long)]
    why: String,
    #[command(flatten)]
    who: Who,
    /// The accounting date of the reversal, in an open period [default: that of the entry if its period is open, else today]
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    date: Option<NaiveDate>,
    /// Show what would be booked, and book nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask; without a terminal nothing is booked unless this is given
    #[arg(long)]
    yes: bool,
    #[arg(long)]
    json: bool,
}

impl Revert {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let operator = self.who.acting(&self.why)?;
        let desk = Desk::open(config).await?;
        let tenant = self.tenant.one(&desk).await?;
        let seq = self.entry.strip_prefix(&format!("{tenant}/")).unwrap_or(&self.entry);
        let seq: i64 = seq.parse().ok().with_context(|| {
            WrongUsage(format!("`{}` is no entry of {tenant}, such as {tenant}/1042", printable(&self.entry)))
        })?;
        let request = RevertEntry::new(operator, tenant, seq, self.date).map_err(|error| match error {
            DeskError::Member { member, why } => WrongUsage(format!("--{member} {why}")).into(),
            error => anyhow::Error::from(error),
        })?;
        let shown = desk.rehearse_revert(&request).await?;
        if self.dry_run && self.json {
            super::print_json(&shown)?;
            return Ok(ExitCode::SUCCESS);
        }
        if !self.json {
            print(&shown);
        }
        if self.dry_run {
            println!("dry run; nothing was booked");
            return Ok(ExitCode::SUCCESS);
        }
        let answer = confirmed(self.yes, &format!("Reverse {}?", shown.reverses))?;
        if answer != Some(true) {
            return Ok(not_confirmed(answer));
        }
        let done = desk.revert(&request.confirmed(&shown)).await?;
        if self.json {
            super::print_json(&done)?;
        } else {
            let reason = why_that_date(done.date_reason, &done.reverses);
            println!("reversed {} by {}, dated {}: {reason}", done.reverses, done.entry_id, done.accounting_date);
            println!("hash {}", done.hash);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(shown: &RehearsedReversal) {
    println!("{}: {}", shown.reverses, printable(&shown.original_description));
    println!("reversal dated {}: {}", shown.accounting_date, why_that_date(shown.date_reason, &shown.reverses));
    for line in shown.lines.iter().take(LINES_SHOWN) {
        let side = match line.side {
            Side::Debit => "debit",
            Side::Credit => "credit",
        };
        println!("    {side:<6}  {:<12} {:>16} {}", line.account, line.amount, line.currency);
    }
    if shown.lines.len() > LINES_SHOWN {
        println!("    … and {} more; --json has all", shown.lines.len() - LINES_SHOWN);
    }
    println!("{}", balances_table(&shown.balances));
}

fn why_that_date(reason: DateReason, reverses: &str) -> String {
    match reason {
        DateReason::Asked => "as asked".to_owned(),
        DateReason::Original => format!("the date of {reverses}, whose period is open"),
        DateReason::Today => format!("today, because the period of {reverses} is closed"),
        DateReason::NextOpen => {
            format!("the next open period begins then; the periods of {reverses} and of today are closed")
        }
    }
}
