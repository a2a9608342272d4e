//! A message's properties and a message that leaves. Properties can be stored as text and come back whole, so that a
//! retry or a replay carries what the publisher sent. What would change its meaning on the way back is left out.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::wire::{DEATHS_HEADER, readable};

/// Headers that the broker adds, or that would multiply a message when it is published again.
const NOT_CARRIED: [&str; 3] = ["x-delivery-count", "CC", HIDDEN_KEYS];
/// RabbitMQ's header of further routing keys that it does not hand on.
const HIDDEN_KEYS: &str = "BCC";

/// Why and where from the broker dead-lettered a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    pub queue: String,
    pub reason: String,
    pub routing_key: Option<String>,
}

/// The properties of a message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Properties(BasicProperties);

impl Properties {
    pub(super) fn from_lapin(properties: BasicProperties) -> Self {
        Self(properties)
    }

    pub(super) fn into_lapin(self) -> BasicProperties {
        self.0.with_delivery_mode(2)
    }

    /// Writes the properties as the broker stores them elsewhere: JSON, exact for every AMQP type. What cannot be written is a text that nobody
    /// takes for properties.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_else(|error| error.to_string())
    }

    /// Reads properties from their text; `None`: it is no such text. A message without its properties may be another event, of another tenant.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self)
    }

    /// The properties that stay with a message while it waits with us: no expiry (nothing expires here), no priority (it would overtake), no
    /// broker headers. The user stays: the broker has validated it once, and nobody could do it again.
    #[must_use]
    pub fn carried(&self) -> Self {
        let from = &self.0;
        let mut headers = FieldTable::default();
        for (name, value) in from.headers().iter().flatten() {
            if !NOT_CARRIED.contains(&name.as_str()) && !is_death(name.as_str()) {
                headers.insert(name.clone(), value.clone());
            }
        }
        let mut to = BasicProperties::default().with_headers(headers);
        macro_rules! copy {
            ($($get:ident $set:ident),*) => { $(if let Some(value) = from.$get() { to = to.$set(value.clone()); })* };
        }
        copy!(
            content_type with_content_type, content_encoding with_content_encoding, correlation_id with_correlation_id,
            message_id with_message_id, timestamp with_timestamp, kind with_type, app_id with_app_id, reply_to with_reply_to, user_id with_user_id
        );
        Self(to)
    }

    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.0.content_type().as_ref().map(ShortString::as_str)
    }

    #[must_use]
    pub fn message_id(&self) -> Option<&str> {
        self.0.message_id().as_ref().map(ShortString::as_str)
    }

    #[must_use]
    pub fn correlation_id(&self) -> Option<&str> {
        self.0.correlation_id().as_ref().map(ShortString::as_str)
    }

    /// The user who published the message: the broker takes no other here than the one of the connection.
    #[must_use]
    pub fn user_id(&self) -> Option<&str> {
        self.0.user_id().as_ref().map(ShortString::as_str)
    }

    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        self.0.kind().as_ref().map(ShortString::as_str)
    }

    /// About how many bytes they take on the wire: enough to keep them within a frame.
    #[must_use]
    pub fn size(&self) -> usize {
        let texts = [
            self.0.content_type(),
            self.0.content_encoding(),
            self.0.correlation_id(),
            self.0.reply_to(),
            self.0.expiration(),
            self.0.message_id(),
            self.0.kind(),
            self.0.user_id(),
            self.0.app_id(),
            self.0.cluster_id(),
        ];
        let texts: usize = texts.into_iter().flatten().map(|text| text.as_str().len()).sum();
        texts + self.0.headers().as_ref().map_or(0, table_size)
    }

    /// About how many bytes their values take in memory: a value without any bytes of its own on the wire takes as much as others.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.0.headers().as_ref().map_or(0, table_memory)
    }

    /// A header that is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        match self.0.headers().as_ref()?.inner().get(name)? {
            AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
            AMQPValue::ShortString(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// A header that is a whole number, whichever width the sender chose.
    #[must_use]
    pub fn header_number(&self, name: &str) -> Option<i64> {
        Some(match self.0.headers().as_ref()?.inner().get(name)? {
            AMQPValue::ShortShortInt(n) => i64::from(*n),
            AMQPValue::ShortShortUInt(n) => i64::from(*n),
            AMQPValue::ShortInt(n) => i64::from(*n),
            AMQPValue::ShortUInt(n) => i64::from(*n),
            AMQPValue::LongInt(n) => i64::from(*n),
            AMQPValue::LongUInt(n) => i64::from(*n),
            AMQPValue::LongLongInt(n) => *n,
            _ => return None,
        })
    }

    /// Headers whose names start with `prefix`, as text, in name order.
    pub fn headers_starting<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let names = self.0.headers().iter().flat_map(|table| table.inner().keys());
        names.filter_map(move |name| {
            let name = name.as_str();
            name.starts_with(prefix).then(|| self.header(name).map(|value| (name, value))).flatten()
        })
    }

    /// The broker's record of why it dead-lettered: queue and reason of the newest death.
    #[must_use]
    pub fn death(&self) -> Option<Death> {
        let AMQPValue::FieldArray(deaths) = self.0.headers().as_ref()?.inner().get(DEATHS_HEADER)? else { return None };
        let AMQPValue::FieldTable(newest) = deaths.as_slice().first()? else { return None };
        let text = |name: &str| match newest.inner().get(name)? {
            AMQPValue::FieldArray(list) => long_text(list.as_slice().first()?),
            value => long_text(value),
        };
        Some(Death { queue: text("queue")?, reason: text("reason")?, routing_key: text("routing-keys") })
    }

    /// Tells whether there is a record of deaths, in whatever form.
    #[must_use]
    pub fn has_deaths(&self) -> bool {
        self.0.headers().as_ref().is_some_and(|headers| headers.inner().contains_key(DEATHS_HEADER))
    }

    #[must_use]
    pub fn with_header(self, name: &str, value: &str) -> Self {
        self.with_headers([(name, Some(value))], [])
    }

    #[must_use]
    pub fn with_number(self, name: &str, value: i64) -> Self {
        self.with_headers([], [(name, Some(value))])
    }

    #[must_use]
    pub fn without_header(self, name: &str) -> Self {
        let kept = self.0.headers().iter().flatten().filter(|(known, _)| known.as_str() != name);
        let kept: BTreeMap<_, _> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self(self.0.with_headers(kept.into()))
    }

    /// Texts and whole numbers at once: each call copies all headers.
    #[must_use]
    pub fn with_headers<'a>(
        self,
        texts: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
        numbers: impl IntoIterator<Item = (&'a str, Option<i64>)>,
    ) -> Self {
        let mut headers = self.0.headers().clone().unwrap_or_default();
        for (name, value) in texts.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            headers.insert(short(name), AMQPValue::LongString(value.into()));
        }
        for (name, value) in numbers.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            headers.insert(short(name), AMQPValue::LongLongInt(value));
        }
        let none = headers.inner().is_empty();
        if none { self } else { Self(self.0.with_headers(headers)) }
    }

    #[must_use]
    pub fn with_content_type(self, value: &str) -> Self {
        Self(self.0.with_content_type(short(value)))
    }

    #[must_use]
    pub fn with_user_id(self, value: &str) -> Self {
        Self(self.0.with_user_id(short(value)))
    }

    #[must_use]
    pub fn with_kind(self, value: &str) -> Self {
        Self(self.0.with_type(short(value)))
    }

    #[must_use]
    pub fn with_correlation_id(self, value: &str) -> Self {
        Self(self.0.with_correlation_id(short(value)))
    }

    #[must_use]
    pub fn with_message_id(self, value: &str) -> Self {
        Self(self.0.with_message_id(short(value)))
    }

    /// The properties with a routing key that the broker takes out again before anybody sees it.
    pub(super) fn with_hidden_key(self, key: &str) -> Self {
        let keys = AMQPValue::FieldArray(vec![AMQPValue::LongString(key.into())].into());
        let mut headers = self.0.headers().clone().unwrap_or_default();
        headers.insert(HIDDEN_KEYS.into(), keys);
        Self(self.0.with_headers(headers))
    }

    #[must_use]
    pub fn with_timestamp(self, seconds: i64) -> Self {
        Self(self.0.with_timestamp(u64::try_from(seconds).unwrap_or(0)))
    }
}

fn long_text(value: &AMQPValue) -> Option<String> {
    let AMQPValue::LongString(text) = value else { return None };
    // As `wire` makes it where the same text is a routing key.
    Some(readable(text.as_bytes()))
}

fn table_size(table: &FieldTable) -> usize {
    table.into_iter().map(|(name, value)| name.as_str().len() + 2 + value_size(value)).sum()
}

fn value_size(value: &AMQPValue) -> usize {
    match value {
        AMQPValue::LongString(text) => text.len() + 4,
        AMQPValue::ShortString(text) => text.as_str().len() + 1,
        AMQPValue::ByteArray(bytes) => bytes.len() + 4,
        AMQPValue::FieldArray(list) => 4 + list.as_slice().iter().map(|value| 1 + value_size(value)).sum::<usize>(),
        AMQPValue::FieldTable(table) => 4 + table_size(table),
        AMQPValue::Boolean(_)
        | AMQPValue::ShortShortInt(_)
        | AMQPValue::ShortShortUInt(_)
        | AMQPValue::ShortInt(_)
        | AMQPValue::ShortUInt(_)
        | AMQPValue::LongInt(_)
        | AMQPValue::LongUInt(_)
        | AMQPValue::LongLongInt(_)
        | AMQPValue::Float(_)
        | AMQPValue::Double(_)
        | AMQPValue::DecimalValue(_)
        | AMQPValue::Timestamp(_)
        | AMQPValue::Void => 8,
    }
}

fn table_memory(table: &FieldTable) -> usize {
    let name = |name: &ShortString| size_of::<ShortString>() + name.as_str().len();
    table.into_iter().map(|(known, value)| name(known) + value_memory(value)).sum()
}

fn value_memory(value: &AMQPValue) -> usize {
    let beside = match value {
        AMQPValue::FieldArray(list) => list.as_slice().iter().map(value_memory).sum(),
        AMQPValue::FieldTable(table) => table_memory(table),
        plain => value_size(plain),
    };
    size_of::<AMQPValue>() + beside
}

fn is_death(name: &str) -> bool {
    name == DEATHS_HEADER || name.starts_with("x-first-death-") || name.starts_with("x-last-death-")
}

/// AMQP's short strings end at 255 bytes; lapin panics beyond. Longer text is cut at a character.
pub(super) fn short(text: &str) -> ShortString {
    let mut end = text.len().min(255);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    ShortString::from(text.get(..end).unwrap_or_default())
}

/// A message on its way out.
#[derive(Debug, Clone)]
pub struct OutMessage {
    pub exchange: String,
    pub routing_key: String,
    /// A second key by which the exchange finds queues. The broker takes it out of the message: a reader sees `routing_key`, by whichever its queue is
    /// bound, and a queue that is bound by both gets one copy.
    pub hidden_key: Option<String>,
    /// The identity by which a returned message is recognised; unique within a window.
    pub message_id: String,
    pub properties: Properties,
    pub body: Vec<u8>,
}

#[cfg(test)]
mod tests;
