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

/// A tenant's books in force, as this program finds them.
#[derive(Debug, Clone)]
pub enum Shelved {
    Read(Arc<Books>),
    /// The version in force, and why it cannot be read: by this program, or by any.
    Unreadable {
        version: i32,
        why: Arc<str>,
    },
}

impl Shelved {
    #[must_use]
    pub fn books(&self) -> Option<&Arc<Books>> {
        match self {
            Self::Read(books) => Some(books),
            Self::Unreadable { .. } => None,
        }
    }

    /// Tells whether this says nothing new about books that cannot be read.
    fn is_known(&self, before: Option<&Self>) -> bool {
        match (self, before) {
            (Self::Unreadable { version, why }, Some(Self::Unreadable { version: other, why: before })) => {
                (version, why) == (other, before)
            }
            (Self::Read(_) | Self::Unreadable { .. }, _) => false,
        }
    }
}

/// The books of all tenants at one moment.
pub type BooksView = Arc<HashMap<TenantId, Shelved>>;

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
        let view = self.view();
        // What cannot be read is looked at every time: somebody may mend it where it stands.
        let read = |(tenant, shelved): (&TenantId, &Shelved)| Some((tenant.to_string(), shelved.books()?.version));
        let (read, versions): (Vec<String>, Vec<i32>) = view.iter().filter_map(read).unzip();
        let tenants: Vec<String> = view.keys().map(ToString::to_string).collect();
        let (newer, gone) = postgres
            .run(REFRESH, async |db| -> Result<_, sqlx::Error> {
                Ok((store::newer(&mut *db, &read, &versions).await?, store::gone(db, &tenants).await?))
            })
            .await?;
        if newer.is_empty() && gone.is_empty() {
            return Ok(false);
        }
        let mut books = view.as_ref().clone();
        let mut changed = !gone.is_empty();
        // A restored database may not know a tenant any more.
        books.retain(|tenant, _| !gone.iter().any(|gone| gone == tenant.as_str()));
        for BooksSource { tenant_id, version, source } in newer {
            // A head under a name that is no tenant's: no event has it.
            let Ok(tenant) = TenantId::parse(&tenant_id) else { continue };
            let shelved = match compiled(&tenant, version, &source) {
                Ok(compiled) => Shelved::Read(Arc::new(compiled)),
                Err(why) => Shelved::Unreadable { version, why: why.into() },
            };
            if shelved.is_known(books.get(&tenant)) {
                continue;
            }
            match &shelved {
                Shelved::Read(_) => {
                    tracing::info!(tenant.id = %tenant, books.version = version, "using version {version} of the books of {tenant}");
                }
                // One tenant's trouble is not everybody's: its events wait for books that can be read.
                Shelved::Unreadable { why, .. } => {
                    tracing::error!(tenant.id = %tenant, books.version = version, error = %why, "the books in force cannot be read; events of {tenant} are held");
                }
            }
            books.insert(tenant, shelved);
            changed = true;
        }
        if !changed {
            return Ok(false);
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
    stored(tenant, version, &source).map(Some)
}

/// Books that were checked when they were applied.
pub(super) fn stored(tenant: &TenantId, version: i32, source: &str) -> Result<Books, BooksError> {
    let unreadable = |first| BooksError::Stored { tenant: tenant.to_string(), version, first };
    compiled(tenant, version, source).map_err(unreadable)
}

/// A stored version, compiled, or what is wrong with it. A version that a head names and that is not there is an empty text.
fn compiled(tenant: &TenantId, version: i32, source: &str) -> Result<Books, String> {
    if source.is_empty() {
        return Err("it is missing".to_owned());
    }
    let first = |mistakes: Vec<Mistake>| mistakes.first().map(ToString::to_string).unwrap_or_default();
    let books = Books::parse(source, version).map_err(first)?;
    if books.tenant_id != *tenant {
        return Err(format!("it has the books of {}", books.tenant_id));
    }
    Ok(books)
}
