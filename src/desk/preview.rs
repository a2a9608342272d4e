//! The future of events, without booking anything. A body, or the lines that `fis publish` takes, enter; the outcome of each under its tenant's books
//! leaves. Events that cannot be read, and books that are not yet applied, need no server.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::publish::PublishedEvent;
use super::{Desk, DeskError};
use crate::domain::books::{Books, Mapped};
use crate::domain::disposition::{Disposition, Failure, Reason};
use crate::domain::entry::{BalancedEntry, Side};
use crate::domain::event::{InboundEvent, RawMessage, decode};
use crate::domain::ids::TenantId;
use crate::journal::books::{BooksError, in_force};
use crate::platform::config::Config;
use crate::platform::time;

/// Events that one preview takes: all answers are in memory at once, and nobody reads more.
const EVENTS_MAX: usize = 100_000;
/// The routing key of a body that came without one; no event can be of this type by itself.
const NO_KEY: &str = "-";

/// The member that names the routing key.
const ROUTING_KEY: &str = "routing-key";

/// Events to be looked at.
#[derive(Debug, Clone)]
pub struct PreviewRequest<'a> {
    /// One body; or several, or lines as [`PublishedEvent`] has them, one a line.
    pub input: &'a [u8],
    /// The tenant of an event that does not name one.
    pub tenant: Option<TenantId>,
    /// The routing key of bodies; lines have their own.
    pub routing_key: Option<&'a str>,
    /// Books that are not yet applied; none: the books in force.
    pub books: Option<&'a str>,
}

/// The outcome of one of several events.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PreviewedLine {
    /// The number of its line, from 1.
    pub line: u64,
    #[serde(flatten)]
    pub preview: Preview,
}

/// The event as it was read, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Preview {
    /// None: it cannot be read.
    #[serde(flatten)]
    pub event: Option<PreviewedEvent>,
    #[serde(flatten)]
    pub outcome: PreviewOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedEvent {
    pub dialect: &'static str,
    pub event_id: String,
    pub tenant_id: String,
    pub event_type: String,
    pub payload_hash: String,
    pub books_version: Option<i32>,
}

/// The outcome that the event would have now.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "outcome", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PreviewOutcome {
    Posted(PreviewedEntry),
    Reverted {
        rule: String,
        reverses_event: String,
        accounting_date: NaiveDate,
    },
    /// None: no rule matches, and the books ignore what none matches.
    Ignored {
        rule: Option<String>,
    },
    Held(PreviewedFailure),
    Rejected(PreviewedFailure),
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PreviewedFailure {
    pub reason: Reason,
    pub detail: String,
    pub advice: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedEntry {
    pub rule: String,
    pub description: String,
    pub accounting_date: NaiveDate,
    pub original_date: Option<NaiveDate>,
    pub period: Option<String>,
    pub lines: Vec<PreviewedEntryLine>,
    pub base_totals: BaseTotals,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedEntryLine {
    pub account: String,
    #[serde(rename = "accountName")]
    pub name: Option<String>,
    pub side: Side,
    pub amount: String,
    pub currency: &'static str,
    pub base_amount: String,
}

/// Debit and credit of an entry in the base currency.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BaseTotals {
    pub debit: String,
    pub credit: String,
    pub currency: &'static str,
}

impl Preview {
    /// True where the event would be posted, reversed or ignored.
    #[must_use]
    pub fn succeeds(&self) -> bool {
        match self.outcome {
            PreviewOutcome::Posted(_) | PreviewOutcome::Reverted { .. } | PreviewOutcome::Ignored { .. } => true,
            PreviewOutcome::Held(_) | PreviewOutcome::Rejected(_) => false,
        }
    }

    fn failed(event: Option<PreviewedEvent>, failure: Failure) -> Self {
        let told = PreviewedFailure { reason: failure.reason, detail: failure.detail, advice: failure.reason.advice() };
        let outcome = match failure.reason.disposition() {
            Disposition::Hold => PreviewOutcome::Held(told),
            Disposition::Reject => PreviewOutcome::Rejected(told),
        };
        Self { event, outcome }
    }
}

/// The outcomes of the events of a request, in their order. The ledger is asked only for its books, and only where an event can be read.
///
/// # Errors
/// The input is no events, or too many; the books of the request have mistakes; or the database is away.
pub async fn preview(config: &Config, request: &PreviewRequest<'_>) -> Result<Vec<PreviewedLine>, DeskError> {
    let mut shelf = match request.books {
        Some(source) => {
            Shelf::Given(Books::parse(source, 0).map_err(|mistakes| DeskError::Mistakes { mistakes })?.into())
        }
        None => Shelf::InForce { config, desk: None, books: BTreeMap::new() },
    };
    let default_tenant = request.tenant.clone().or_else(|| TenantId::parse(&config.intake.default_tenant).ok());
    let mut previews = Vec::new();
    for (line, candidate) in candidates(request)? {
        let preview = candidate.preview(line, default_tenant.as_ref(), &mut shelf).await?;
        previews.push(PreviewedLine { line, preview });
    }
    Ok(previews)
}

/// An event to be looked at.
enum Candidate<'a> {
    Body { body: &'a [u8], routing_key: Option<&'a str> },
    Line(Box<PublishedEvent>),
}

/// The members by which a line is told from a body.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LineShape {
    #[serde(rename = "routingKey")]
    _routing_key: IgnoredAny,
    #[serde(rename = "body")]
    _body: IgnoredAny,
}

/// The events of a request. Where the first line of the input is a whole JSON text, each line is an event; otherwise all of it is one.
fn candidates<'a>(request: &PreviewRequest<'a>) -> Result<Vec<(u64, Candidate<'a>)>, DeskError> {
    let is_blank = |text: &[u8]| text.iter().all(u8::is_ascii_whitespace);
    let lines = (1u64..).zip(request.input.split(|byte| *byte == b'\n')).filter(|(_, line)| !is_blank(line));
    let mut lines: Vec<(u64, &[u8])> = lines.collect();
    let first = lines.first().map_or(request.input, |(_, line)| line);
    if lines.is_empty() || lines.len() > 1 && serde_json::from_slice::<IgnoredAny>(first).is_err() {
        lines = vec![(1, request.input)];
    }
    if lines.len() > EVENTS_MAX {
        return Err(DeskError::Invalid { why: format!("a preview takes at most {EVENTS_MAX} events") });
    }
    let is_published = lines.first().is_some_and(|(_, first)| serde_json::from_slice::<LineShape>(first).is_ok());
    if !is_published {
        let routing_key = request.routing_key;
        return Ok(lines.into_iter().map(|(line, body)| (line, Candidate::Body { body, routing_key })).collect());
    }
    if request.routing_key.is_some() {
        let why = "is for bodies; these lines have routing keys of their own, leave it out".to_owned();
        return Err(DeskError::Member { member: ROUTING_KEY, why });
    }
    let parse = |(line, text): (u64, &[u8])| {
        let event = std::str::from_utf8(text).map_err(|error| DeskError::Invalid { why: error.to_string() });
        let event = event.and_then(PublishedEvent::parse);
        let event = event.map_err(|error| DeskError::Invalid { why: format!("line {line} is not valid: {error}") })?;
        Ok((line, Candidate::Line(Box::new(event))))
    };
    lines.into_iter().map(parse).collect()
}

impl Candidate<'_> {
    async fn preview(
        &self,
        line: u64,
        default_tenant: Option<&TenantId>,
        shelf: &mut Shelf<'_>,
    ) -> Result<Preview, DeskError> {
        let own = |name: &str| match self {
            Self::Line(event) => event.header(name),
            Self::Body { .. } => None,
        };
        let message = match self {
            Self::Body { body, routing_key } => {
                let routing_key = routing_key.unwrap_or(NO_KEY);
                RawMessage { body, routing_key, content_type: None, header: &own }
            }
            Self::Line(event) => event.raw(&own),
        };
        let event = match decode(message, default_tenant) {
            Ok(event) => event,
            Err(undecodable) => return Ok(Preview::failed(None, undecodable.failure)),
        };
        if event.event_type.as_str() == NO_KEY {
            let why = format!(
                "is needed: the event of line {line} does not name its type, so the routing key is its type. Or preview the line that \
                 you publish, {{\"routingKey\": \"…\", \"body\": {{…}}}}"
            );
            return Err(DeskError::Member { member: ROUTING_KEY, why });
        }
        match shelf.books_of(&event.tenant_id).await? {
            Ok(books) => Ok(outcome_of(&event, books)),
            Err((version, failure)) => Ok(Preview::failed(Some(told(&event, Some(version))), failure)),
        }
    }
}

/// The books by which events are looked at.
enum Shelf<'c> {
    Given(Box<Books>),
    InForce { config: &'c Config, desk: Option<Box<Desk>>, books: BTreeMap<TenantId, Found> },
}

/// The books of a tenant, where it has some; or the version that cannot be read, and why.
type Found = Result<Option<Books>, (i32, Failure)>;

impl Shelf<'_> {
    async fn books_of(&mut self, tenant: &TenantId) -> Result<Result<Option<&Books>, (i32, Failure)>, DeskError> {
        let (config, desk, books) = match self {
            Self::Given(books) => return Ok(Ok(Some(books))),
            Self::InForce { config, desk, books } => (config, desk, books),
        };
        if !books.contains_key(tenant) {
            let desk = match desk {
                Some(desk) => desk,
                None => desk.insert(Box::new(Desk::open(config).await?)),
            };
            let found = match in_force(&mut *desk.postgres.pool.acquire().await?, tenant).await {
                Err(error @ BooksError::Stored { version, .. }) => {
                    Err((version, Failure::new(Reason::BooksUnreadable, error.to_string())))
                }
                found => Ok(found?),
            };
            books.insert(tenant.clone(), found);
        }
        Ok(match books.get(tenant) {
            Some(Ok(found)) => Ok(found.as_ref()),
            Some(Err(failure)) => Err(failure.clone()),
            None => Ok(None),
        })
    }
}

fn told(event: &InboundEvent<'_>, books_version: Option<i32>) -> PreviewedEvent {
    PreviewedEvent {
        dialect: event.dialect.as_str(),
        event_id: event.event_id.to_string(),
        tenant_id: event.tenant_id.to_string(),
        event_type: event.event_type.to_string(),
        payload_hash: event.payload_hash.clone(),
        books_version,
    }
}

fn outcome_of(event: &InboundEvent<'_>, books: Option<&Books>) -> Preview {
    let told = Some(told(event, books.map(|books| books.version)));
    let Some(books) = books.filter(|books| books.tenant_id == event.tenant_id) else {
        let detail = format!("tenant `{}` has no books", event.tenant_id);
        return Preview::failed(told, Failure::new(Reason::UnknownTenant, detail));
    };
    let outcome = match books.map(event, time::now()) {
        Ok(Mapped::Ignored { rule }) => PreviewOutcome::Ignored { rule },
        Ok(Mapped::Reversal(request)) => PreviewOutcome::Reverted {
            rule: request.rule,
            reverses_event: request.original.to_string(),
            accounting_date: request.own_date,
        },
        Ok(Mapped::Entry { entry, rule }) => PreviewOutcome::Posted(told_entry(&entry, rule, books)),
        Err(failure) => return Preview::failed(told, failure),
    };
    Preview { event: told, outcome }
}

fn told_entry(entry: &BalancedEntry, rule: String, books: &Books) -> PreviewedEntry {
    let period = books.calendar.period_of(entry.accounting_date());
    let lines = entry.lines().iter().map(|line| PreviewedEntryLine {
        account: line.account.to_string(),
        name: books.account(line.account.as_str()).map(|account| account.name.clone()),
        side: line.side,
        amount: line.amount.to_string(),
        currency: line.currency.code(),
        base_amount: line.base_amount.to_string(),
    });
    PreviewedEntry {
        rule,
        description: entry.description().to_owned(),
        accounting_date: entry.accounting_date(),
        original_date: entry.original_date(),
        period: period.map(|period| period.name.clone()),
        lines: lines.collect(),
        base_totals: BaseTotals {
            debit: total(entry, Side::Debit).to_string(),
            credit: total(entry, Side::Credit).to_string(),
            currency: books.base_currency.code(),
        },
    }
}

fn total(entry: &BalancedEntry, side: Side) -> Decimal {
    entry.lines().iter().filter(|line| line.side == side).map(|line| line.base_amount).sum()
}
