//! The books in force. A file enters through `apply` and becomes a new, immutable version; running instances hold the
//! newest compiled ones and look for newer every second. A posting transaction compares versions under the tenant's
//! lock, so an event is mapped wholly by one version, whatever this cache holds.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use sqlx::{PgConnection, PgPool, Row};

use crate::domain::books::{Books, Mistake};
use crate::domain::chain::GENESIS;
use crate::domain::ids::TenantId;

#[derive(Debug, thiserror::Error)]
pub enum BooksError {
    #[error("the books have {} mistakes", .0.len())]
    Mistakes(Vec<Mistake>),
    #[error("version {version} of the books of {tenant} in the database cannot be read: {first}")]
    Stored { tenant: String, version: i32, first: String },
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

/// What an apply did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub tenant_id: TenantId,
    pub version: i32,
    /// False: the file is what is in force already.
    pub changed: bool,
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

    /// One tenant's books in force, straight from the database.
    ///
    /// # Errors
    /// The database is away, or holds books that this program cannot read.
    pub async fn one(pool: &PgPool, tenant: &TenantId) -> Result<Option<Books>, BooksError> {
        let row = sqlx::query(
            "select b.version, b.source
               from fis_chain_head h
               join fis_books b on b.tenant_id = h.tenant_id and b.version = h.books_version
              where h.tenant_id = $1",
        )
        .bind(tenant.as_str())
        .fetch_optional(pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let (version, source): (i32, &str) = (row.try_get("version")?, row.try_get("source")?);
        stored(tenant.as_str(), version, source).map(Some)
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

/// Books that were checked when they were applied.
pub(super) fn stored(tenant: &str, version: i32, source: &str) -> Result<Books, BooksError> {
    Books::parse(source, version).map_err(|mistakes| BooksError::Stored {
        tenant: tenant.to_owned(),
        version,
        first: mistakes.first().map(ToString::to_string).unwrap_or_default(),
    })
}

/// Puts a books file in force: checked whole, then stored as a new version under the tenant's lock.
///
/// # Errors
/// Every mistake of the file, also those that only the ledger can tell; or the database is away.
pub async fn apply(pool: &PgPool, source: &str, by: &str) -> Result<Applied, BooksError> {
    let books = Books::parse(source, 0).map_err(BooksError::Mistakes)?;
    let tenant = books.tenant_id.as_str();
    let mut transaction = pool.begin().await?;
    // The first version makes the head; whoever comes second waits here and then finds it.
    let first = sqlx::query(
        "insert into fis_chain_head (tenant_id, seq, hash, books_version) values ($1, 0, $2, 1) on conflict do nothing",
    )
    .bind(tenant)
    .bind(GENESIS)
    .execute(&mut *transaction)
    .await?;
    let mut version = 1;
    if first.rows_affected() == 0 {
        let head = sqlx::query("select seq, books_version from fis_chain_head where tenant_id = $1 for update")
            .bind(tenant)
            .fetch_one(&mut *transaction)
            .await?;
        let (seq, current): (i64, i32) = (head.try_get("seq")?, head.try_get("books_version")?);
        let in_force: String = sqlx::query_scalar("select source from fis_books where tenant_id = $1 and version = $2")
            .bind(tenant)
            .bind(current)
            .fetch_one(&mut *transaction)
            .await?;
        if in_force == source {
            transaction.rollback().await?;
            return Ok(Applied { tenant_id: books.tenant_id, version: current, changed: false });
        }
        check_against_ledger(&mut transaction, &books, &in_force, seq).await?;
        version = current + 1;
    }
    sqlx::query("insert into fis_books (tenant_id, version, source, applied_by) values ($1, $2, $3, $4)")
        .bind(tenant)
        .bind(version)
        .bind(source)
        .bind(by)
        .execute(&mut *transaction)
        .await?;
    sqlx::query("update fis_chain_head set books_version = $2 where tenant_id = $1")
        .bind(tenant)
        .bind(version)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(Applied { tenant_id: books.tenant_id, version, changed: true })
}

/// What a file cannot know: the base currency of a ledger with entries stays, and so do accounts with lines.
async fn check_against_ledger(
    db: &mut PgConnection,
    books: &Books,
    in_force: &str,
    seq: i64,
) -> Result<(), BooksError> {
    let mut mistakes = Vec::new();
    let before = Books::parse(in_force, 0).ok();
    if let Some(before) = before
        && seq > 0
        && before.base_currency != books.base_currency
    {
        let message =
            format!("entries are booked in {}; it cannot become {}", before.base_currency, books.base_currency);
        mistakes.push(Mistake { position: None, place: "base_currency".to_owned(), message });
    }
    let used: Vec<String> =
        sqlx::query_scalar("select distinct account_code from fis_account_balance where tenant_id = $1 order by 1")
            .bind(books.tenant_id.as_str())
            .fetch_all(db)
            .await?;
    for code in used.iter().filter(|code| books.account(code).is_none()) {
        let message = "has lines and cannot be removed; set `closed = true` instead".to_owned();
        mistakes.push(Mistake { position: None, place: format!("account `{code}`"), message });
    }
    if mistakes.is_empty() { Ok(()) } else { Err(BooksError::Mistakes(mistakes)) }
}
