//! The verdicts on events that were just published: messages enter before they are sent, and what the ledger says about each leaves. An event
//! counts as decided by what has changed since: no clock is compared with another machine's.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Desk, DeskError};
use crate::domain::event::{RawMessage, decode};
use crate::domain::ids::TenantId;
use crate::parking;
use crate::platform::amqp::{Delivery, OutMessage};
use crate::platform::time::Backoff;
use crate::store::receipts::{AskedEvent, EventState, states_of};

/// The first and the longest pause between two questions to the ledger: fis posts within milliseconds, and a person waits.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The end of one event, by the number that it was given.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineVerdict {
    pub line: u64,
    pub tenant_id: Option<String>,
    pub event_id: Option<String>,
    #[serde(flatten)]
    pub verdict: EventVerdict,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum EventVerdict {
    Posted {
        entry_id: String,
        sequence: i64,
    },
    Duplicate {
        entry_id: String,
        sequence: i64,
    },
    /// None: no rule matches, and the books ignore what none matches.
    Ignored {
        rule: Option<String>,
        books_version: i32,
    },
    Held {
        reason: String,
        detail: String,
    },
    Rejected {
        reason: String,
        detail: String,
        dead_letter_id: String,
    },
    /// None came before the deadline; the event is safe in its queue.
    Undecided,
}

impl EventVerdict {
    /// True where the event has come to its end: posted, a duplicate, or ignored by the books.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match self {
            Self::Posted { .. } | Self::Duplicate { .. } | Self::Ignored { .. } => true,
            Self::Held { .. } | Self::Rejected { .. } | Self::Undecided => false,
        }
    }
}

/// An event that is about to be sent, as fis will know it.
struct SentEvent {
    line: u64,
    message_id: String,
    /// The id of the letter that it becomes if it is rejected; also a message that cannot be read has one.
    letter_id: String,
    tenant_id: Option<String>,
    event_id: Option<String>,
    payload_hash: Option<String>,
}

impl SentEvent {
    fn of(line: u64, message: &OutMessage, default_tenant: Option<&TenantId>) -> Self {
        let OutMessage { routing_key, message_id, properties, body, .. } = message;
        let header = |name: &str| properties.header(name);
        let raw = RawMessage { body, routing_key, content_type: properties.content_type(), header: &header };
        let (tenant, event, payload_hash) = match decode(raw, default_tenant) {
            Ok(event) => (Some(event.tenant_id), Some(event.event_id), Some(event.payload_hash)),
            Err(undecodable) => (undecodable.identity.tenant_id, undecodable.identity.event_id, None),
        };
        let delivery = Delivery::imagined(routing_key.clone(), properties.clone(), body.clone());
        Self {
            line,
            message_id: message_id.clone(),
            letter_id: parking::letter_id(&delivery, routing_key),
            tenant_id: tenant.map(|id| id.to_string()),
            event_id: event.map(|id| id.to_string()),
            payload_hash,
        }
    }
}

/// The verdicts on windows of events.
pub(super) struct Verdicts {
    desk: Desk,
    deadline: Duration,
    /// The deadline has passed once.
    is_over: bool,
    expected: Vec<(SentEvent, EventState)>,
    told: Vec<LineVerdict>,
}

impl Verdicts {
    pub(super) fn new(desk: Desk, deadline: Duration) -> Self {
        Self { desk, deadline, is_over: false, expected: Vec::new(), told: Vec::new() }
    }

    pub(super) fn take(&mut self) -> Vec<LineVerdict> {
        std::mem::take(&mut self.told)
    }

    /// Remembers what the ledger says about events that are about to be sent.
    pub(super) async fn expect(&mut self, window: &[(u64, OutMessage)]) -> Result<(), DeskError> {
        let tenant = TenantId::parse(&self.desk.config.intake.default_tenant).ok();
        let sent = window.iter().map(|(line, message)| SentEvent::of(*line, message, tenant.as_ref()));
        let sent: Vec<SentEvent> = sent.collect();
        let before = self.ask(&sent.iter().collect::<Vec<_>>()).await?;
        self.expected = sent.into_iter().zip(before).collect();
        Ok(())
    }

    /// Waits until each of the confirmed events is decided, or the deadline passes.
    pub(super) async fn wait(&mut self, confirmed: &BTreeSet<u64>) -> Result<(), DeskError> {
        let mut pending = std::mem::take(&mut self.expected);
        pending.retain(|(sent, _)| confirmed.contains(&sent.line));
        let (since, mut pauses) = (Instant::now(), Backoff::new(PAUSES.0, PAUSES.1));
        let mut told = Vec::with_capacity(pending.len());
        while !pending.is_empty() {
            let now = self.ask(&pending.iter().map(|(sent, _)| sent).collect::<Vec<_>>()).await?;
            self.is_over |= since.elapsed() >= self.deadline;
            let mut still = Vec::new();
            for ((sent, before), now) in pending.into_iter().zip(now) {
                match verdict(&sent, &before, now) {
                    Some(verdict) => told.push(line_verdict(sent, verdict)),
                    None if self.is_over => told.push(line_verdict(sent, EventVerdict::Undecided)),
                    None => still.push((sent, before)),
                }
            }
            pending = still;
            if !pending.is_empty() {
                tokio::time::sleep(pauses.delay()).await;
            }
        }
        told.sort_by_key(|told| told.line);
        self.told.append(&mut told);
        Ok(())
    }

    async fn ask(&self, sent: &[&SentEvent]) -> Result<Vec<EventState>, DeskError> {
        let asked = sent.iter().map(|sent| AskedEvent {
            tenant_id: sent.tenant_id.as_deref(),
            event_id: sent.event_id.as_deref(),
            payload_hash: sent.payload_hash.as_deref(),
            letter_id: &sent.letter_id,
        });
        Ok(states_of(&mut *self.desk.postgres.pool.acquire().await?, &asked.collect::<Vec<_>>()).await?)
    }
}

fn line_verdict(sent: SentEvent, verdict: EventVerdict) -> LineVerdict {
    LineVerdict { line: sent.line, tenant_id: sent.tenant_id, event_id: sent.event_id, verdict }
}

/// The verdict on an event, by what the ledger said before it was sent and says now.
fn verdict(sent: &SentEvent, before: &EventState, now: EventState) -> Option<EventVerdict> {
    if let Some(entry) = now.entry.filter(|entry| Some(&entry.payload_hash) == sent.payload_hash.as_ref()) {
        let is_own = entry.message_id.as_ref() == Some(&sent.message_id);
        let (entry_id, sequence) = (entry.entry_id, entry.sequence);
        return Some(match is_own {
            true => EventVerdict::Posted { entry_id, sequence },
            false => EventVerdict::Duplicate { entry_id, sequence },
        });
    }
    let attempts = before.letter.as_ref().map_or(0, |letter| letter.attempts);
    if let Some(letter) = now.letter.filter(|letter| letter.attempts > attempts) {
        let (reason, detail, dead_letter_id) = (letter.reason, letter.detail, sent.letter_id.clone());
        return Some(EventVerdict::Rejected { reason, detail, dead_letter_id });
    }
    if let Some((reason, detail)) = now.held {
        return Some(EventVerdict::Held { reason, detail });
    }
    let ignored = now.ignored.filter(|ignored| before.ignored.as_ref() != Some(ignored))?;
    Some(EventVerdict::Ignored { rule: ignored.rule, books_version: ignored.books_version })
}
