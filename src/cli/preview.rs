//! `fis preview`: what would become of an event, without booking anything. With `--books` it needs no server.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::Value;

use super::{parse_tenant, printable};
use crate::desk::DeskError;
use crate::desk::preview::{PreviewOutcome, PreviewRequest, PreviewedEntry, preview};
use crate::domain::entry::Side;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Preview {
    /// The event's body; `-` for standard input
    file: PathBuf,
    /// The tenant of an event that does not name one
    #[arg(long)]
    tenant: Option<String>,
    /// The routing key it would come with; also its type where it names none
    #[arg(long, default_value = "preview.event.received")]
    routing_key: String,
    /// Books that are not yet applied; needs no server
    #[arg(long, value_name = "FILE")]
    books: Option<PathBuf>,
    #[arg(long)]
    json: bool,
}

impl Preview {
    /// Exit 0 where the event would be posted, reversed or ignored; 1 where it would be held or rejected.
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let body = read(&self.file)?;
        let tenant = self.tenant.as_deref().map(parse_tenant).transpose()?;
        let source =
            |file: &PathBuf| std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()));
        let books = self.books.as_ref().map(source).transpose()?;
        let request = PreviewRequest { body: &body, tenant, routing_key: &self.routing_key, books: books.as_deref() };
        let told = match preview(config, &request).await {
            Err(error @ DeskError::Mistakes { .. }) => Err(error).context("run `fis books check` on the file")?,
            told => told?,
        };
        if self.json {
            super::print_json(&told)?;
        } else {
            print_facts(&serde_json::to_value(&told.event)?);
            print_facts(&serde_json::to_value(&told.outcome)?);
            if let PreviewOutcome::Posted(entry) = &told.outcome {
                println!("{}", lines_table(entry));
            }
        }
        Ok(if told.succeeds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    if file.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut body)?;
    } else {
        body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    Ok(body)
}

fn print_facts(facts: &Value) {
    for (name, value) in facts.as_object().into_iter().flatten() {
        match value {
            Value::String(text) => println!("{name:<16} {}", printable(text)),
            Value::Number(number) => println!("{name:<16} {number}"),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
        }
    }
}

/// Debits left, credits right, the base currency behind them.
fn lines_table(entry: &PreviewedEntry) -> comfy_table::Table {
    let totals = &entry.base_totals;
    let base = totals.currency;
    let mut table = super::table(&["account", "", "debit", "credit", &format!("in {base}")]);
    for line in &entry.lines {
        let name = printable(line.name.as_deref().unwrap_or_default());
        let amount = format!("{} {}", line.amount, line.currency);
        let (debit, credit) = match line.side {
            Side::Debit => (amount.as_str(), ""),
            Side::Credit => ("", amount.as_str()),
        };
        table.add_row([line.account.as_str(), &name, debit, credit, &line.base_amount]);
    }
    let (debit, credit) = (format!("{} {base}", totals.debit), format!("{} {base}", totals.credit));
    table.add_row(["", "total", &debit, &credit, ""]);
    for column in 2..5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    table
}
