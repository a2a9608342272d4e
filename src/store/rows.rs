//! Columns of a row as values of the domain. A value that no version of this program has written is an error that names its column.

use rust_decimal::Decimal;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::domain::ids::TenantId;
use crate::domain::money::{Currency, Worth};

/// A value in the database that no version of this program has written.
#[derive(Debug, thiserror::Error)]
#[error("column {column} holds a value that is not possible")]
struct Impossible {
    column: &'static str,
}

pub(crate) fn impossible(column: &'static str) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(Impossible { column }))
}

pub(crate) fn tenant(row: &PgRow) -> Result<TenantId, sqlx::Error> {
    TenantId::parse(row.try_get("tenant_id")?).map_err(|_| impossible("tenant_id"))
}

/// The money of a row, as it was counted.
pub(crate) fn worth(row: &PgRow) -> Result<Worth, sqlx::Error> {
    let (amount, currency): (Option<Decimal>, Option<&str>) = (row.try_get("amount")?, row.try_get("currency")?);
    Ok(amount.zip(currency.and_then(Currency::parse)))
}
