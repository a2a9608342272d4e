//! The books in force. A file enters through `apply` (`books/apply.rs`) and becomes a new, immutable version; running instances hold the
//! newest compiled ones and look for newer every second. A posting transaction compares versions under the tenant's
//! lock, so an event is mapped wholly by one version, whatever this cache holds.

mod apply;

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool, Row};

use crate::domain::books::{Books, Mistake};
use crate::domain::ids::TenantId;

pub use apply::{Against, Applied, Outlook, apply, outlook, put_in_force};

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
    pub async fn refresh(&self, pool: &PgPool) -> Result<bool, BooksError> {
        let (tenants, versions): (Vec<String>, Vec<i32>) =
            self.view().iter().map(|(tenant, books)| (tenant.as_str().to_owned(), books.version)).unzip();
        let newer = sqlx::query(
            "select h.tenant_id, b.version, b.source
               from fis_chain_head h
               join fis_books b on b.tenant_id = h.tenant_id and b.version = h.books_version
               left join unnest($1::text[], $2::integer[]) as known (tenant_id, version) on known.tenant_id = h.tenant_id
              where known.version is distinct from h.books_version",
        )
        .bind(&tenants)
        .bind(versions)
        .fetch_all(pool)
        .await?;
        let gone: Vec<String> = sqlx::query_scalar(
            "select known from unnest($1::text[]) as known where not exists (select from fis_chain_head where tenant_id = known)",
        )
        .bind(&tenants)
        .fetch_all(pool)
        .await?;
        if newer.is_empty() && gone.is_empty() {
            return Ok(false);
        }
        let mut books = self.view().as_ref().clone();
        let mut changed = !gone.is_empty();
        // A restored database may not know a tenant any more.
        books.retain(|tenant, _| !gone.iter().any(|gone| gone == tenant.as_str()));
        for row in newer {
            let (version, source): (i32, &str) = (row.try_get("version")?, row.try_get("source")?);
            let compiled = match stored(row.try_get("tenant_id")?, version, source) {
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
    let row = sqlx::query(
        "select b.version, b.source
           from fis_chain_head h
           join fis_books b on b.tenant_id = h.tenant_id and b.version = h.books_version
          where h.tenant_id = $1",
    )
    .bind(tenant.as_str())
    .fetch_optional(db)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let (version, source): (i32, &str) = (row.try_get("version")?, row.try_get("source")?);
    stored(tenant.as_str(), version, source).map(Some)
}

/// Books that were checked when they were applied.
pub(super) fn stored(tenant: &str, version: i32, source: &str) -> Result<Books, BooksError> {
    Books::parse(source, version).map_err(|mistakes| BooksError::Stored {
        tenant: tenant.to_owned(),
        version,
        first: mistakes.first().map(ToString::to_string).unwrap_or_default(),
    })
}

/// One version as it was applied.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct StoredBooks {
    pub version: i32,
    pub applied_at: DateTime<Utc>,
    pub applied_by: String,
    pub source: String,
}

/// A version of a tenant's books, else the one in force.
///
/// # Errors
/// The database is away.
pub async fn read(pool: &PgPool, tenant: &str, version: Option<i32>) -> Result<Option<StoredBooks>, sqlx::Error> {
    sqlx::query_as(
        "select b.version, b.applied_at, b.applied_by, b.source
           from fis_books b
           join fis_chain_head h using (tenant_id)
          where b.tenant_id = $1 and b.version = coalesce($2, h.books_version)",
    )
    .bind(tenant)
    .bind(version)
    .fetch_optional(pool)
    .await
}

/// When a version was applied, and by whom.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct VersionLine {
    pub version: i32,
    pub applied_at: DateTime<Utc>,
    pub applied_by: String,
    pub in_force: bool,
}

/// More are seldom of interest at once; `show` reads each of them.
const VERSIONS_MAX: i64 = 1_000;

/// The newest versions first.
///
/// # Errors
/// The database is away.
pub async fn versions(pool: &PgPool, tenant: &str) -> Result<Vec<VersionLine>, sqlx::Error> {
    sqlx::query_as(
        "select b.version, b.applied_at, b.applied_by, b.version = h.books_version as in_force
           from fis_books b
           join fis_chain_head h using (tenant_id)
          where b.tenant_id = $1
          order by b.version desc
          limit $2",
    )
    .bind(tenant)
    .bind(VERSIONS_MAX)
    .fetch_all(pool)
    .await
}
