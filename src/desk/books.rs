//! Books: checked, compared with what is in force, put in force, shown. A file's text enters; plans, mistakes and versions leave. Nothing
//! is put in force that nobody confirmed, and no plan that was made against other books than those in force.

use chrono::{DateTime, Utc};

use super::tenants::no_tenant;
use super::{Desk, DeskError, log_act};
use crate::domain::books::{Act, Books, Change, Mistake, Position, Thing};
use crate::domain::ids::TenantId;
use crate::domain::operator::Operator;
use crate::domain::period::Period;
use crate::journal::books::{self, Against, Outlook};
use crate::platform::printable::is_unfit;
use crate::store::books as stored;

/// A file of books without a mistake.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BooksCheck {
    pub tenant_id: String,
    pub accounts: usize,
    pub rules: usize,
    /// Always empty: mistakes are an error.
    pub mistakes: Vec<Mistake>,
}

/// The change from the books in force to a file, and whether it was made.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BooksChange {
    #[serde(serialize_with = "super::maps::text")]
    pub tenant_id: TenantId,
    /// The version in force now; none for a new tenant.
    pub version: Option<i32>,
    pub applied: bool,
    /// Held events whose cause is gone under these books; they come back now.
    pub released: u64,
    pub changes: Vec<Change>,
    /// Periods that the change closes: money that is dated in them will not post any more.
    #[serde(skip)]
    pub closes: Vec<Period>,
}

/// The wish to put a file in force.
#[derive(Debug, Clone)]
pub struct ApplyBooks<'a> {
    pub operator: Operator,
    pub source: &'a str,
    /// The version that the plan was made against; none: there were no books.
    pub against: Option<i32>,
    /// Somebody has seen the plan ([`Desk::plan_books`]) and wants it.
    pub confirmed: bool,
}

/// One version as it was applied.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BooksVersion {
    pub tenant_id: String,
    pub version: i32,
    pub applied_at: DateTime<Utc>,
    #[serde(rename = "by")]
    pub applied_by: String,
    pub source: String,
}

/// The versions of a tenant's books, newest first.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BooksHistory {
    pub tenant_id: String,
    pub versions: Vec<BooksHistoryLine>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BooksHistoryLine {
    pub version: i32,
    pub applied_at: DateTime<Utc>,
    #[serde(rename = "by")]
    pub applied_by: String,
    pub in_force: bool,
}

/// Looks for mistakes, without a server.
///
/// # Errors
/// Every mistake of the file.
pub fn check(source: &str) -> Result<BooksCheck, DeskError> {
    let books = parse(source)?;
    Ok(BooksCheck {
        tenant_id: books.tenant_id.to_string(),
        accounts: books.accounts().count(),
        rules: books.rules().len(),
        mistakes: Vec::new(),
    })
}

/// A small commented file to begin with, whose period is this year. It has no mistakes.
#[must_use]
pub fn new_books(year: i32) -> String {
    include_str!("new_books.toml").replace("{year}", &year.to_string())
}

/// Characters of a line that are shown: with the line's number they fit a terminal of 80 columns.
const SHOWN_MAX: usize = 70;
/// Characters that are shown before a mistake that is further to the right than that.
const SHOWN_BEFORE: usize = 45;

/// The line of a mistake with a caret under its place:
///
/// ```text
///   61 | currency = "EUR"
///      |             ^
/// ```
///
/// A character that is unfit to be shown is a blank, so that the caret stands under its place.
#[must_use]
pub fn excerpt(source: &str, position: Position) -> Option<String> {
    let line = source.split('\n').nth(position.line.checked_sub(1)?)?;
    let place = position.column.checked_sub(1)?;
    let start = if place < SHOWN_MAX { 0 } else { place - SHOWN_BEFORE };
    let fit = |(at, c): (usize, char)| match c {
        // Something is left out before it or behind it.
        _ if start > 0 && at == 0 || at == SHOWN_MAX => '…',
        c if is_unfit(c) => ' ',
        c => c,
    };
    let shown: String = line.chars().skip(start).take(SHOWN_MAX + 1).enumerate().map(fit).collect();
    let number = position.line.to_string();
    let (margin, before) = (" ".repeat(number.len()), " ".repeat(place - start));
    Some(format!("  {number} | {}\n  {margin} | {before}^", shown.trim_end()))
}

impl Desk {
    /// The change that a file would make. Nothing is locked or changed.
    ///
    /// # Errors
    /// Every mistake of the file, also those that only the ledger can tell; or the database is away.
    pub async fn plan_books(&self, source: &str) -> Result<BooksChange, DeskError> {
        let outlook = books::outlook(&self.postgres.pool, source).await?;
        let closes = closed_periods(&parse(source)?, &outlook);
        Ok(BooksChange {
            tenant_id: outlook.tenant_id,
            version: outlook.version,
            applied: false,
            released: 0,
            changes: outlook.plan.changes,
            closes,
        })
    }

    /// Puts a file in force; a file that means what is in force already changes nothing.
    ///
    /// # Errors
    /// Every mistake of the file; nobody has confirmed the plan; another version came in between; or the database is away.
    pub async fn apply_books(&self, request: &ApplyBooks<'_>) -> Result<BooksChange, DeskError> {
        let plan = self.plan_books(request.source).await?;
        if plan.changes.is_empty() {
            return Ok(plan);
        }
        if !request.confirmed {
            return Err(DeskError::NotConfirmed { what: format!("the books of {} would change", plan.tenant_id) });
        }
        let against = Against::Planned(request.against);
        let done = books::put_in_force(&self.postgres.pool, request.source, request.operator.by(), against).await?;
        if done.changed {
            log_act(&request.operator, &format!("applied version {} of the books of {}", done.version, done.tenant_id));
        }
        Ok(BooksChange { version: Some(done.version), applied: done.changed, released: done.released, ..plan })
    }

    /// A version of a tenant's books, else the one in force.
    ///
    /// # Errors
    /// There are no such books, or the database is away.
    pub async fn books(&self, tenant: &TenantId, version: Option<i32>) -> Result<BooksVersion, DeskError> {
        let Some(stored) = stored::read(&self.postgres.pool, tenant.as_str(), version).await? else {
            return Err(match version {
                Some(version) if stored::read(&self.postgres.pool, tenant.as_str(), None).await?.is_some() => {
                    let why = format!("the books of {tenant} have no version {version}");
                    DeskError::Missing { why }
                }
                _ => no_tenant(&mut *self.postgres.pool.acquire().await?, tenant.as_str()).await?,
            });
        };
        Ok(BooksVersion {
            tenant_id: tenant.to_string(),
            version: stored.version,
            applied_at: stored.applied_at,
            applied_by: stored.applied_by,
            source: stored.source,
        })
    }

    /// The versions of a tenant's books.
    ///
    /// # Errors
    /// There are no books, or the database is away.
    pub async fn books_versions(&self, tenant: &TenantId) -> Result<BooksHistory, DeskError> {
        let versions = stored::versions(&self.postgres.pool, tenant.as_str()).await?;
        if versions.is_empty() {
            return Err(no_tenant(&mut *self.postgres.pool.acquire().await?, tenant.as_str()).await?);
        }
        let told = |line: stored::VersionLine| BooksHistoryLine {
            version: line.version,
            applied_at: line.applied_at,
            applied_by: line.applied_by,
            in_force: line.in_force,
        };
        Ok(BooksHistory { tenant_id: tenant.to_string(), versions: versions.into_iter().map(told).collect() })
    }
}

fn parse(source: &str) -> Result<Books, DeskError> {
    Books::parse(source, 0).map_err(|mistakes| DeskError::Mistakes { mistakes })
}

fn closed_periods(books: &Books, outlook: &Outlook) -> Vec<Period> {
    let closes = |period: &&Period| {
        let is_closed = |change: &Change| change.act == Act::Closed && change.thing == Thing::Period;
        outlook.plan.changes.iter().any(|change| is_closed(change) && change.name == period.name)
    };
    books.calendar.periods().iter().filter(closes).cloned().collect()
}
