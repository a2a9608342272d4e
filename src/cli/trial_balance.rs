//! `fis trial-balance`.

use std::process::ExitCode;

use chrono::NaiveDate;

use super::text::{grouped, numbers};
use super::{TenantArg, printable};
use crate::desk::Desk;
use crate::desk::trial_balance::{AccountRow, TotalsVerdict, TrialBalanceQuestion, TrialBalanceSheet};
use crate::domain::export::csv_row;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Trial {
    #[command(flatten)]
    tenant: TenantArg,
    /// The last accounting date that counts [default: all]
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    as_of: Option<NaiveDate>,
    /// Show the base currency, with a row per account
    #[arg(long)]
    base: bool,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Table,
    Csv,
    Json,
}

const COLUMNS: [&str; 7] = ["account", "name", "type", "currency", "debit", "credit", "balance"];

impl Trial {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let desk = Desk::open(config).await?;
        let question =
            TrialBalanceQuestion { tenant: self.tenant.one(&desk).await?, as_of: self.as_of, base: self.base };
        let sheet = desk.trial_balance(&question).await?;
        match if self.json { Format::Json } else { self.format } {
            Format::Table => print_table(&sheet)?,
            Format::Csv => super::print_text(&as_csv(&sheet))?,
            Format::Json => super::print_json(&sheet)?,
        }
        if let TotalsVerdict::Broken(why) = &sheet.verdict {
            eprintln!("fis: the trial balance does not balance: {why}");
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn values(row: &AccountRow) -> [&str; 7] {
    [&row.account, &row.name, row.kind, row.currency, &row.debit, &row.credit, &row.balance]
}

/// Accounts only: the sum over a column is then the total.
fn as_csv(sheet: &TrialBalanceSheet) -> String {
    let mut out = String::new();
    csv_row(COLUMNS, &mut out);
    for row in &sheet.accounts {
        csv_row(values(row), &mut out);
    }
    out
}

fn print_table(sheet: &TrialBalanceSheet) -> anyhow::Result<()> {
    let mut table = super::table(&COLUMNS);
    for row in &sheet.accounts {
        let [account, name, kind, currency, sums @ ..] = values(row);
        let [debit, credit, balance] = sums.map(grouped);
        table.add_row([
            printable(account),
            printable(name),
            kind.to_owned(),
            currency.to_owned(),
            debit,
            credit,
            balance,
        ]);
    }
    for total in &sheet.totals {
        let [debit, credit, difference] = [&total.debit, &total.credit, &total.difference].map(|sum| grouped(sum));
        let [word, none, currency] = ["total", "", total.currency].map(str::to_owned);
        table.add_row([word, none.clone(), none, currency, debit, credit, difference]);
    }
    numbers(&mut table, 4..7);
    let note = match sheet.verdict {
        TotalsVerdict::Exchanged => format!(
            "Totals differ where entries exchange one currency for another; each balances in {}, see --base.\n",
            sheet.base_currency
        ),
        TotalsVerdict::Balanced | TotalsVerdict::Broken(_) => String::new(),
    };
    super::print_text(&format!("{table}\n{note}"))
}
