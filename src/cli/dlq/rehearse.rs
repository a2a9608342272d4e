//! `fis dlq replay --dry-run`: the selection goes through decoding, rules, validation and the posting transaction against the
//! live books, and every transaction is rolled back.

use std::collections::BTreeMap;
use std::process::ExitCode;

use rust_decimal::Decimal;
use serde_json::json;

use crate::domain::chain::ChainedEntry;
use crate::domain::entry::Side;
use crate::domain::ids::TenantId;
use crate::journal::books::BooksShelf;
use crate::journal::report::read_balances;
use crate::journal::{PostError, Rehearsal, Verdict};
use crate::parking::imagined;
use crate::pipeline::Pipeline;
use crate::platform::amqp::Delivery;
use crate::platform::config::Config;
use crate::platform::postgres::{Fault, Postgres};
use crate::store::dead_letters::{Filter, Whole, whole_page};

/// Letters per rolled-back transaction. It locks the tenants' heads, so it must be short: live postings wait for it.
const CHUNK: i64 = 200;
/// Books may change under a rehearsal; it maps again, so often.
const TRIES: usize = 5;

type Account = (TenantId, String, String);

/// What would become of a selection.
#[derive(Default)]
pub struct Rehearsed {
    letters: u64,
    /// Of each letter, in order: it would be resolved.
    would: Vec<bool>,
    posted: u64,
    duplicate: u64,
    ignored: u64,
    /// May succeed later, by reason.
    held: BTreeMap<String, (u64, String)>,
    /// Would fail again, by reason, with one detail.
    fails: BTreeMap<String, (u64, String)>,
    /// Debits and credits that would be added.
    moved: BTreeMap<Account, (Decimal, Decimal)>,
    /// Debits and credits as they are.
    now: BTreeMap<Account, (Decimal, Decimal)>,
}

impl Rehearsed {
    pub async fn of(config: &Config, postgres: &Postgres, filter: &Filter) -> anyhow::Result<Self> {
        let books = BooksShelf::default();
        books.refresh(&postgres.pool).await?;
        let pipeline = Pipeline::for_rehearsal(config, postgres, books)?;
        let mut rehearsed = Self::default();
        let mut after = None;
        loop {
            let page = whole_page(&mut *postgres.pool.acquire().await?, filter, after.take(), CHUNK).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.letter.first_seen_at, last.letter.id.clone()));
            let messages: Vec<Delivery> = page.iter().map(message).collect();
            rehearsed.run(&pipeline, &messages).await?;
        }
        rehearsed.read_now(postgres).await?;
        Ok(rehearsed)
    }

    /// One edited copy instead of its letter.
    pub async fn of_messages(config: &Config, postgres: &Postgres, messages: &[Delivery]) -> anyhow::Result<Self> {
        let books = BooksShelf::default();
        books.refresh(&postgres.pool).await?;
        let pipeline = Pipeline::for_rehearsal(config, postgres, books)?;
        let mut rehearsed = Self::default();
        for chunk in messages.chunks(usize::try_from(CHUNK).unwrap_or(1)) {
            rehearsed.run(&pipeline, chunk).await?;
        }
        rehearsed.read_now(postgres).await?;
        Ok(rehearsed)
    }

    async fn run(&mut self, pipeline: &Pipeline, messages: &[Delivery]) -> anyhow::Result<()> {
        for _ in 0..TRIES {
            match pipeline.rehearse(messages).await {
                Ok(Rehearsal { verdicts, entries }) => {
                    self.count(&verdicts);
                    self.add(&entries);
                    return Ok(());
                }
                Err(PostError::StaleBooks) => _ = pipeline.books.refresh(&pipeline.postgres.pool).await?,
                Err(PostError::Sql(error)) => match Fault::of(&error) {
                    Fault::Refused { sqlstate, message } if messages.len() == 1 => {
                        self.letters += 1;
                        self.would.push(false);
                        let detail = format!("SQLSTATE {sqlstate}: {message}");
                        self.fails.entry("database_refused".to_owned()).or_insert((0, detail)).0 += 1;
                        return Ok(());
                    }
                    Fault::Refused { .. } => {
                        let (first, second) = messages.split_at(messages.len() / 2);
                        Box::pin(self.run(pipeline, first)).await?;
                        return Box::pin(self.run(pipeline, second)).await;
                    }
                    Fault::Away(_) => return Err(error.into()),
                },
            }
        }
        anyhow::bail!("the books change again and again; try the rehearsal later")
    }

    fn count(&mut self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            self.letters += 1;
            let resolved = match verdict {
                Verdict::Posted(_) | Verdict::Duplicate(_) | Verdict::Ignored => true,
                Verdict::Held(_) | Verdict::Rejected { .. } => false,
            };
            self.would.push(resolved);
            match verdict {
                Verdict::Posted(_) => self.posted += 1,
                Verdict::Duplicate(_) => self.duplicate += 1,
                Verdict::Ignored => self.ignored += 1,
                Verdict::Held(failure) => {
                    self.held.entry(failure.reason.code().to_owned()).or_insert((0, failure.detail.clone())).0 += 1;
                }
                Verdict::Rejected { failure, .. } => {
                    self.fails.entry(failure.reason.code().to_owned()).or_insert((0, failure.detail.clone())).0 += 1;
                }
            }
        }
    }

    fn add(&mut self, entries: &[ChainedEntry]) {
        for entry in entries {
            for line in &entry.lines {
                let account =
                    (entry.origin.tenant_id.clone(), line.account.as_str().to_owned(), line.currency.code().to_owned());
                let sums = self.moved.entry(account).or_default();
                match line.side {
                    Side::Debit => sums.0 += line.amount,
                    Side::Credit => sums.1 += line.amount,
                }
            }
        }
    }

    async fn read_now(&mut self, postgres: &Postgres) -> anyhow::Result<()> {
        let mut tenants: Vec<TenantId> = self.moved.keys().map(|(tenant, ..)| tenant.clone()).collect();
        tenants.dedup();
        let mut db = postgres.pool.acquire().await?;
        for tenant in tenants {
            for sum in read_balances(&mut db, &tenant).await? {
                let account = (tenant.clone(), sum.account.as_str().to_owned(), sum.currency.code().to_owned());
                self.now.insert(account, (sum.debit, sum.credit));
            }
        }
        Ok(())
    }

    /// Of each message, in order: it would be resolved.
    pub fn would(&self) -> &[bool] {
        &self.would
    }

    /// True where everything would be resolved.
    pub fn is_well(&self) -> bool {
        self.fails.is_empty() && self.held.is_empty()
    }

    /// Exit 0 where everything would be resolved; 1 where something would still fail or be held.
    pub fn tell(&self, json: bool) -> anyhow::Result<ExitCode> {
        if json {
            crate::cli::print_json(&self.as_json())?;
        } else {
            self.print();
        }
        Ok(if self.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    pub fn print(&self) {
        println!(
            "dry run over {}; nothing was changed",
            super::plural(i64::try_from(self.letters).unwrap_or(i64::MAX), "dead letter")
        );
        let rows = [
            (self.posted, "would post"),
            (self.duplicate, "are in the books already"),
            (self.ignored, "would be ignored"),
        ];
        for (count, what) in rows.into_iter().filter(|(count, _)| *count > 0) {
            println!("{count:>10}  {what}");
        }
        for (what, reasons) in [("would be held", &self.held), ("would fail again", &self.fails)] {
            for (reason, (count, detail)) in reasons {
                println!("{count:>10}  {}", super::as_in(&format!("{what}: {reason}"), detail));
            }
        }
        if self.moved.is_empty() {
            return;
        }
        let mut table = crate::cli::table(&["tenant", "account", "currency", "balance now", "then", "change"]);
        for (account, (debit, credit)) in &self.moved {
            let (tenant, code, currency) = account;
            let now = self.now.get(account).copied().unwrap_or_default();
            let (before, change) = (now.0 - now.1, debit - credit);
            let cells = [before, before + change, change].map(|amount| amount.to_string());
            let [before, then, change] = cells;
            table.add_row([tenant.as_str(), code, currency, &before, &then, &change]);
        }
        println!("{table}");
    }

    pub fn as_json(&self) -> serde_json::Value {
        let reasons = |reasons: &BTreeMap<String, (u64, String)>| {
            let one = |(reason, (letters, detail)): (&String, &(u64, String))| json!({ "reason": reason, "letters": letters, "detail": detail });
            reasons.iter().map(one).collect::<Vec<_>>()
        };
        let balances: Vec<_> = self
            .moved
            .iter()
            .map(|(account, (debit, credit))| {
                let (tenant, code, currency) = account;
                let now = self.now.get(account).copied().unwrap_or_default();
                json!({
                    "tenantId": tenant.as_str(), "account": code, "currency": currency,
                    "balanceNow": (now.0 - now.1).to_string(), "balanceThen": (now.0 - now.1 + debit - credit).to_string(),
                    "debit": debit.to_string(), "credit": credit.to_string(),
                })
            })
            .collect();
        json!({
            "letters": self.letters, "wouldPost": self.posted, "duplicate": self.duplicate, "ignored": self.ignored,
            "held": reasons(&self.held), "stillFails": reasons(&self.fails), "balances": balances,
        })
    }
}

fn message(whole: &Whole) -> Delivery {
    imagined(&whole.letter.routing_key, &whole.properties, whole.body.clone())
}
