//! The future of an event, without booking anything. A body enters, the outcome under the tenant's books leaves. An event that cannot be
//! read, and books that are not yet applied, need no server.

use chrono::NaiveDate;
use rust_decimal::Decimal;

use super::{Desk, DeskError};
use crate::domain::books::{Books, Mapped};
use crate::domain::disposition::{Disposition, Failure, Reason};
use crate::domain::entry::{BalancedEntry, Side};
use crate::domain::event::{InboundEvent, RawMessage, decode};
use crate::domain::ids::TenantId;
use crate::domain::names::TENANT_HEADER;
use crate::journal::books::{BooksError, in_force};
use crate::platform::config::Config;
use crate::platform::time;

/// An event to be looked at.
#[derive(Debug, Clone)]
pub struct PreviewRequest<'a> {
    pub body: &'a [u8],
    /// The tenant of an event that does not name one.
    pub tenant: Option<TenantId>,
    pub routing_key: &'a str,
    /// Books that are not yet applied; none: the books in force.
    pub books: Option<&'a str>,
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
    pub dialect: String,
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
    Reverted { rule: String, reverses_event: String, accounting_date: NaiveDate },
    /// None: no rule matches, and the books ignore what none matches.
    Ignored { rule: Option<String> },
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
    pub lines: Vec<PreviewedLine>,
    pub base_totals: BaseTotals,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedLine {
    pub account: String,
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

/// The outcome of an event. The ledger is asked only for its books, and only where the event can be read.
///
/// # Errors
/// The books of the request have mistakes, or the database is away.
pub async fn preview(config: &Config, request: &PreviewRequest<'_>) -> Result<Preview, DeskError> {
    let tenant = request.tenant.as_ref();
    let header = |name: &str| tenant.filter(|_| name == TENANT_HEADER).map(TenantId::as_str);
    let message =
        RawMessage { body: request.body, routing_key: request.routing_key, content_type: None, header: &header };
    let event = match decode(message, tenant) {
        Ok(event) => event,
        Err(undecodable) => return Ok(Preview::failed(None, undecodable.failure)),
    };
    let books = match request.books {
        Some(source) => Some(Books::parse(source, 0).map_err(|mistakes| DeskError::Mistakes { mistakes })?),
        None => {
            let desk = Desk::open(config).await?;
            let found = in_force(&mut *desk.postgres.pool.acquire().await?, &event.tenant_id).await;
            match found {
                Err(error @ BooksError::Stored { version, .. }) => {
                    let failure = Failure::new(Reason::BooksUnreadable, error.to_string());
                    return Ok(Preview::failed(Some(told(&event, Some(version))), failure));
                }
                found => found?,
            }
        }
    };
    Ok(outcome_of(&event, books))
}

fn told(event: &InboundEvent<'_>, books_version: Option<i32>) -> PreviewedEvent {
    PreviewedEvent {
        dialect: format!("{:?}", event.dialect),
        event_id: event.event_id.to_string(),
        tenant_id: event.tenant_id.to_string(),
        event_type: event.event_type.to_string(),
        payload_hash: event.payload_hash.clone(),
        books_version,
    }
}

fn outcome_of(event: &InboundEvent<'_>, books: Option<Books>) -> Preview {
    let told = Some(told(event, books.as_ref().map(|books| books.version)));
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
        Ok(Mapped::Entry { entry, rule }) => PreviewOutcome::Posted(told_entry(&entry, rule, &books)),
        Err(failure) => return Preview::failed(told, failure),
    };
    Preview { event: told, outcome }
}

fn told_entry(entry: &BalancedEntry, rule: String, books: &Books) -> PreviewedEntry {
    let period = books.calendar.period_of(entry.accounting_date());
    let lines = entry.lines().iter().map(|line| PreviewedLine {
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
