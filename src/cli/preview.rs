//! `fis preview`: what would become of an event, without booking anything. With `--books` it needs no server.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use rust_decimal::Decimal;
use serde_json::{Value, json};

use super::printable;
use crate::domain::books::{Books, Mapped};
use crate::domain::disposition::Failure;
use crate::domain::entry::{BalancedEntry, Side};
use crate::domain::event::{InboundEvent, RawMessage, decode};
use crate::domain::ids::TenantId;
use crate::journal::books::{BooksError, in_force};
use crate::platform::config::Config;
use crate::platform::time;

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
        let tenant = self
            .tenant
            .as_deref()
            .map(TenantId::parse)
            .transpose()
            .map_err(|error| anyhow::anyhow!("the tenant {error}"))?;
        let header = |name: &str| tenant.as_ref().filter(|_| name == "x-fis-tenant").map(TenantId::as_str);
        let message = RawMessage { body: &body, routing_key: &self.routing_key, content_type: None, header: &header };
        let event = match decode(message, tenant.as_ref()) {
            Ok(event) => event,
            Err(undecodable) => return self.tell(&json!({}), Err(&undecodable.failure)),
        };
        let books = self.books_of(config, &event.tenant_id).await?;
        let facts = facts(&event, books.as_ref());
        let Some(books) = books.filter(|books| books.tenant_id == event.tenant_id) else {
            let detail = format!("tenant `{}` has no books", event.tenant_id);
            return self.tell(&facts, Err(&Failure::new(crate::domain::disposition::Reason::UnknownTenant, detail)));
        };
        match books.map(&event, time::now()) {
            Ok(mapped) => self.tell(&facts, Ok((&mapped, &books))),
            Err(failure) => self.tell(&facts, Err(&failure)),
        }
    }

    async fn books_of(&self, config: &Config, tenant: &TenantId) -> anyhow::Result<Option<Books>> {
        if let Some(file) = &self.books {
            let source = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            let mistakes = |mistakes: Vec<_>| BooksError::Mistakes(mistakes);
            return Ok(Some(Books::parse(&source, 0).map_err(mistakes).context("run `fis books check` on the file")?));
        }
        let postgres = super::database(config).await?;
        in_force(&mut *postgres.pool.acquire().await?, tenant).await.map_err(Into::into)
    }

    fn tell(&self, facts: &Value, outcome: Result<(&Mapped, &Books), &Failure>) -> anyhow::Result<ExitCode> {
        let told = match outcome {
            Ok((mapped, books)) => outcome_of(mapped, books),
            Err(failure) => json!({
                "outcome": match failure.reason.disposition() {
                    crate::domain::disposition::Disposition::Hold => "held",
                    crate::domain::disposition::Disposition::Reject => "rejected",
                },
                "reason": failure.reason.code(), "detail": failure.detail, "advice": failure.reason.advice(),
            }),
        };
        if self.json {
            let mut all = facts.clone();
            if let (Value::Object(all), Value::Object(told)) = (&mut all, told) {
                all.extend(told);
            }
            super::print_json(&all)?;
        } else {
            print_facts(facts);
            print_facts(&told);
            if let Ok((Mapped::Entry { entry, .. }, books)) = outcome {
                println!("{}", lines_table(entry, books));
            }
        }
        Ok(if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

fn facts(event: &InboundEvent<'_>, books: Option<&Books>) -> Value {
    json!({
        "dialect": format!("{:?}", event.dialect),
        "eventId": event.event_id.as_str(),
        "tenantId": event.tenant_id.as_str(),
        "eventType": event.event_type.as_str(),
        "payloadHash": event.payload_hash,
        "booksVersion": books.map(|books| books.version),
    })
}

fn outcome_of(mapped: &Mapped, books: &Books) -> Value {
    match mapped {
        Mapped::Ignored => json!({ "outcome": "ignored" }),
        Mapped::Reversal(request) => json!({
            "outcome": "reverted", "rule": request.rule, "reversesEvent": request.original.as_str(),
            "accountingDate": request.own_date.to_string(),
        }),
        Mapped::Entry { entry, rule } => {
            let (debit, credit) = (total(entry, Side::Debit), total(entry, Side::Credit));
            json!({
                "outcome": "posted", "rule": rule, "description": entry.description(),
                "accountingDate": entry.accounting_date().to_string(),
                "originalDate": entry.original_date().map(|date| date.to_string()),
                "period": books.calendar.period_of(entry.accounting_date()).map(|period| period.name.clone()),
                "lines": entry.lines().iter().map(|line| json!({
                    "account": line.account.as_str(), "name": books.account(line.account.as_str()).map(|account| account.name.clone()),
                    "side": line.side.as_str(), "amount": line.amount.to_string(), "currency": line.currency.code(),
                    "baseAmount": line.base_amount.to_string(),
                })).collect::<Vec<_>>(),
                "baseTotals": { "debit": debit.to_string(), "credit": credit.to_string(), "currency": books.base_currency.code() },
            })
        }
    }
}

fn total(entry: &BalancedEntry, side: Side) -> Decimal {
    entry.lines().iter().filter(|line| line.side == side).map(|line| line.base_amount).sum()
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
fn lines_table(entry: &BalancedEntry, books: &Books) -> comfy_table::Table {
    let base = books.base_currency.code();
    let mut table = super::table(&["account", "", "debit", "credit", &format!("in {base}")]);
    for line in entry.lines() {
        let name = books.account(line.account.as_str()).map_or("", |account| account.name.as_str());
        let amount = format!("{} {}", line.amount, line.currency);
        let (debit, credit) = match line.side {
            Side::Debit => (amount, String::new()),
            Side::Credit => (String::new(), amount),
        };
        table.add_row([line.account.as_str(), &printable(name), &debit, &credit, &line.base_amount.to_string()]);
    }
    table.add_row([
        "",
        "total",
        &format!("{} {base}", total(entry, Side::Debit)),
        &format!("{} {base}", total(entry, Side::Credit)),
        "",
    ]);
    for column in 2..5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    table
}
