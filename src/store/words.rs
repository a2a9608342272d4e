//! States as words: each state that a table holds is written and read as its one word. A word that no version of this program has written is
//! an error, never a default.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

use crate::domain::letter::{LetterAct, LetterStatus, ReplayState, Resolution};

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

stored_as_word!(LetterStatus, Resolution, ReplayState, LetterAct);
