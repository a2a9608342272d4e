//! The errors of the desk. A hand chooses an exit code or a status from the variant, never from the text.

use crate::domain::operator::OperatorError;
use crate::platform::amqp::AmqpError;
use crate::platform::postgres::PostgresError;
use crate::store::StoreError;

/// The server that an act needs and that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    Broker,
    Postgres,
    Redis,
}

/// The outcome of an act or a question that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// The request cannot be meant; `why` says what would be right.
    #[error("{why}")]
    Invalid { why: String },
    #[error("there is no {what} `{name}`")]
    NotFound { what: &'static str, name: String },
    /// Somebody was faster: nothing was done, look again.
    #[error("{what} changed meanwhile; nothing was done")]
    Changed { what: String },
    /// Somebody else is at it this very moment; nothing was done.
    #[error("{what} is busy; nothing was done")]
    Busy { what: String },
    /// More than may be done without a confirmation; nothing was done.
    #[error("{what}; nothing was done without a confirmation")]
    NotConfirmed { what: String },
    /// The act is understood and refused: the books or the ledger forbid it.
    #[error("{why}")]
    Refused { why: String },
    /// The store holds what no version of this program has written.
    #[error("{what} cannot be read: {why}")]
    Corrupt { what: String, why: String },
    #[error("{why}")]
    Away { server: Server, why: String },
}

impl From<OperatorError> for DeskError {
    fn from(error: OperatorError) -> Self {
        Self::Invalid { why: error.to_string() }
    }
}

impl From<AmqpError> for DeskError {
    fn from(error: AmqpError) -> Self {
        Self::Away { server: Server::Broker, why: error.to_string() }
    }
}

impl From<PostgresError> for DeskError {
    fn from(error: PostgresError) -> Self {
        Self::Away { server: Server::Postgres, why: whole_text(&error) }
    }
}

impl From<sqlx::Error> for DeskError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => {
                Self::Corrupt { what: "a row of the database".to_owned(), why: whole_text(&error) }
            }
            error => Self::Away { server: Server::Postgres, why: format!("the database does not answer: {error}") },
        }
    }
}

impl From<StoreError> for DeskError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { what, name } => Self::NotFound { what, name },
            StoreError::Refused { .. } => Self::Refused { why: error.to_string() },
            StoreError::Changed { what } => Self::Changed { what },
            StoreError::Busy { what } => Self::Busy { what },
            StoreError::Away(error) => Self::from(error),
            StoreError::Corrupt { what, why } => Self::Corrupt { what, why },
        }
    }
}

/// An error with its causes, in one line.
fn whole_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
