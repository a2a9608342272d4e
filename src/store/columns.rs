//! Columns: rows become the arrays that a batch travels in, words of the tables become states, and texts become names. A value that no
//! version of this program has written is an error, never a default.

use rust_decimal::Decimal;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgRow, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Row, Type};

use crate::domain::ids::TenantId;
use crate::domain::letter::{Act, LetterStatus, ReplayState, Resolution};
use crate::domain::money::Currency;

/// One value of each row, as the array that `unnest` takes apart again.
macro_rules! column {
    ($rows:expr, $row:pat => $value:expr) => {
        $rows.iter().map(|$row| $value).collect::<Vec<_>>()
    };
}
pub(super) use column;

/// A value in the database that no version of this program has written.
#[derive(Debug, thiserror::Error)]
#[error("column {column} holds a value that is not possible")]
struct Impossible {
    column: &'static str,
}

/// The tenant of a row that has one.
pub(super) fn tenant(row: &PgRow) -> Result<TenantId, sqlx::Error> {
    let impossible = || sqlx::Error::Decode(Box::new(Impossible { column: "tenant_id" }));
    TenantId::parse(row.try_get("tenant_id")?).map_err(|_| impossible())
}

/// The money of a row, as it was counted.
pub(super) fn money(row: &PgRow) -> Result<Option<(Decimal, Currency)>, sqlx::Error> {
    let (amount, currency): (Option<Decimal>, Option<&str>) = (row.try_get("amount")?, row.try_get("currency")?);
    Ok(amount.zip(currency.and_then(Currency::parse)))
}

/// States are words in the tables.
macro_rules! stored_as_word {
    ($($state:ty),+) => {$(
        impl Type<Postgres> for $state {
            fn type_info() -> PgTypeInfo {
                <str as Type<Postgres>>::type_info()
            }

            fn compatible(info: &PgTypeInfo) -> bool {
                <str as Type<Postgres>>::compatible(info)
            }
        }

        impl<'r> Decode<'r, Postgres> for $state {
            fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
                let word = <&str as Decode<Postgres>>::decode(value)?;
                Self::parse(word).ok_or_else(|| format!("`{word}` is no {}", stringify!($state)).into())
            }
        }

        impl Encode<'_, Postgres> for $state {
            fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
                <&str as Encode<Postgres>>::encode(self.as_str(), buffer)
            }
        }
    )+};
}

stored_as_word!(LetterStatus, Resolution, ReplayState, Act);
