//! What leaves: a posted entry, a rejection or a complete batch enters, the bytes of a CloudEvents 1.0 event leave. The same entry always
//! gives the same bytes, so that a re-publication next year is identical.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::canonical::sha256_text;
use super::chain::{ChainedEntry, instant_text};
use super::dead_letter::DeadLetter;
use super::money::Currency;
use rust_decimal::Decimal;

pub const CONTENT_TYPE: &str = "application/cloudevents+json";

/// The kinds of outbound events; the routing key and the CloudEvents type are the same word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboundKind {
    JournalPosted,
    JournalReverted,
    EventRejected,
    BatchCompleted,
}

impl OutboundKind {
    pub const ALL: [Self; 4] = [Self::JournalPosted, Self::JournalReverted, Self::EventRejected, Self::BatchCompleted];

    #[must_use]
    pub fn routing_key(self) -> &'static str {
        match self {
            Self::JournalPosted => "fis.journal.posted",
            Self::JournalReverted => "fis.journal.reverted",
            Self::EventRejected => "fis.event.rejected",
            Self::BatchCompleted => "fis.batch.completed",
        }
    }
}

/// The key by which the readers of one tenant bind: the event's own, and the tenant behind it. A tenant's name may have dots, and no wildcard: whoever binds
/// `fis.*.*.acme` gets the events of `acme`, and none of `acme.eu` or `eu.acme`.
#[must_use]
pub fn key_of_tenant(routing_key: &str, tenant: &str) -> String {
    format!("{routing_key}.{tenant}")
}

/// An outbound event with what its AMQP properties need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundEvent {
    pub kind: OutboundKind,
    pub message_id: String,
    pub tenant_id: Option<String>,
    pub sequence: Option<i64>,
    pub correlation_id: Option<String>,
    pub traceparent: Option<String>,
    pub time: DateTime<Utc>,
    pub body: Vec<u8>,
}

#[derive(Serialize)]
struct CloudEvent<'a, D: Serialize> {
    specversion: &'static str,
    id: &'a str,
    source: &'a str,
    r#type: &'static str,
    subject: &'a str,
    time: String,
    datacontenttype: &'static str,
    data: D,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JournalData<'a> {
    tenant_id: &'a str,
    entry_id: &'a str,
    sequence: i64,
    event_id: &'a str,
    event_type: &'a str,
    payload_hash: &'a str,
    accounting_date: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_date: Option<String>,
    description: &'a str,
    lines: Vec<LineData<'a>>,
    rule: &'a str,
    rule_version: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reverses: Option<&'a str>,
    previous_hash: &'a str,
    hash: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LineData<'a> {
    account: &'a str,
    side: &'static str,
    amount: String,
    currency: &'static str,
    base_amount: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RejectedData<'a> {
    tenant_id: Option<&'a str>,
    event_id: Option<&'a str>,
    event_type: Option<&'a str>,
    routing_key: &'a str,
    message_id: Option<&'a str>,
    reason: &'static str,
    detail: &'a str,
    dead_letter_id: &'a str,
}

/// The amount as the journal hands it back: a zero comes without its decimals, and what is announced before it was read must have the same bytes.
fn stored_text(amount: Decimal) -> String {
    if amount.is_zero() { "0".to_owned() } else { amount.to_string() }
}

/// The event that announces an entry. Its id names the entry and the first half of its hash: stable for ever, and
/// different should a restored ledger give the same place to another entry.
#[must_use]
pub fn journal_event(entry: &ChainedEntry) -> OutboundEvent {
    let kind = match entry.reverses_entry_id {
        None => OutboundKind::JournalPosted,
        Some(_) => OutboundKind::JournalReverted,
    };
    let entry_id = entry.entry_id();
    let tenant = entry.origin.tenant_id.as_str();
    let message_id = format!("{entry_id}/{}", entry.hash.get(..32).unwrap_or(&entry.hash));
    let lines = entry.lines.iter().map(|line| LineData {
        account: line.account.as_str(),
        side: line.side.as_str(),
        amount: amount_text(line.amount, line.currency),
        currency: line.currency.code(),
        base_amount: stored_text(line.base_amount),
    });
    let data = JournalData {
        tenant_id: tenant,
        entry_id: &entry_id,
        sequence: entry.seq,
        event_id: entry.origin.event_id.as_str(),
        event_type: entry.origin.event_type.as_str(),
        payload_hash: &entry.origin.payload_hash,
        accounting_date: entry.accounting_date.to_string(),
        original_date: entry.original_date.map(|date| date.to_string()),
        description: &entry.description,
        lines: lines.collect(),
        rule: &entry.origin.rule_name,
        rule_version: entry.origin.rule_version,
        reverses: entry.reverses_entry_id.as_deref(),
        previous_hash: &entry.previous_hash,
        hash: &entry.hash,
    };
    OutboundEvent {
        kind,
        body: cloud_event(kind, &message_id, tenant, &entry_id, entry.posted_at, data),
        message_id,
        tenant_id: Some(tenant.to_owned()),
        sequence: Some(entry.seq),
        correlation_id: entry.origin.correlation_id.clone(),
        traceparent: entry.origin.traceparent.clone(),
        time: entry.posted_at,
    }
}

/// The event that tells a publisher that its event was not booked, and why. `now` and the place in
/// the batch make the id of each rejection different: the same dead letter may be rejected again.
#[must_use]
pub fn rejected_event(letter: &DeadLetter, now: DateTime<Utc>, index: usize) -> OutboundEvent {
    let tenant = letter.identity.tenant_id.as_ref().map(|id| id.as_str().to_owned());
    let message_id = format!("{}/{}-{index}", letter.id, now.timestamp_micros());
    let data = RejectedData {
        tenant_id: tenant.as_deref(),
        event_id: letter.identity.event_id.as_ref().map(super::ids::EventId::as_str),
        event_type: letter.identity.event_type.as_ref().map(super::ids::EventType::as_str),
        routing_key: &letter.routing_key,
        message_id: letter.message_id.as_deref(),
        reason: letter.failure.reason.code(),
        detail: &letter.failure.detail,
        dead_letter_id: &letter.id,
    };
    let kind = OutboundKind::EventRejected;
    OutboundEvent {
        kind,
        body: cloud_event(kind, &message_id, tenant.as_deref().unwrap_or("-"), &letter.id, now, data),
        message_id,
        tenant_id: tenant,
        sequence: None,
        correlation_id: letter.identity.correlation_id.clone(),
        traceparent: letter.traceparent.clone(),
        time: now,
    }
}

/// The numbers of a complete batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchCounts {
    pub total: i64,
    pub posted: i64,
    pub rejected: i64,
    pub ignored: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchData<'a> {
    tenant_id: &'a str,
    batch_id: &'a str,
    #[serde(flatten)]
    counts: BatchCounts,
}

/// The event that tells a publisher that every member of its batch has come to an end. Sent once per batch, so its id is
/// the batch's; as a digest, because a message id has at most 255 bytes.
#[must_use]
pub fn batch_completed_event(tenant: &str, batch: &str, counts: BatchCounts, now: DateTime<Utc>) -> OutboundEvent {
    let digest = sha256_text(batch.as_bytes());
    let message_id = format!("{tenant}/batch/{digest}");
    let kind = OutboundKind::BatchCompleted;
    let data = BatchData { tenant_id: tenant, batch_id: batch, counts };
    OutboundEvent {
        kind,
        body: cloud_event(kind, &message_id, tenant, batch, now, data),
        message_id,
        tenant_id: Some(tenant.to_owned()),
        sequence: None,
        correlation_id: None,
        traceparent: None,
        time: now,
    }
}

fn cloud_event(
    kind: OutboundKind,
    id: &str,
    tenant: &str,
    subject: &str,
    time: DateTime<Utc>,
    data: impl Serialize,
) -> Vec<u8> {
    let event = CloudEvent {
        specversion: "1.0",
        id,
        source: &format!("/fis/{tenant}"),
        r#type: kind.routing_key(),
        subject,
        time: instant_text(time),
        datacontenttype: "application/json",
        data,
    };
    // Strings, numbers and options cannot fail to serialise; an empty body would be refused by every reader.
    serde_json::to_vec(&event).unwrap_or_default()
}

fn amount_text(amount: Decimal, currency: Currency) -> String {
    let mut amount = amount;
    amount.rescale(currency.minor_units());
    amount.to_string()
}
