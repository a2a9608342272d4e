//! What an expression is worth. Members of the event and results of operators enter; nothing is copied but numbers.
//! What must never happen: a number in any other form than an exact decimal.

use rust_decimal::Decimal;

use crate::domain::json::{Json, NumberError};

/// A value. Text, lists and objects borrow from the event or from the expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Decimal(Decimal),
    Text(&'a str),
    /// A list of the event.
    Array(&'a [Json<'a>]),
    /// An object of the event.
    Object(&'a Json<'a>),
    /// The values that `[*]` selected in the event.
    Items(Vec<&'a Json<'a>>),
    /// A list written in the expression.
    List(Vec<Value<'a>>),
}

impl<'a> Value<'a> {
    /// The value of a member.
    ///
    /// # Errors
    /// A number that is too long to be kept exactly.
    pub fn of(json: &'a Json<'a>) -> Result<Value<'a>, NumberError> {
        Ok(match json {
            Json::Null => Value::Null,
            Json::Bool(truth) => Value::Bool(*truth),
            Json::Number(number) => Value::Decimal(number.to_decimal()?),
            Json::String(text) => Value::Text(text),
            Json::Array(elements) => Value::Array(elements),
            Json::Object(_) => Value::Object(json),
        })
    }

    /// The name that a person gives this kind of value.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Decimal(_) => "a number",
            Value::Text(_) => "text",
            Value::Array(_) | Value::Items(_) | Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }

    /// The number of elements of a list; `None` for what is not a list.
    #[must_use]
    pub fn list_len(&self) -> Option<usize> {
        match self {
            Value::Array(elements) => Some(elements.len()),
            Value::Items(items) => Some(items.len()),
            Value::List(values) => Some(values.len()),
            Value::Null | Value::Bool(_) | Value::Decimal(_) | Value::Text(_) | Value::Object(_) => None,
        }
    }

    /// As [`number_bytes`], of the element at `index` of a list of the event.
    pub(super) fn number_bytes_at(&self, index: usize) -> usize {
        let element = match self {
            Value::Array(elements) => elements.get(index),
            Value::Items(items) => items.get(index).copied(),
            _ => None,
        };
        element.map_or(0, number_bytes)
    }

    /// The element at `index` of a list.
    pub(super) fn list_at(&self, index: usize) -> Option<Result<Value<'a>, NumberError>> {
        match self {
            Value::Array(elements) => elements.get(index).map(Value::of),
            Value::Items(items) => items.get(index).map(|json| Value::of(json)),
            Value::List(values) => values.get(index).cloned().map(Ok),
            Value::Null | Value::Bool(_) | Value::Decimal(_) | Value::Text(_) | Value::Object(_) => None,
        }
    }
}

/// The length of a number, which is read digit by digit; other values are taken as they are.
pub(super) fn number_bytes(json: &Json<'_>) -> usize {
    if let Json::Number(number) = json { number.text().len() } else { 0 }
}
