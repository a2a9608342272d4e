//! Why a text is not JSON the ledger accepts. A byte offset enters; a line and a column for people leave.
//! What must never happen: a message that quotes more of the body than the name of one member.

use std::fmt;

use super::{DEPTH_MAX, EXPONENT_MAX, NUMBER_CHARS_MAX};

/// A member name in a message is cut here: names come from outside and land in logs and terminals.
const NAME_CHARS_MAX: usize = 64;

/// The fault of a JSON text, and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at line {line}, column {column}")]
pub struct JsonError {
    pub kind: JsonErrorKind,
    /// Bytes before the offending one.
    pub offset: usize,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
}

/// The cause of a [`JsonError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonErrorKind {
    #[error("the text ends where {expected} should follow")]
    UnexpectedEnd { expected: &'static str },
    #[error("unexpected {}, {expected} should stand here", Shown(*found))]
    Unexpected { found: char, expected: &'static str },
    #[error("the text starts with a byte order mark")]
    ByteOrderMark,
    #[error("there is more text after the value")]
    TrailingData,
    #[error("the member `{}` occurs twice in one object", Name(name))]
    DuplicateMember { name: String },
    #[error("objects and arrays are nested deeper than {DEPTH_MAX}")]
    TooDeep,
    #[error("a control character in a string must be written as an escape")]
    ControlCharacter,
    #[error("the character NUL cannot be stored")]
    NulCharacter,
    #[error("unknown escape in a string")]
    BadEscape,
    #[error("half of a surrogate pair without the other half")]
    LoneSurrogate,
    #[error("a number starts with a superfluous zero")]
    LeadingZero,
    #[error("a number is longer than {NUMBER_CHARS_MAX} characters")]
    NumberTooLong,
    #[error("a number has an exponent beyond {EXPONENT_MAX}")]
    ExponentTooLarge,
}

/// A failure inside the reader: one pointer, so that the good case returns small values.
#[derive(Debug)]
pub(super) struct Failure(Box<(JsonErrorKind, usize)>);

impl Failure {
    #[cold]
    pub fn new(kind: JsonErrorKind, offset: usize) -> Failure {
        Failure(Box::new((kind, offset)))
    }

    /// Line and column are counted only now, when somebody will read them.
    pub fn locate(self, text: &str) -> JsonError {
        let (kind, offset) = *self.0;
        let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let line = before.split(|&byte| byte == b'\n').count();
        // A continuation byte (10xxxxxx) belongs to the character before it.
        let is_character = |byte: &&u8| **byte & 0b1100_0000 != 0b1000_0000;
        let column = 1 + before.iter().skip(line_start).filter(is_character).count();
        JsonError { kind, offset, line, column }
    }
}

/// A character as people can read it in a message: invisible ones by their code.
struct Shown(char);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_control() || (self.0.is_whitespace() && self.0 != ' ') {
            write!(f, "U+{:04X}", u32::from(self.0))
        } else {
            write!(f, "`{}`", self.0)
        }
    }
}

/// A member name, cut to a readable length and without control characters.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars().take(NAME_CHARS_MAX) {
            write!(f, "{}", if character.is_control() { '\u{FFFD}' } else { character })?;
        }
        if self.0.chars().nth(NAME_CHARS_MAX).is_some() { f.write_str("…") } else { Ok(()) }
    }
}
