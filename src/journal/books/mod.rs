//! The books in force. A file enters through `apply` (`books/apply.rs`) and becomes a new, immutable version; running instances hold the
//! newest compiled ones and look for newer every second. A posting transaction compares versions under the tenant's
//! lock, so an event is mapped wholly by one version, whatever this cache holds.

mod apply;

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use sqlx::PgConnection;

use crate::domain::books::{Books, Mistake};
use crate::domain::ids::TenantId;
use crate::platform::postgres::{Postgres, Work};
use crate::store::books::{self as store, BooksSource, StoredBooks};

pub use apply::{Against, Applied, Outlook, apply, outlook, put_in_force};

/// The look for newer books.
const REFRESH: Work = Work::of("journal.books");

#[derive(Debug, thiserror::Error)]
pub enum BooksError {
    #[error("the books have {} mistakes", .0.len())]
    Mistakes(Vec<Mistake>),
    #[error("version {version} of the books of {tenant} in the database cannot be read: {first}")]
    Stored { tenant: String, version: i32, first: String },
    #[error("version {version} was applied meanwhile by {by}; look at the new plan")]
    Overtaken { version: i32, by: String },
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

/// The books of all tenants at one moment.
pub type BooksView = Arc<HashMap<TenantId, Arc<Books>>>;

/// Compiled books of all tenants. Cloning shares them.
#[derive(Clone, Default)]
pub struct BooksShelf {
    current: Arc<RwLock<BooksView>>,
}

impl BooksShelf {
    /// All books as they are now; a batch maps with one such view.
    #[must_use]
    pub fn view(&self) -> BooksView {
        self.current.read().map(|current| Arc::clone(&current)).unwrap_or_default()
    }

    /// Loads what is newer in the database. True where something changed.
    ///
    /// # Errors
    /// The database is away.
    pub async fn refresh(&self, postgres: &Postgres) -> Result<bool, BooksError> {
        let (tenants, versions): (Vec<String>, Vec<i32>) =
            self.view().iter().map(|(tenant, books)| (tenant.as_str().to_owned(), books.version)).unzip();
        let (newer, gone) = postgres
            .run(REFRESH, async |db| -> Result<_, sqlx::Error> {
                Ok((store::newer(&mut *db, &tenants, &versions).await?, store::gone(db, &tenants).await?))
            })
            .await?;
        if newer.is_empty() && gone.is_empty() {
            return Ok(false);
        }
        let mut books = self.view().as_ref().clone();
        let mut changed = !gone.is_empty();
        // A restored database may not know a tenant any more.
        books.retain(|tenant, _| !gone.iter().any(|gone| gone == tenant.as_str()));
        for BooksSource { tenant_id, version, source } in newer {
            let compiled = match stored(&tenant_id, version, &source) {
                Ok(compiled) => compiled,
                // One tenant's trouble is not everybody's: its old books stay, its events wait for new ones.
                Err(error) => {
                    tracing::error!(error = %error, "books in the database cannot be used");
                    continue;
                }
            };
            tracing::info!(tenant.id = %compiled.tenant_id, books.version = version, "using version {version} of the books of {}", compiled.tenant_id);
            books.insert(compiled.tenant_id.clone(), Arc::new(compiled));
            changed = true;
        }
        if let Ok(mut current) = self.current.write() {
            *current = Arc::new(books);
        }
        Ok(changed)
    }
}

/// The books in force of one tenant, compiled, for a command that reads; `None`: there is no such tenant.
///
/// # Errors
/// The database is away, or holds books that this program cannot read.
pub async fn in_force(db: &mut PgConnection, tenant: &TenantId) -> Result<Option<Books>, BooksError> {
    let Some(StoredBooks { version, source, .. }) = store::read(db, tenant.as_str(), None).await? else {
        return Ok(None);
    };
    stored(tenant.as_str(), version, &source).map(Some)
}

/// The error of a version that a head names and that is not there.
pub(super) fn missing(tenant: &TenantId, version: i32) -> BooksError {
    BooksError::Stored { tenant: tenant.to_string(), version, first: "it is missing".to_owned() }
}

/// Books that were checked when they were applied.
pub(super) fn stored(tenant: &str, version: i32, source: &str) -> Result<Books, BooksError> {
    Books::parse(source, version).map_err(|mistakes| BooksError::Stored {
        tenant: tenant.to_owned(),
        version,
        first: mistakes.first().map(ToString::to_string).unwrap_or_default(),
    })
}
