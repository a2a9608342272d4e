//! The errors of the store. A caller chooses by the variant what to do, and a door which status to answer with; the text is for a person.

use crate::domain::letter::ReplayState;
use crate::platform::postgres::Fault;

/// The outcome of a statement, or of an act made of a few, that was not done.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no {what} `{name}`")]
    NotFound { what: &'static str, name: String },
    /// Somebody was faster: nothing was done, look again.
    #[error("{what} changed meanwhile; nothing was done")]
    Changed { what: String },
    /// Somebody moves it this very moment: nothing was done, try again.
    #[error("{what} is being moved by somebody else; nothing was done")]
    Busy { what: String },
    /// A replay in this state cannot do what was asked: nothing was done.
    #[error("replay {id} is {state}; nothing was done")]
    ReplayIs { id: i64, state: ReplayState },
    /// The server is away, full, locked or in fail-over. Nothing is said about the data.
    #[error("the database does not answer")]
    Away(#[source] sqlx::Error),
    /// PostgreSQL refuses this data and always will.
    #[error("the database refuses it: {sqlstate} {message}")]
    Refused { sqlstate: String, message: String },
    /// A row holds what no version of this program has written.
    #[error("{what} cannot be read: {why}")]
    Corrupt { what: String, why: String },
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_) => {
                Self::Corrupt { what: "a row of the database".to_owned(), why: error.to_string() }
            }
            // Whatever may be missing is asked for as an `Option`.
            sqlx::Error::RowNotFound => Self::Corrupt { what: "an answer".to_owned(), why: "it has no row".to_owned() },
            error => match Fault::of(&error) {
                Fault::Refused { sqlstate, message } => Self::Refused { sqlstate, message },
                Fault::Away(_) => Self::Away(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_and_a_corrupt_row_are_told_apart() {
        let io = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert!(matches!(StoreError::from(io), StoreError::Away(_)));
        assert!(matches!(StoreError::from(sqlx::Error::PoolTimedOut), StoreError::Away(_)));
        assert!(matches!(StoreError::from(sqlx::Error::RowNotFound), StoreError::Corrupt { .. }));
        let decode = sqlx::Error::Decode("`lost` is no LetterStatus".into());
        assert!(matches!(StoreError::from(decode), StoreError::Corrupt { why, .. } if why.contains("lost")));
    }
}
