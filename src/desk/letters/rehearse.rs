//! A rehearsal: a selection goes through decoding, rules, validation and the posting transaction against the live books, and every
//! transaction is rolled back. Letters or drafts enter; what would become of them, and of the balances, leaves.

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use serde::Serializer;

use super::{Filter, Letter};
use crate::desk::{Desk, DeskError, Server};
use crate::domain::chain::ChainedEntry;
use crate::domain::disposition::Reason;
use crate::domain::entry::Side;
use crate::domain::ids::TenantId;
use crate::intake::Lane;
use crate::journal::books::{BooksError, BooksShelf};
use crate::journal::{Came, PostError, Rehearsal, Verdict};
use crate::parking::imagined;
use crate::pipeline::{Pipeline, WaitingMessage};
use crate::platform::postgres::{Fault, Postgres};
use crate::store::dead_letters::whole_page;
use crate::store::held::LetterCopy;
use crate::store::journal::pages::read_balances;

/// Letters per rolled-back transaction. It locks the tenants' heads, so it must be short: live postings wait for it.
const CHUNK: i64 = 200;
/// Books may change under a rehearsal; it maps again, so often.
const TRIES: usize = 5;

/// The outcome that a selection would have. It counts the letters that would post, those that are in the books already, and those that a
/// rule would ignore.
#[derive(Debug, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rehearsed {
    pub letters: u64,
    pub would_post: u64,
    pub duplicate: u64,
    pub ignored: u64,
    /// May succeed later, by reason.
    pub held: Vec<ReasonCount>,
    /// Would fail again, by reason.
    pub still_fails: Vec<ReasonCount>,
    pub balances: Vec<BalanceChange>,
    /// Of each letter, in order: it would be resolved.
    #[serde(skip)]
    pub would: Vec<bool>,
}

/// Letters of one reason, with one of their details.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ReasonCount {
    pub reason: String,
    pub letters: u64,
    pub detail: String,
}

/// A balance as it is and as it would be.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BalanceChange {
    pub tenant_id: String,
    pub account: String,
    pub currency: String,
    #[serde(serialize_with = "as_text")]
    pub balance_now: Decimal,
    #[serde(serialize_with = "as_text")]
    pub balance_then: Decimal,
    #[serde(serialize_with = "as_text")]
    pub debit: Decimal,
    #[serde(serialize_with = "as_text")]
    pub credit: Decimal,
}

fn as_text<S: Serializer>(amount: &Decimal, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(amount)
}

impl Rehearsed {
    /// True where everything would be resolved.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.still_fails.is_empty() && self.held.is_empty()
    }
}

impl Desk {
    /// # Errors
    /// A letter that is named does not exist, nothing is selected, the database is away, or its books cannot be read or change all the time.
    pub async fn rehearse_letters(&self, filter: &Filter) -> Result<Rehearsed, DeskError> {
        self.named_letters(&filter.ids).await?;
        let mut run = Run::new(self).await?;
        let mut after = None;
        loop {
            let page = whole_page(&mut *self.postgres.pool.acquire().await?, filter, after.take(), CHUNK).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.letter.first_seen_at, last.letter.id.clone()));
            let messages: Vec<WaitingMessage> =
                page.into_iter().map(|whole| waiting(&whole.letter, &whole.properties, whole.body)).collect();
            run.rehearse(&messages).await?;
        }
        if run.counted.letters == 0 {
            return Err(super::nothing());
        }
        run.told(&self.postgres).await
    }

    /// A rehearsal of messages that are not in the store as they are here.
    pub(super) async fn rehearse_messages(&self, messages: &[WaitingMessage]) -> Result<Rehearsed, DeskError> {
        let mut run = Run::new(self).await?;
        for chunk in messages.chunks(usize::try_from(CHUNK).unwrap_or(1)) {
            run.rehearse(chunk).await?;
        }
        run.told(&self.postgres).await
    }
}

/// The message that a letter would be in a step of a replay.
pub(super) fn waiting(letter: &Letter, properties: &str, body: Vec<u8>) -> WaitingMessage {
    WaitingMessage {
        delivery: imagined(&letter.routing_key, properties, body),
        // The day is the locked letter's.
        came: Came::FromLetter { copy: LetterCopy { letter_id: letter.id.clone(), edit_no: None }, day: None },
        lane: Lane::Backfill,
        received_at: letter.first_seen_at,
        place: None,
    }
}

type Account = (TenantId, String, String);
type Counts = BTreeMap<String, (u64, String)>;

/// A rehearsal that is under way.
struct Run {
    pipeline: Pipeline,
    counted: Rehearsed,
    held: Counts,
    fails: Counts,
    /// Debits and credits that would be added.
    moved: BTreeMap<Account, (Decimal, Decimal)>,
}

impl Run {
    async fn new(desk: &Desk) -> Result<Self, DeskError> {
        let books = BooksShelf::default();
        books.refresh(&desk.postgres).await.map_err(unreadable)?;
        let pipeline = Pipeline::for_rehearsal(&desk.config, &desk.postgres, books)
            .map_err(|error| DeskError::Away { server: Server::Redis, why: error.to_string() })?;
        let (held, fails, moved) = (Counts::new(), Counts::new(), BTreeMap::new());
        Ok(Self { pipeline, counted: Rehearsed::default(), held, fails, moved })
    }

    async fn rehearse(&mut self, messages: &[WaitingMessage]) -> Result<(), DeskError> {
        for _ in 0..TRIES {
            match self.pipeline.rehearse(messages).await {
                Ok(Rehearsal { verdicts, entries }) => {
                    self.count(&verdicts);
                    self.add(&entries);
                    return Ok(());
                }
                Err(PostError::StaleBooks | PostError::Overtaken) => {
                    self.pipeline.refresh_books().await.map_err(unreadable)?;
                }
                Err(PostError::Sql(error)) => match Fault::of(&error) {
                    Fault::Refused { sqlstate, message } if messages.len() == 1 => {
                        self.counted.letters += 1;
                        self.counted.would.push(false);
                        let detail = format!("SQLSTATE {sqlstate}: {message}");
                        one_more(&mut self.fails, Reason::DatabaseRefused, &detail);
                        return Ok(());
                    }
                    Fault::Refused { .. } => {
                        let (first, second) = messages.split_at(messages.len() / 2);
                        Box::pin(self.rehearse(first)).await?;
                        return Box::pin(self.rehearse(second)).await;
                    }
                    Fault::Away(_) => return Err(error.into()),
                },
            }
        }
        Err(DeskError::Refused { why: "the books change again and again; try the rehearsal later".to_owned() })
    }

    fn count(&mut self, verdicts: &[Verdict]) {
        // A letter that somebody has moved meanwhile is none any more.
        for verdict in verdicts {
            self.counted.letters += u64::from(*verdict != Verdict::Gone);
            let resolved = match verdict {
                Verdict::Posted(_) | Verdict::Duplicate(_) | Verdict::Ignored => true,
                Verdict::Held(_) | Verdict::Rejected { .. } | Verdict::Gone => false,
            };
            self.counted.would.push(resolved);
            match verdict {
                Verdict::Posted(_) => self.counted.would_post += 1,
                Verdict::Duplicate(_) => self.counted.duplicate += 1,
                Verdict::Ignored => self.counted.ignored += 1,
                Verdict::Gone => {}
                Verdict::Held(failure) => one_more(&mut self.held, failure.reason, &failure.detail),
                Verdict::Rejected { failure, .. } => one_more(&mut self.fails, failure.reason, &failure.detail),
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

    /// The outcome, beside the balances as they are now.
    async fn told(self, postgres: &Postgres) -> Result<Rehearsed, DeskError> {
        let mut tenants: Vec<TenantId> = self.moved.keys().map(|(tenant, ..)| tenant.clone()).collect();
        tenants.dedup();
        let mut now: BTreeMap<Account, (Decimal, Decimal)> = BTreeMap::new();
        let mut db = postgres.pool.acquire().await?;
        for tenant in tenants {
            for sum in read_balances(&mut db, &tenant).await? {
                let account = (tenant.clone(), sum.account.as_str().to_owned(), sum.currency.code().to_owned());
                now.insert(account, (sum.debit, sum.credit));
            }
        }
        let change = |(key, (debit, credit)): (Account, (Decimal, Decimal))| {
            let now = now.get(&key).copied().unwrap_or_default();
            let (tenant, account, currency) = key;
            BalanceChange {
                tenant_id: tenant.to_string(),
                account,
                currency,
                balance_now: now.0 - now.1,
                balance_then: now.0 - now.1 + debit - credit,
                debit,
                credit,
            }
        };
        let balances = self.moved.into_iter().map(change).collect();
        Ok(Rehearsed { held: listed(self.held), still_fails: listed(self.fails), balances, ..self.counted })
    }
}

/// The first detail of a reason stands for the others.
fn one_more(counts: &mut Counts, reason: Reason, detail: &str) {
    counts.entry(reason.code().to_owned()).or_insert_with(|| (0, detail.to_owned())).0 += 1;
}

fn listed(counts: Counts) -> Vec<ReasonCount> {
    counts.into_iter().map(|(reason, (letters, detail))| ReasonCount { reason, letters, detail }).collect()
}

fn unreadable(error: BooksError) -> DeskError {
    match error {
        BooksError::Sql(error) => error.into(),
        BooksError::Stored { tenant, version, first } => {
            let what = format!("version {version} of the books of {tenant} in the database");
            DeskError::Corrupt { what, why: first }
        }
        // Neither happens where books are only read.
        error @ (BooksError::Mistakes(_) | BooksError::Overtaken { .. }) => {
            DeskError::Corrupt { what: "the books".to_owned(), why: error.to_string() }
        }
    }
}
