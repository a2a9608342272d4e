//! Arguments of queues and exchanges, and of the policies that act in their place.
//!
//! Enters: JSON (definitions file, management API) or the text of a refusal. Leaves: one comparable value, and
//! the AMQP table to declare with. What must never happen: two spellings of one key in two files; every key
//! that a rule of safety depends on is a constant here.

use std::{collections::BTreeMap, fmt};

use lapin::types::{AMQPValue, FieldTable};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

pub type Arguments = BTreeMap<String, Argument>;

/// The keys as queue arguments. A policy uses the same word without `x-` (see [`keys::in_policy`]).
pub mod keys {
    pub const X_QUEUE_TYPE: &str = "x-queue-type";
    pub const X_DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";
    pub const X_DEAD_LETTER_ROUTING_KEY: &str = "x-dead-letter-routing-key";
    pub const X_DEAD_LETTER_STRATEGY: &str = "x-dead-letter-strategy";
    pub const X_OVERFLOW: &str = "x-overflow";
    pub const X_DELIVERY_LIMIT: &str = "x-delivery-limit";
    pub const X_MAX_LENGTH: &str = "x-max-length";
    pub const X_MAX_LENGTH_BYTES: &str = "x-max-length-bytes";
    pub const X_MESSAGE_TTL: &str = "x-message-ttl";
    pub const X_EXPIRES: &str = "x-expires";
    /// An argument of exchanges, which have no `x-` before theirs.
    pub const ALTERNATE_EXCHANGE: &str = "alternate-exchange";

    /// The word a policy uses for an argument.
    pub fn in_policy(argument: &str) -> &str {
        argument.strip_prefix("x-").unwrap_or(argument)
    }
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    Flag(bool),
    Integer(i64),
    Text(String),
    /// A kind that the definitions never use (a list, a float); kept as text so that it can be shown.
    Other(String),
}

impl Argument {
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Flag(_) | Self::Text(_) | Self::Other(_) => None,
        }
    }

    /// The value as a policy's JSON definition spells it.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Flag(flag) => Value::from(*flag),
            Self::Integer(number) => Value::from(*number),
            Self::Text(text) | Self::Other(text) => Value::from(text.as_str()),
        }
    }

    fn to_amqp(&self) -> AMQPValue {
        match self {
            Self::Flag(flag) => AMQPValue::Boolean(*flag),
            // RabbitMQ compares integers by value whatever their width, so the widest one serves all.
            Self::Integer(number) => AMQPValue::LongLongInt(*number),
            Self::Text(text) | Self::Other(text) => AMQPValue::LongString(text.as_str().into()),
        }
    }
}

/// The table to declare with.
pub fn field_table(arguments: &Arguments) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in arguments {
        table.insert(key.as_str().into(), value.to_amqp());
    }
    table
}

impl From<Value> for Argument {
    fn from(value: Value) -> Self {
        match value {
            Value::Bool(flag) => Self::Flag(flag),
            Value::String(text) => Self::Text(text),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Self::Integer(integer),
                None => Self::Other(number.to_string()),
            },
            Value::Null | Value::Array(_) | Value::Object(_) => Self::Other(value.to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for Argument {
    /// Through [`Value`] and not by an untagged enum: with serde_json's `arbitrary_precision`, which any crate of the
    /// build may switch on, a number does not survive serde's buffering and an untagged `i64` would never match.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

/// A table that RabbitMQ writes as `{…}`, but as `[]` or leaves as `null` where it is empty.
pub(super) fn lenient_table<'de, D>(deserializer: D) -> Result<Arguments, D::Error>
where
    D: Deserializer<'de>,
{
    match Value::deserialize(deserializer)? {
        Value::Object(members) => Ok(members.into_iter().map(|(key, value)| (key, Argument::from(value))).collect()),
        Value::Null => Ok(Arguments::new()),
        Value::Array(items) if items.is_empty() => Ok(Arguments::new()),
        Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(de::Error::custom("expected a table of arguments"))
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Text(text) | Self::Other(text) => f.write_str(text),
        }
    }
}
