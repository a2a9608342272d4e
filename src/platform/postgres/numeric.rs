//! Decimals on their way to PostgreSQL. A batch has thousands, and sqlx allocates and divides 128-bit numbers for each; the bytes
//! are the same.

use rust_decimal::Decimal;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo};
use sqlx::{Encode, Postgres, Type};

/// PostgreSQL counts in digits of this base.
const BASE: u64 = 10_000;
/// A decimal digit of PostgreSQL's has so many of ours.
const PLACES: u32 = 4;
const NEGATIVE: u16 = 0x4000;

/// A `numeric` argument.
#[derive(Debug, Clone, Copy)]
pub struct Numeric(pub Decimal);

impl Type<Postgres> for Numeric {
    fn type_info() -> PgTypeInfo {
        Decimal::type_info()
    }
}

impl PgHasArrayType for Numeric {
    fn array_type_info() -> PgTypeInfo {
        Decimal::array_type_info()
    }
}

impl Encode<'_, Postgres> for Numeric {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let scale = self.0.scale();
        // Whole digits behind the point.
        let padding = 10u64.pow(scale.next_multiple_of(PLACES) - scale);
        let Some(mut rest) = u64::try_from(self.0.mantissa().unsigned_abs()).ok().and_then(|m| m.checked_mul(padding))
        else {
            return self.0.encode_by_ref(buffer);
        };
        if rest == 0 {
            return Decimal::ZERO.encode_by_ref(buffer);
        }
        // Five digits hold every u64. The lowest comes first; zeros at the end are not sent.
        let (mut digits, mut count, mut sent) = ([0u16; 5], 0usize, 0i16);
        while rest != 0 {
            let digit = u16::try_from(rest % BASE)?;
            rest /= BASE;
            if sent > 0 || digit > 0 {
                if let Some(place) = digits.get_mut(usize::try_from(sent)?) {
                    *place = digit;
                }
                sent += 1;
            }
            count += 1;
        }
        let weight = i16::try_from(count)? - i16::try_from(scale.div_ceil(PLACES))? - 1;
        buffer.extend_from_slice(&sent.to_be_bytes());
        buffer.extend_from_slice(&weight.to_be_bytes());
        buffer.extend_from_slice(&(if self.0.is_sign_negative() { NEGATIVE } else { 0 }).to_be_bytes());
        buffer.extend_from_slice(&u16::try_from(scale)?.to_be_bytes());
        for digit in digits.iter().take(usize::try_from(sent)?).rev() {
            buffer.extend_from_slice(&digit.to_be_bytes());
        }
        Ok(IsNull::No)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(value: impl for<'q> Encode<'q, Postgres>) -> Vec<u8> {
        let mut buffer = PgArgumentBuffer::default();
        let _ = value.encode_by_ref(&mut buffer).expect("encoded");
        buffer.to_vec()
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_that_sqlx_sends(small in any::<i64>(), large in any::<i128>(), scale in 0u32..=28, zeros in 0u32..10) {
            for mantissa in [0, i128::from(small % 100_000), i128::from(small), i128::from(small / 10i64.pow(zeros)) * 10i128.pow(zeros), large % (1 << 95)] {
                let value = Decimal::from_i128_with_scale(mantissa, scale);
                prop_assert_eq!(bytes(Numeric(value)), bytes(value), "{}", value);
            }
        }
    }
}
