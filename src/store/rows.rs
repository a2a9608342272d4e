//! Columns of a row as values of the domain. A value that no version of this program has written is an error that names its column.

use rust_decimal::Decimal;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::domain::ids::{AccountCode, EventId, EventKey, NameError, TenantId};
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

pub(crate) fn name<T>(
    row: &PgRow,
    column: &'static str,
    parse: fn(&str) -> Result<T, NameError>,
) -> Result<T, sqlx::Error> {
    parse(row.try_get(column)?).map_err(|_| impossible(column))
}

pub(crate) fn tenant(row: &PgRow) -> Result<TenantId, sqlx::Error> {
    name(row, "tenant_id", TenantId::parse)
}

pub(crate) fn event(row: &PgRow, column: &'static str) -> Result<EventId, sqlx::Error> {
    name(row, column, EventId::parse)
}

pub(crate) fn event_key(row: &PgRow) -> Result<EventKey, sqlx::Error> {
    Ok((tenant(row)?, event(row, "event_id")?))
}

pub(crate) fn account(row: &PgRow) -> Result<AccountCode, sqlx::Error> {
    name(row, "account_code", AccountCode::parse)
}

pub(crate) fn currency(row: &PgRow) -> Result<Currency, sqlx::Error> {
    Currency::parse(row.try_get("currency")?).ok_or_else(|| impossible("currency"))
}

/// The money of a row, as it was counted.
pub(crate) fn worth(row: &PgRow) -> Result<Worth, sqlx::Error> {
    let (amount, currency): (Option<Decimal>, Option<&str>) = (row.try_get("amount")?, row.try_get("currency")?);
    Ok(amount.zip(currency.and_then(Currency::parse)))
}
