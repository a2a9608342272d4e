//! One message of the feed: its bytes enter, the entry that they tell leaves, after its hash was computed from what they say.

use chrono::{DateTime, NaiveDate, Utc};
use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{FaultAt, FeedFault};
use crate::domain::chain::{ChainedEntry, Provenance};
use crate::domain::entry::{Line, Side};
use crate::domain::ids::{AccountCode, EventId, EventType, NameError, TenantId};
use crate::domain::money::Currency;
use crate::domain::outbound::OutboundKind;

/// A message as the broker handed it over.
#[derive(Debug, Clone, Copy, Default)]
pub struct Message<'a> {
    /// The AMQP property `type`.
    pub kind: Option<&'a str>,
    pub message_id: Option<&'a str>,
    /// The header `x-fis-tenant`.
    pub tenant: Option<&'a str>,
    /// The header `x-fis-sequence`.
    pub sequence: Option<i64>,
    pub body: &'a [u8],
}

/// The event that a message tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedEvent {
    /// An entry; its hash fits its contents.
    Journal(Box<ChainedEntry>),
    Rejected,
    BatchCompleted,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    specversion: String,
    id: String,
    r#type: String,
    time: DateTime<Utc>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    tenant_id: String,
    entry_id: String,
    sequence: i64,
    event_id: String,
    event_type: String,
    payload_hash: String,
    accounting_date: NaiveDate,
    original_date: Option<NaiveDate>,
    description: String,
    lines: Vec<DataLine>,
    rule: String,
    rule_version: i32,
    reverses: Option<String>,
    previous_hash: String,
    hash: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataLine {
    account: String,
    side: String,
    amount: String,
    currency: String,
    base_amount: String,
}

/// Reads a message and believes nothing in it that can be computed.
///
/// # Errors
/// It is no event of the feed, contradicts itself, or its hash is not that of its contents.
pub fn read(message: &Message<'_>) -> Result<FeedEvent, FaultAt> {
    // Where the body cannot be read, the headers still say which event it is.
    let at = |tenant_id: Option<&str>, sequence: Option<i64>, fault: FeedFault| FaultAt {
        tenant_id: tenant_id.map(ToOwned::to_owned),
        sequence,
        fault,
    };
    let beside = |fault: FeedFault| at(message.tenant, message.sequence, fault);
    let unreadable = |why: String| beside(FeedFault::Unreadable { why });
    let envelope: Envelope<'_> = serde_json::from_slice(message.body).map_err(|error| unreadable(error.to_string()))?;
    if envelope.specversion != "1.0" {
        return Err(unreadable(format!("specversion {} of CloudEvents", envelope.specversion)));
    }
    let kind = OutboundKind::ALL.into_iter().find(|kind| kind.routing_key() == envelope.r#type);
    let kind = kind.ok_or_else(|| unreadable(format!("type {}", envelope.r#type)))?;
    agree("type", &envelope.r#type, message.kind).map_err(beside)?;
    agree("id", &envelope.id, message.message_id).map_err(beside)?;
    match kind {
        OutboundKind::EventRejected => return Ok(FeedEvent::Rejected),
        OutboundKind::BatchCompleted => return Ok(FeedEvent::BatchCompleted),
        OutboundKind::JournalPosted | OutboundKind::JournalReverted => {}
    }
    let data: Data = serde_json::from_str(envelope.data.get()).map_err(|error| unreadable(format!("data: {error}")))?;
    let (tenant_id, sequence, entry_id) = (data.tenant_id.clone(), data.sequence, data.entry_id.clone());
    let here = |fault: FeedFault| at(Some(&tenant_id), Some(sequence), fault);
    agree("tenantId", &tenant_id, message.tenant).map_err(here)?;
    let beside_sequence = message.sequence.map(|sequence| sequence.to_string());
    agree("sequence", &sequence.to_string(), beside_sequence.as_deref()).map_err(here)?;
    let entry = entry(data, envelope.time).map_err(|why| here(FeedFault::Unreadable { why }))?;
    agree("entryId", &entry_id, Some(&entry.entry_id())).map_err(here)?;
    let computed = entry.compute_hash();
    if computed != entry.hash {
        return Err(here(FeedFault::Hash { computed, found: entry.hash }));
    }
    let reverts = kind == OutboundKind::JournalReverted;
    if reverts != entry.reverses_entry_id.is_some() {
        let why = format!("type {}, but `reverses` says otherwise", envelope.r#type);
        return Err(here(FeedFault::Unreadable { why }));
    }
    Ok(FeedEvent::Journal(Box::new(entry)))
}

fn agree(member: &'static str, inside: &str, beside: Option<&str>) -> Result<(), FeedFault> {
    if beside == Some(inside) {
        return Ok(());
    }
    let beside = beside.unwrap_or("nothing").to_owned();
    Err(FeedFault::Contradiction { member, inside: inside.to_owned(), beside })
}

fn entry(data: Data, time: DateTime<Utc>) -> Result<ChainedEntry, String> {
    fn name<T>(member: &str, text: &str, parse: fn(&str) -> Result<T, NameError>) -> Result<T, String> {
        parse(text).map_err(|error| format!("{member} {error}"))
    }
    if data.sequence < 1 {
        return Err(format!("sequence {}", data.sequence));
    }
    Ok(ChainedEntry {
        seq: data.sequence,
        origin: Provenance {
            tenant_id: name("tenantId", &data.tenant_id, TenantId::parse)?,
            event_id: name("eventId", &data.event_id, EventId::parse)?,
            event_type: name("eventType", &data.event_type, EventType::parse)?,
            payload_hash: data.payload_hash,
            rule_name: data.rule,
            rule_version: data.rule_version,
            // Neither told nor hashed.
            lane: "unknown",
            message_id: None,
            correlation_id: None,
            traceparent: None,
        },
        accounting_date: data.accounting_date,
        original_date: data.original_date,
        posted_at: time,
        description: data.description,
        reverses_entry_id: data.reverses,
        lines: data.lines.into_iter().map(line).collect::<Result<_, _>>()?,
        previous_hash: data.previous_hash,
        hash: data.hash,
    })
}

fn line(line: DataLine) -> Result<Line, String> {
    let amount = |text: &str| Decimal::from_str_exact(text).map_err(|_| format!("`{text}` is no amount"));
    Ok(Line {
        account: AccountCode::parse(&line.account).map_err(|error| format!("account {error}"))?,
        side: Side::parse(&line.side).ok_or_else(|| format!("`{}` is neither debit nor credit", line.side))?,
        amount: amount(&line.amount)?,
        currency: Currency::parse(&line.currency).ok_or_else(|| format!("`{}` is no currency", line.currency))?,
        base_amount: amount(&line.base_amount)?,
    })
}
