//! The desk: every act and every question of an operator, a publisher or a reader, one function each. A typed request enters, a typed
//! answer (`Serialize`, the JSON of `--json` and of the doors) or a `DeskError` leaves. Limits, rights and reasons are checked here, never in
//! a hand; nothing here reads a terminal, prints, or chooses an exit code.

pub mod batches;
pub mod books;
pub mod checkpoint;
pub mod entries;
mod error;
pub mod export;
pub mod feed;
pub mod held;
pub mod letters;
mod maps;
pub mod migration;
mod page;
pub mod preview;
pub mod publish;
pub mod receipts;
pub mod reversal;
pub mod setup;
pub mod status;
pub mod tenants;
pub mod tie_out;
pub mod topology;
pub mod trial_balance;
pub mod verdicts;
pub mod verify;

pub use error::{DeskError, Server};
pub use page::{LIMIT_MAX, Page};

use sqlx::PgConnection;

use crate::domain::books::Books;
use crate::domain::ids::TenantId;
use crate::domain::operator::Operator;
use crate::journal::books::in_force;
use crate::platform::config::Config;
use crate::platform::postgres::Postgres;
use crate::store::schema;

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
        postgres.reach().await?;
        schema::check_version(&postgres).await?;
        Ok(Self { config: config.clone(), postgres })
    }
}

/// The books in force of a tenant that must exist.
async fn books_of(db: &mut PgConnection, tenant: &TenantId) -> Result<Books, DeskError> {
    match in_force(&mut *db, tenant).await? {
        Some(books) => Ok(books),
        None => Err(tenants::no_tenant(db, tenant.as_str()).await?),
    }
}

/// One line of the log for an act that was done.
fn log_act(operator: &Operator, act: &str) {
    let (by, through, why) = (operator.by(), operator.through(), operator.why());
    tracing::info!(operator.by = by, operator.through = %through, operator.why = why, "{by} {act}");
}
