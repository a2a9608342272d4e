//! The errors of the desk. A hand chooses an exit code or a status from the variant, never from the text.

use crate::domain::books::Mistake;
use crate::domain::operator::OperatorError;
use crate::journal::RevertError;
use crate::journal::books::BooksError;
use crate::platform::amqp::AmqpError;
use crate::platform::amqp::topology::{DefinitionsError, TopologyError};
use crate::platform::postgres::{PostgresError, error_text};
use crate::platform::signing::SigningError;
use crate::store::StoreError;
use crate::store::schema::SchemaError;

use super::feed::ResendStopped;

/// SQLSTATE *insufficient privilege*.
const NO_RIGHT: &str = "42501";

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
    /// One member of the request cannot be meant; a hand names it as its user knows it.
    #[error("{member} {why}")]
    Member { member: &'static str, why: String },
    /// The file of books has mistakes, each with its place; nothing was changed.
    #[error("the books have {} mistakes", mistakes.len())]
    Mistakes { mistakes: Vec<Mistake> },
    /// The configuration, or the version of the database, does not fit this program: no other request can mend it.
    #[error("{why}")]
    Setting { why: String },
    /// The ledger has no such tenant; `near` is the one that was probably meant.
    #[error("there is no tenant `{name}`{}", hint(near.as_deref()))]
    NoTenant { name: String, near: Option<String> },
    /// Letters that do not exist; nothing was done with the others either.
    #[error("{}", no_letters(ids))]
    NoLetters { ids: Vec<String> },
    #[error("there is no {what} `{name}`")]
    NotFound { what: &'static str, name: String },
    /// Nothing was found where the name alone would not explain it; `why` is the whole sentence.
    #[error("{why}")]
    Missing { why: String },
    /// Somebody was faster: nothing was done, look again.
    #[error("{what} changed meanwhile; nothing was done")]
    Changed { what: String },
    /// Other books were put in force since the plan was made; nothing was done.
    #[error("version {version} was applied meanwhile by {by}; look at the new plan")]
    Overtaken { version: i32, by: String },
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
    /// A part was sent again; the error says how far it came.
    #[error(transparent)]
    Stopped(ResendStopped),
    /// The hand could not take what the desk gave it: a full disk, a reader that left.
    #[error(transparent)]
    Sink(std::io::Error),
}

impl DeskError {
    /// The word for a script: what kind of trouble it is, whatever the text says.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } | Self::Member { .. } => "invalid",
            Self::Mistakes { .. } => "books_mistakes",
            Self::Setting { .. } => "wrong_setting",
            Self::NotFound { .. } | Self::Missing { .. } | Self::NoTenant { .. } | Self::NoLetters { .. } => {
                "not_found"
            }
            Self::Changed { .. } | Self::Overtaken { .. } => "stale",
            Self::Busy { .. } => "busy",
            Self::NotConfirmed { .. } => "confirmation_needed",
            Self::Refused { .. } => "refused",
            Self::Corrupt { .. } => "corrupt",
            Self::Away { server: Server::Broker, .. } | Self::Stopped(_) => "broker_away",
            Self::Away { server: Server::Postgres, .. } => "database_away",
            Self::Away { server: Server::Redis, .. } => "redis_away",
            Self::Sink(_) => "output_failed",
        }
    }
}

impl From<OperatorError> for DeskError {
    fn from(error: OperatorError) -> Self {
        Self::Invalid { why: error.to_string() }
    }
}

impl From<AmqpError> for DeskError {
    fn from(error: AmqpError) -> Self {
        let why = error.to_string();
        match error {
            AmqpError::Url { .. } | AmqpError::Vhosts { .. } | AmqpError::ManagementUrl { .. } => Self::Setting { why },
            _ => Self::Away { server: Server::Broker, why },
        }
    }
}

impl From<PostgresError> for DeskError {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::Url => Self::Setting { why: error.to_string() },
            PostgresError::Unreachable { .. } => Self::Away { server: Server::Postgres, why: error.to_string() },
            PostgresError::Sql(error) => error.into(),
        }
    }
}

impl From<SchemaError> for DeskError {
    fn from(error: SchemaError) -> Self {
        let why = whole_text(&error);
        match error {
            // Another program, or a migration, is needed; no request can mend it.
            SchemaError::Behind { .. } | SchemaError::Ahead { .. } | SchemaError::Changed { .. } => {
                Self::Refused { why }
            }
            SchemaError::Sql(error) => error.into(),
            SchemaError::Migrate(_) => Self::Away { server: Server::Postgres, why },
        }
    }
}

impl From<sqlx::Error> for DeskError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => {
                Self::Corrupt { what: "a row of the database".to_owned(), why: whole_text(&error) }
            }
            error => {
                let why = format!("PostgreSQL {}", error_text(&error));
                let code = error.as_database_error().and_then(|error| error.code());
                // The role may not: no time mends that.
                let is_right = code.as_deref() == Some(NO_RIGHT);
                if is_right { Self::Refused { why } } else { Self::Away { server: Server::Postgres, why } }
            }
        }
    }
}

impl From<StoreError> for DeskError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { what, name } => Self::NotFound { what, name },
            StoreError::Refused { .. } | StoreError::ReplayIs { .. } => Self::Refused { why: error.to_string() },
            StoreError::Changed { what } => Self::Changed { what },
            StoreError::Busy { what } => Self::Busy { what },
            StoreError::Away(error) => Self::from(error),
            StoreError::Corrupt { what, why } => Self::Corrupt { what, why },
        }
    }
}

impl From<BooksError> for DeskError {
    fn from(error: BooksError) -> Self {
        match error {
            BooksError::Mistakes(mistakes) => Self::Mistakes { mistakes },
            BooksError::Stored { tenant, version, first } => Self::Corrupt {
                what: format!("version {version} of the books of {tenant} in the database"),
                why: first,
            },
            BooksError::Overtaken { version, by } => Self::Overtaken { version, by },
            BooksError::Sql(error) => error.into(),
        }
    }
}

impl From<RevertError> for DeskError {
    fn from(error: RevertError) -> Self {
        match error {
            RevertError::OtherDate => Self::Changed { what: error.to_string() },
            RevertError::NoTenant(name) => Self::NoTenant { name, near: None },
            RevertError::NoEntry(_) => Self::Missing { why: error.to_string() },
            RevertError::Refused(failure) => Self::Refused { why: failure.to_string() },
            RevertError::Books(error) => error.into(),
            RevertError::Sql(error) => error.into(),
        }
    }
}

impl From<TopologyError> for DeskError {
    fn from(error: TopologyError) -> Self {
        Self::Away { server: Server::Broker, why: whole_text(&error) }
    }
}

impl From<DefinitionsError> for DeskError {
    fn from(error: DefinitionsError) -> Self {
        Self::Setting { why: whole_text(&error) }
    }
}

impl From<SigningError> for DeskError {
    fn from(error: SigningError) -> Self {
        Self::Setting { why: error.to_string() }
    }
}

fn no_letters(ids: &[String]) -> String {
    let named = ids.join("`, `");
    if ids.len() == 1 {
        format!("there is no dead letter `{named}`")
    } else {
        format!("there are no dead letters `{named}`")
    }
}

fn hint(near: Option<&str>) -> String {
    near.map_or_else(|| "; `fis tenants` lists them".to_owned(), |near| format!(", did you mean `{near}`?"))
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
