//! What is said when a rule cannot be read or cannot be evaluated. Facts enter; sentences for the author leave.
//! What must never happen: a word of Rust, or the contents of an event, in a message; names and paths only.

use super::STEPS_MAX;

/// A rule's text that is not an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    pub message: String,
    /// Bytes before the offending place in the source.
    pub offset: usize,
}

/// An expression that has no value for this event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{expression}`: {message}")]
pub struct EvalError {
    pub kind: EvalErrorKind,
    /// The expression or template as the author wrote it.
    pub expression: String,
    /// The member at fault, where it is one: `payload.lines[2].net`.
    pub path: Option<String>,
    pub message: String,
}

/// The cause of an [`EvalError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvalErrorKind {
    /// A member is not there.
    Missing,
    /// A value is of another kind than its place needs.
    WrongKind,
    /// A number has, or a result would need, more digits or decimals than are kept exactly.
    NotExact,
    DivisionByZero,
    /// The least or greatest element of a list without elements.
    EmptyList,
    /// The second argument of `round` is not a whole number within its range.
    BadDigits,
    /// A list, a text or the evaluation itself is larger than allowed.
    TooLarge,
}

/// An error on its way out of the evaluation: one pointer, so that the good case returns small values.
#[derive(Debug)]
pub(super) struct Fault(Box<EvalError>);

impl Fault {
    #[cold]
    pub fn new(kind: EvalErrorKind, path: Option<String>, message: String) -> Fault {
        Fault(Box::new(EvalError { kind, expression: String::new(), path, message }))
    }

    #[cold]
    pub fn too_many_steps() -> Fault {
        let message = format!("the rules take more than {STEPS_MAX} steps for this event");
        Fault::new(EvalErrorKind::TooLarge, None, message)
    }

    pub fn within(self, expression: &str) -> EvalError {
        EvalError { expression: expression.to_owned(), ..*self.0 }
    }
}

impl EvalError {
    /// The error of an evaluation that goes beyond the event's budget; `expression` is what was being looked at.
    #[must_use]
    pub fn too_many_steps(expression: &str) -> EvalError {
        Fault::too_many_steps().within(expression)
    }
}

impl ParseError {
    #[cold]
    pub(super) fn at(offset: usize, message: impl Into<String>) -> ParseError {
        ParseError { message: message.into(), offset }
    }
}
