//! The desk: every act and every question of an operator, a publisher or a reader, one function each. A typed request enters, a typed
//! answer (`Serialize`, the JSON of `--json` and of the doors) or a `DeskError` leaves. Limits, rights and reasons are checked here, never in
//! a hand; nothing here reads a terminal, prints, or chooses an exit code.

mod error;
pub mod letters;

pub use error::{DeskError, Server};

use crate::platform::config::Config;
use crate::platform::postgres::Postgres;

/// The desk of one ledger.
#[derive(Clone)]
pub struct Desk {
    pub(crate) config: Config,
    pub(crate) postgres: Postgres,
}

impl Desk {
    /// Opens the desk of a database that has this program's version.
    ///
    /// # Errors
    /// The database is away, or of another version.
    pub async fn open(config: &Config) -> Result<Self, DeskError> {
        let postgres = Postgres::new(&config.database)?;
        postgres.check_version().await?;
        Ok(Self { config: config.clone(), postgres })
    }
}
