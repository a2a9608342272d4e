//! The tenants of a ledger. Nothing or a name enters; the tenants leave with how each is, or that there is no such one and which was probably meant.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::{Desk, DeskError};
use crate::domain::books::Books;
use crate::domain::expr::closest;
use crate::domain::ids::TenantId;
use crate::store::tenants;

/// All tenants, by name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Tenants {
    pub tenants: Vec<Tenant>,
    /// Names in open dead letters that no books are of.
    pub strangers: Vec<Stranger>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    pub tenant_id: String,
    /// None: the books in force cannot be read.
    pub base_currency: Option<String>,
    pub books_version: i32,
    pub entries: i64,
    pub last_posted_at: Option<DateTime<Utc>>,
    pub open_letters: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stranger {
    pub name: String,
    pub open_letters: i64,
}

impl Desk {
    /// # Errors
    /// The database is away.
    pub async fn tenants(&self) -> Result<Tenants, DeskError> {
        let mut db = self.postgres.pool.acquire().await?;
        let mut open: BTreeMap<String, i64> = tenants::open_letters(&mut db).await?.into_iter().collect();
        let one = |line: tenants::TenantLine| Tenant {
            base_currency: Books::base_currency_of(&line.source),
            open_letters: open.remove(&line.tenant_id).unwrap_or_default(),
            tenant_id: line.tenant_id,
            books_version: line.books_version,
            entries: line.entries,
            last_posted_at: line.last_posted_at,
        };
        let tenants = tenants::list(&mut db).await?.into_iter().map(one).collect();
        let strangers = open.into_iter().map(|(name, open_letters)| Stranger { name, open_letters }).collect();
        Ok(Tenants { tenants, strangers })
    }

    /// The names of all tenants, in order.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tenant_names(&self) -> Result<Vec<TenantId>, DeskError> {
        let names = tenants::names(&mut *self.postgres.pool.acquire().await?).await?;
        Ok(names.iter().filter_map(|name| TenantId::parse(name).ok()).collect())
    }

    /// A tenant is known that has books, or that dead letters name: they wait for its books.
    ///
    /// # Errors
    /// There is no such tenant, or the database is away.
    pub async fn known_tenant(&self, tenant: &TenantId) -> Result<(), DeskError> {
        let mut db = self.postgres.pool.acquire().await?;
        if tenants::is_known(&mut db, tenant).await? {
            return Ok(());
        }
        Err(no_tenant(&mut db, tenant.as_str()).await?)
    }
}

/// The one error about a tenant that is not there.
pub(super) async fn no_tenant(db: &mut sqlx::PgConnection, name: &str) -> Result<DeskError, DeskError> {
    let names = tenants::names(db).await?;
    let near = closest(name, names.iter().map(String::as_str)).map(ToOwned::to_owned);
    Ok(DeskError::NoTenant { name: name.to_owned(), near })
}
