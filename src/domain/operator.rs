//! The person or machine behind an act: who does it, why, and through what. Texts enter, an operator leaves; every act's request carries
//! one, and the operators' log keeps it. An act without a name is never recorded.

use std::fmt;

/// The longest reason, in bytes: a reason is a sentence, not a file.
pub const WHY_BYTES_MAX: usize = 500;
/// The longest name of an operator, in bytes.
pub const BY_BYTES_MAX: usize = 200;

/// The hand through which an act came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// A command of `fis` on some machine.
    CommandLine,
    /// The running service, by a setting of its own.
    Service,
}

impl Through {
    pub const ALL: &'static [Self] = &[Self::CommandLine, Self::Service];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CommandLine => "cli",
            Self::Service => "service",
        }
    }
}

impl fmt::Display for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OperatorError {
    #[error("nobody is named who does it")]
    Nobody,
    #[error("the name of who does it is longer than {BY_BYTES_MAX} bytes")]
    LongName,
    #[error("the name of who does it has a control character")]
    BadName,
    #[error("the reason is longer than {WHY_BYTES_MAX} bytes")]
    LongReason,
}

/// An operator with a reason. The texts are trimmed, bounded, and hold nothing that PostgreSQL cannot store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    by: String,
    why: String,
    through: Through,
}

impl Operator {
    /// # Errors
    /// Nobody is named, the name has a control character, or a text is too long.
    pub fn new(by: &str, why: &str, through: Through) -> Result<Self, OperatorError> {
        let (by, why) = (by.trim().to_owned(), clean(why));
        if by.is_empty() {
            return Err(OperatorError::Nobody);
        }
        if by.contains(char::is_control) {
            return Err(OperatorError::BadName);
        }
        if by.len() > BY_BYTES_MAX {
            return Err(OperatorError::LongName);
        }
        if why.len() > WHY_BYTES_MAX {
            return Err(OperatorError::LongReason);
        }
        Ok(Self { by, why, through })
    }

    #[must_use]
    pub fn by(&self) -> &str {
        &self.by
    }

    /// The reason; empty where an act needs none.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    #[must_use]
    pub fn through(&self) -> Through {
        self.through
    }
}

/// PostgreSQL text cannot hold NUL.
fn clean(text: &str) -> String {
    text.trim().replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_and_what_is_too_long_are_refused() {
        let named = |by: &str, why: &str| Operator::new(by, why, Through::CommandLine);
        assert_eq!(named("  ", "x"), Err(OperatorError::Nobody));
        assert_eq!(named(&"a".repeat(BY_BYTES_MAX + 1), "x"), Err(OperatorError::LongName));
        assert_eq!(named("an\u{1b}na", "x"), Err(OperatorError::BadName));
        assert_eq!(named("anna", &"w".repeat(WHY_BYTES_MAX + 1)), Err(OperatorError::LongReason));
        let anna = named(" anna ", " a\0b ").unwrap();
        assert_eq!((anna.by(), anna.why()), ("anna", "a\u{fffd}b"));
    }
}
