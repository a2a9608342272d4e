//! Putting books in force. A file enters; what it would change leaves, without a lock (`outlook`), and then a new version,
//! under the tenant's lock (`put_in_force`). What was not looked at is never applied: a plan made against a version that
//! is no longer in force is refused.

use sqlx::{PgConnection, PgPool};

use super::BooksError;
use crate::domain::books::{Books, Mistake, Plan};
use crate::domain::ids::TenantId;
use crate::journal::held::free_by_books;
use crate::store::books::{self as store, StoredBooks};
use crate::store::heads;
use crate::store::held::RELEASED_MAX;

/// The result of an apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub tenant_id: TenantId,
    pub version: i32,
    /// False: the file means what is in force already.
    pub changed: bool,
    /// Held events whose cause is gone under these books; they come back now.
    pub released: u64,
}

/// The plan of an apply, and the version that it was compared with.
#[derive(Debug, Clone)]
pub struct Outlook {
    pub tenant_id: TenantId,
    /// The version in force; none for a new tenant.
    pub version: Option<i32>,
    pub plan: Plan,
}

/// The version that the caller has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// The version in force, whichever it is: for callers that nobody shows a plan.
    InForce,
    /// This one (none: there are no books yet); another one is an error.
    Planned(Option<i32>),
}

/// Compares a file with the version in force. Also tells what only the ledger knows; nothing is locked or changed.
///
/// # Errors
/// Every mistake of the file; or the database is away.
pub async fn outlook(pool: &PgPool, source: &str) -> Result<Outlook, BooksError> {
    let books = Books::parse(source, 0).map_err(BooksError::Mistakes)?;
    let current = store::read(pool, books.tenant_id.as_str(), None).await?;
    let Some(StoredBooks { version, source: in_force, .. }) = current else {
        let plan = Plan::between(None, &books);
        return Ok(Outlook { tenant_id: books.tenant_id, version: None, plan });
    };
    check_against_ledger(&mut *pool.acquire().await?, &books, &in_force).await?;
    let plan = difference(&in_force, &books);
    Ok(Outlook { tenant_id: books.tenant_id, version: Some(version), plan })
}

/// A version that this program cannot read any more may still be replaced; then everything counts as added.
fn difference(in_force: &str, books: &Books) -> Plan {
    let before = Books::parse(in_force, 0).ok().filter(|before| before.tenant_id == books.tenant_id);
    Plan::between(before.as_ref(), books)
}

/// Puts a books file in force, whatever it replaces.
///
/// # Errors
/// As [`put_in_force`].
pub async fn apply(pool: &PgPool, source: &str, by: &str) -> Result<Applied, BooksError> {
    put_in_force(pool, source, by, Against::InForce).await
}

/// Puts a books file in force: checked whole, then stored as a new version under the tenant's lock.
///
/// # Errors
/// Every mistake of the file, also those that only the ledger can tell; another version came in between; or the
/// database is away.
pub async fn put_in_force(pool: &PgPool, source: &str, by: &str, against: Against) -> Result<Applied, BooksError> {
    let books = Books::parse(source, 0).map_err(BooksError::Mistakes)?;
    let tenant = &books.tenant_id;
    let mut transaction = pool.begin().await?;
    let mut version = 1;
    if let Some((current, in_force)) = lock_version(&mut transaction, tenant).await? {
        if let Against::Planned(seen) = against
            && seen != Some(current)
        {
            transaction.rollback().await?;
            let by = store::read(pool, tenant.as_str(), Some(current))
                .await?
                .map(|stored| stored.applied_by)
                .unwrap_or_default();
            return Err(BooksError::Overtaken { version: current, by });
        }
        if difference(&in_force, &books).is_empty() {
            transaction.rollback().await?;
            return Ok(Applied { tenant_id: books.tenant_id, version: current, changed: false, released: 0 });
        }
        check_against_ledger(&mut transaction, &books, &in_force).await?;
        version = current + 1;
    }
    store::insert(&mut transaction, tenant, version, source, by).await?;
    heads::set_books_version(&mut transaction, tenant, version).await?;
    let mut released = free_by_books(&mut transaction, &books).await?;
    transaction.commit().await?;
    // The books are in force, whatever becomes of this.
    match release_rest(pool, &books, version, released).await {
        Ok(rest) => released += rest,
        Err(error) => tracing::warn!(error = %error, "not every held event was released; they come back when due"),
    }
    Ok(Applied { tenant_id: books.tenant_id, version, changed: true, released })
}

/// Releases the rest where many events waited for these books, some at a time, for as long as the books are in force. Those
/// that a crash leaves out come back when they are due.
async fn release_rest(pool: &PgPool, books: &Books, version: i32, first: u64) -> Result<u64, BooksError> {
    let (mut last, mut released) = (first, 0);
    while last == RELEASED_MAX {
        let mut transaction = pool.begin().await?;
        let current = lock_version(&mut transaction, &books.tenant_id).await?;
        if current.is_none_or(|(current, _)| current != version) {
            break;
        }
        last = free_by_books(&mut transaction, books).await?;
        transaction.commit().await?;
        released += last;
    }
    Ok(released)
}

/// Locks the tenant's head and returns the version in force with its source; none for a tenant whose head this makes.
async fn lock_version(db: &mut PgConnection, tenant: &TenantId) -> Result<Option<(i32, String)>, BooksError> {
    let Some(current) = heads::lock_or_make(&mut *db, tenant).await? else { return Ok(None) };
    let source = store::source(db, tenant, current).await?;
    Ok(Some((current, source)))
}

/// Checks the file against facts that only the ledger knows: the base currency of a ledger with entries stays, and so do accounts with lines.
async fn check_against_ledger(db: &mut PgConnection, books: &Books, in_force: &str) -> Result<(), BooksError> {
    let tenant = &books.tenant_id;
    let mut mistakes = Vec::new();
    let mut mistake = |place: String, message: String| mistakes.push(Mistake { position: None, place, message });
    let seq = heads::last_seq(&mut *db, tenant).await?.unwrap_or_default();
    if let Some(before) = Books::base_currency_of(in_force)
        && seq > 0
        && before != books.base_currency.code()
    {
        let message = format!("entries are booked in {before}; it cannot become {}", books.base_currency);
        mistake("base_currency".to_owned(), message);
    }
    let used = store::used_accounts(db, tenant).await?;
    for code in used.iter().filter(|code| books.account(code).is_none()) {
        let message = "has lines and cannot be removed; set `closed = true` instead".to_owned();
        mistake(format!("account `{code}`"), message);
    }
    if mistakes.is_empty() { Ok(()) } else { Err(BooksError::Mistakes(mistakes)) }
}
