//! Exact JSON. Text enters; a tree that borrows from it leaves, with every number as the text it was written in.
//! What must never happen: a number passing through a float, two readings of one member, an unbounded recursion.
//!
//! | file | what it does |
//! |---|---|
//! | `read.rs` | the reader: RFC 8259 and nothing beside it |
//! | `members.rs` | an object's members, and the way to one of many |
//! | `text.rs` | the reader's strings and escapes |
//! | `number.rs` | the reader's numbers, and exact decimals from their text |
//! | `scan.rs` | finds the next byte of a string that needs care |
//! | `layout.rs` | a text with a member per line, for a person |
//! | `pointer.rs` | one value of a text replaced, and no other byte |
//! | `error.rs` | what was wrong, and where |

mod error;
mod layout;
mod members;
mod number;
pub mod pointer;
mod read;
pub(crate) mod scan;
#[cfg(test)]
mod tests;
mod text;

use std::borrow::Cow;

pub use error::{JsonError, JsonErrorKind};
pub use layout::laid_out;
pub use members::Members;
pub(crate) use number::Parts;
pub use number::{Number, NumberError, decimal_from_str};

/// Objects and arrays inside each other. Events are flat; 64 leaves room for wrapped foreign documents while the
/// reader, the canonical writer and `Drop`, which all recurse, stay within a few kilobytes of stack.
pub const DEPTH_MAX: usize = 64;
/// Longest number token. Real amounts have 20 characters; 256 keeps every later pass over a number short.
pub const NUMBER_CHARS_MAX: usize = 256;
/// Largest exponent either way. No amount comes near it, and the canonical form can write it as it is.
pub const EXPONENT_MAX: i32 = 9999;

/// One member of an object: its name and its value.
pub type Member<'a> = (Cow<'a, str>, Json<'a>);

/// A JSON value. Strings borrow from the source where no escape occurs; members stay in source order.
///
/// Equality is equality of the spelling (`1.0` differs from `1.00`, and so do other member orders); equality of
/// meaning is equality of [`crate::domain::canonical`] forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json<'a> {
    Null,
    Bool(bool),
    Number(Number<'a>),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Members<'a>),
}

/// Reads one JSON value that takes up the whole text.
///
/// # Errors
/// Anything RFC 8259 does not allow, and what the ledger refuses beyond it: a duplicate member, a NUL character,
/// a lone surrogate, a number or a nesting beyond the limits.
pub fn parse(text: &str) -> Result<Json<'_>, JsonError> {
    read::Reader::new(text).document()
}

impl<'a> Json<'a> {
    /// The member of that name; `None` where there is none, or where this is not an object.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        match self {
            Json::Object(members) => members.find(name).0,
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
        }
    }

    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => None,
        }
    }

    /// The elements of an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Json<'a>]> {
        match self {
            Json::Array(elements) => Some(elements),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => None,
        }
    }

    /// The members of an object, in source order.
    #[must_use]
    pub fn as_object(&self) -> Option<&[Member<'a>]> {
        match self {
            Json::Object(members) => Some(members.as_slice()),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
        }
    }

    /// The name that a person gives this kind of value; error texts are built from it.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "true or false",
            Json::Number(_) => "a number",
            Json::String(_) => "text",
            Json::Array(_) => "a list",
            Json::Object(_) => "an object",
        }
    }

    /// Turns the value into one that is no longer tied to the source text.
    #[must_use]
    pub fn into_owned(self) -> Json<'static> {
        match self {
            Json::Null => Json::Null,
            Json::Bool(truth) => Json::Bool(truth),
            Json::Number(number) => Json::Number(number.into_owned()),
            Json::String(text) => Json::String(Cow::Owned(text.into_owned())),
            Json::Array(elements) => Json::Array(elements.into_iter().map(Json::into_owned).collect()),
            Json::Object(members) => Json::Object(members.into_owned()),
        }
    }
}
