//! `fis trial-balance`.

use std::process::ExitCode;

use chrono::NaiveDate;
use comfy_table::CellAlignment;
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::printable;
use crate::domain::books::Books;
use crate::domain::export::csv_row;
use crate::domain::ids::TenantId;
use crate::domain::trial_balance::{AccountSum, Total, TrialBalance};
use crate::journal::audit;
use crate::platform::config::Config;
use crate::store::journal::pages as report;

#[derive(clap::Args)]
pub struct Trial {
    /// Whose accounts
    #[arg(long, value_parser = super::tenant)]
    tenant: TenantId,
    /// The last accounting date that counts [default: all]
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    as_of: Option<NaiveDate>,
    /// In the base currency, a row per account
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

/// What the totals say.
enum Verdict {
    Balanced,
    /// Currencies differ because entries exchange one for another; each entry balances in the base currency.
    Exchanged,
    Broken(String),
}

const COLUMNS: [&str; 7] = ["account", "name", "type", "currency", "debit", "credit", "balance"];

impl Trial {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = super::database(config).await?;
        let mut transaction = postgres.pool.begin().await?;
        // The books, the sums and what explains them are of one moment.
        crate::store::read_one_moment(&mut transaction).await?;
        let books = super::books_of(&mut transaction, &self.tenant).await?;
        let base = self.base.then_some(books.base_currency);
        let sums = if self.is_kept() {
            report::read_balances(&mut transaction, &self.tenant).await?
        } else {
            report::sum_lines(&mut transaction, &self.tenant, self.as_of, base).await?
        };
        let trial = TrialBalance::new(sums)?;
        let verdict = self.verdict(&mut transaction, &trial).await?;
        transaction.rollback().await?;
        match if self.json { Format::Json } else { self.format } {
            Format::Table => print_table(&trial, &books, &verdict)?,
            Format::Csv => super::print_text(&as_csv(&trial, &books))?,
            Format::Json => super::print_json(&self.as_json(&trial, &books, &verdict))?,
        }
        if let Verdict::Broken(why) = &verdict {
            eprintln!("fis: the trial balance does not balance: {why}");
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The kept balances answer this; else the lines are summed.
    fn is_kept(&self) -> bool {
        self.as_of.is_none() && !self.base
    }

    /// Totals that differ are looked into: an entry may exchange currencies, and its rounding line stands in the base
    /// currency alone, but it may never be out of balance itself.
    async fn verdict(&self, db: &mut PgConnection, trial: &TrialBalance) -> anyhow::Result<Verdict> {
        if trial.is_balanced() {
            return Ok(Verdict::Balanced);
        }
        if let Some(seq) = report::find_unbalanced_entry(db, &self.tenant, self.as_of).await? {
            return Ok(Verdict::Broken(format!("the lines of entry {}/{seq} do not balance", self.tenant)));
        }
        if self.is_kept()
            && let Some(fault) = audit::balance_fault(db, self.tenant.as_str()).await?
        {
            return Ok(Verdict::Broken(fault));
        }
        Ok(if self.base { Verdict::Broken("debits and credits differ".to_owned()) } else { Verdict::Exchanged })
    }

    fn as_json(&self, trial: &TrialBalance, books: &Books, verdict: &Verdict) -> Value {
        let row = |sum: &AccountSum| {
            let [account, name, kind, currency, debit, credit, balance] = values(sum, books);
            json!({
                "account": account, "name": name, "type": kind, "currency": currency,
                "debit": debit, "credit": credit, "balance": balance,
            })
        };
        let total = |total: &Total| {
            let [debit, credit, difference] = total_values(total);
            json!({ "currency": total.currency.code(), "debit": debit, "credit": credit, "difference": difference })
        };
        json!({
            "tenantId": self.tenant.as_str(),
            "asOf": self.as_of.map(|date| date.to_string()),
            "baseCurrency": books.base_currency.code(),
            "accounts": trial.sums.iter().map(row).collect::<Vec<_>>(),
            "totals": trial.totals.iter().map(total).collect::<Vec<_>>(),
            "balanced": !matches!(verdict, Verdict::Broken(_)),
        })
    }
}

fn values(sum: &AccountSum, books: &Books) -> [String; 7] {
    let account = books.account(sum.account.as_str());
    let text = |amount| sum.currency.text(amount);
    [
        sum.account.as_str().to_owned(),
        account.map(|account| account.name.clone()).unwrap_or_default(),
        account.map(|account| account.kind.as_str()).unwrap_or_default().to_owned(),
        sum.currency.code().to_owned(),
        text(sum.debit),
        text(sum.credit),
        text(sum.balance()),
    ]
}

fn total_values(total: &Total) -> [String; 3] {
    [total.debit, total.credit, total.difference()].map(|amount| total.currency.text(amount))
}

/// Accounts only: the sum over a column is then the total.
fn as_csv(trial: &TrialBalance, books: &Books) -> String {
    let mut out = String::new();
    csv_row(COLUMNS, &mut out);
    for sum in &trial.sums {
        csv_row(values(sum, books).iter().map(String::as_str), &mut out);
    }
    out
}

fn print_table(trial: &TrialBalance, books: &Books, verdict: &Verdict) -> anyhow::Result<()> {
    let mut table = super::table(&COLUMNS);
    for column in table.column_iter_mut().skip(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for sum in &trial.sums {
        table.add_row(values(sum, books).map(|value| printable(&value)));
    }
    for total in &trial.totals {
        let [debit, credit, difference] = total_values(total);
        let currency = total.currency.code().to_owned();
        table.add_row(["total".to_owned(), String::new(), String::new(), currency, debit, credit, difference]);
    }
    let note = match verdict {
        Verdict::Exchanged => format!(
            "Totals differ where entries exchange one currency for another; each balances in {}, see --base.\n",
            books.base_currency
        ),
        Verdict::Balanced | Verdict::Broken(_) => String::new(),
    };
    super::print_text(&format!("{table}\n{note}"))
}
