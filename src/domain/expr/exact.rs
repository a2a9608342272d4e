//! Decimal arithmetic that is exact or refuses. Decimals enter; the exact result, or `None`, leaves.
//! What must never happen: a silently lost digit. `Decimal::checked_add` and its kin round past 28 digits without
//! a word, so sums and products are made here, of integers; only quotients are rounded, by one stated rule.

use rust_decimal::Decimal;

/// Every mantissa stays below this: `Decimal` holds all numbers of 28 digits, and not all of 29.
const MANTISSA_LIMIT: u128 = 10_u128.pow(28);
const SCALE_MAX: u32 = 28;
/// Decimals of a quotient that does not end. An amount of 10^12 divided and multiplied again by a rate is then still
/// right to far below the smallest minor unit.
pub const QUOTIENT_DECIMALS_MAX: u32 = 20;
/// Digits of a quotient: four fewer than a decimal holds, so that a sum over the longest list (10,000) still fits.
const QUOTIENT_LIMIT: u128 = 10_u128.pow(24);
/// Decimals `round` can keep: as many as a quotient has.
pub const ROUND_DIGITS_MAX: u32 = QUOTIENT_DECIMALS_MAX;
/// Digits a remainder is carried on by at once: a divisor of 28 digits times 10^9 is below 2^127.
const CARRY_DIGITS: u32 = 9;

/// The exact sum.
#[must_use]
pub fn add(left: Decimal, right: Decimal) -> Option<Decimal> {
    // Long numbers often end in zeros; without those the sum may still fit.
    aligned_sum(left, right).or_else(|| aligned_sum(left.normalize(), right.normalize()))
}

fn aligned_sum(left: Decimal, right: Decimal) -> Option<Decimal> {
    let scale = left.scale().max(right.scale());
    let sum = at_scale(left, scale)?.checked_add(at_scale(right, scale)?)?;
    fit(sum, scale)
}

/// The exact difference.
#[must_use]
pub fn subtract(left: Decimal, right: Decimal) -> Option<Decimal> {
    add(left, negate(right))
}

/// The exact product.
#[must_use]
pub fn multiply(left: Decimal, right: Decimal) -> Option<Decimal> {
    let scale = left.scale() + right.scale();
    if let Some(product) = left.mantissa().checked_mul(right.mantissa()) {
        return fit(product, scale);
    }
    // As in `add`.
    let (left, right) = (left.normalize(), right.normalize());
    let product = left.mantissa().checked_mul(right.mantissa())?;
    fit(product, left.scale() + right.scale())
}

/// The quotient, rounded half-even at 20 decimals, or at fewer where it would have more than 24 digits.
/// `None` where even the integer part is longer, and for a division by zero.
#[must_use]
pub fn divide(dividend: Decimal, divisor: Decimal) -> Option<Decimal> {
    if divisor.is_zero() {
        return None;
    }
    let rounded = (0..=decimals_at_most(dividend, divisor)?).rev().find_map(|decimals| {
        let mantissa = quotient(dividend, divisor, decimals, QUOTIENT_LIMIT)?;
        fit(mantissa, decimals)
    });
    rounded.map(|rounded| rounded.normalize())
}

/// With more decimals than these a quotient is surely too long. From here on it is a try or two, and not twenty.
fn decimals_at_most(dividend: Decimal, divisor: Decimal) -> Option<u32> {
    // The power of ten that a number reaches.
    let power = |number: Decimal| {
        let reached = number.mantissa().unsigned_abs().checked_ilog10()?;
        Some(i64::from(reached) - i64::from(number.scale()))
    };
    let (Some(above), Some(below)) = (power(dividend), power(divisor)) else { return Some(QUOTIENT_DECIMALS_MAX) };
    // The quotient exceeds the power of ten one below the difference.
    let room = i64::from(QUOTIENT_LIMIT.ilog10()) - (above - below - 1) - 1;
    u32::try_from(room.min(QUOTIENT_DECIMALS_MAX.into())).ok()
}

/// The quotient rounded half-even, once, to exactly `digits` decimals. `None` where it does not fit.
#[must_use]
pub fn divide_rounded(dividend: Decimal, divisor: Decimal, digits: u32) -> Option<Decimal> {
    if divisor.is_zero() {
        return None;
    }
    fit(quotient(dividend, divisor, digits, MANTISSA_LIMIT)?, digits)
}

/// The number rounded half-even to exactly `digits` decimals.
#[must_use]
pub fn round(number: Decimal, digits: u32) -> Option<Decimal> {
    divide_rounded(number, Decimal::ONE, digits)
}

/// The number with the other sign; zero has none.
#[must_use]
pub fn negate(number: Decimal) -> Decimal {
    if number.is_zero() { number.abs() } else { -number }
}

fn at_scale(number: Decimal, scale: u32) -> Option<i128> {
    match scale - number.scale() {
        0 => Some(number.mantissa()),
        zeros => number.mantissa().checked_mul(10_i128.checked_pow(zeros)?),
    }
}

/// Mantissa × 10^-scale as a decimal; only zeros at the end are ever dropped.
fn fit(mantissa: i128, scale: u32) -> Option<Decimal> {
    let magnitude = mantissa.unsigned_abs();
    if scale <= SCALE_MAX && magnitude < MANTISSA_LIMIT {
        return Decimal::try_from_i128_with_scale(mantissa, scale).ok();
    }
    let digits = magnitude.checked_ilog10().map_or(0, |log| log + 1);
    let beyond = scale.saturating_sub(SCALE_MAX).max(digits.saturating_sub(MANTISSA_LIMIT.ilog10()));
    let power = 10_i128.checked_pow(beyond)?;
    if beyond > scale || mantissa % power != 0 {
        return None;
    }
    Decimal::try_from_i128_with_scale(mantissa / power, scale - beyond).ok()
}

/// The mantissa of the quotient at `decimals`, rounded half-even; `None` from `limit` on.
fn quotient(dividend: Decimal, divisor: Decimal, decimals: u32, limit: u128) -> Option<i128> {
    let mut numerator = dividend.mantissa().unsigned_abs();
    let mut denominator = divisor.mantissa().unsigned_abs();
    let mut carry = decimals + divisor.scale();
    if let Some(beyond) = dividend.scale().checked_sub(carry) {
        // The dividend has more decimals than are wanted: cut by enlarging the divisor.
        carry = 0;
        match 10_u128.checked_pow(beyond).and_then(|power| denominator.checked_mul(power)) {
            Some(enlarged) => denominator = enlarged,
            // The divisor is beyond 10^38 and the dividend below 10^29: that rounds to nothing.
            None => return Some(0),
        }
    } else {
        carry -= dividend.scale();
    }
    let mut result = numerator / denominator;
    numerator %= denominator;
    while carry > 0 {
        let power = 10_u128.pow(carry.min(CARRY_DIGITS));
        numerator *= power;
        result = result.checked_mul(power)?.checked_add(numerator / denominator)?;
        numerator %= denominator;
        if result >= limit {
            return None;
        }
        carry -= carry.min(CARRY_DIGITS);
    }
    let to_next = denominator - numerator;
    if numerator > to_next || (numerator == to_next && result % 2 == 1) {
        result += 1;
    }
    if result >= limit {
        return None;
    }
    let magnitude = i128::try_from(result).ok()?;
    let negative = dividend.is_sign_negative() != divisor.is_sign_negative();
    Some(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Digit by digit, as by hand.
    fn fit_slowly(mut mantissa: i128, mut scale: u32) -> Option<Decimal> {
        while scale > 0 && (scale > SCALE_MAX || mantissa.unsigned_abs() >= MANTISSA_LIMIT) {
            if mantissa % 10 != 0 {
                return None;
            }
            mantissa /= 10;
            scale -= 1;
        }
        (mantissa.unsigned_abs() < MANTISSA_LIMIT).then(|| Decimal::from_i128_with_scale(mantissa, scale))
    }

    /// From twenty decimals down, whether or not there is hope.
    fn divide_slowly(dividend: Decimal, divisor: Decimal) -> Option<Decimal> {
        let fits = |decimals| fit(quotient(dividend, divisor, decimals, QUOTIENT_LIMIT)?, decimals);
        (0..=QUOTIENT_DECIMALS_MAX).rev().find_map(fits).map(|rounded| rounded.normalize())
    }

    proptest! {
        #[test]
        fn what_fits_is_found_out_in_one_step(digits in any::<i128>(), cut in 0..39_u32, zeros in 0..39_u32, scale in 0..57_u32) {
            let mantissa = (digits / 10_i128.pow(cut)).checked_mul(10_i128.pow(zeros)).unwrap_or(digits);
            prop_assert_eq!(fit(mantissa, scale), fit_slowly(mantissa, scale));
            let same_scale = fit(mantissa, scale).map(|number| number.scale());
            prop_assert_eq!(same_scale, fit_slowly(mantissa, scale).map(|number| number.scale()));
        }

        #[test]
        fn no_decimal_of_a_quotient_is_given_away(
            a in any::<i128>(), b in any::<i128>(), cuts in (11..39_u32, 11..39_u32), s in 0..29_u32, t in 0..29_u32,
        ) {
            let (a, b) = (a / 10_i128.pow(cuts.0), b / 10_i128.pow(cuts.1));
            prop_assume!(b != 0);
            let (x, y) = (Decimal::from_i128_with_scale(a, s), Decimal::from_i128_with_scale(b, t));
            prop_assert_eq!(divide(x, y), divide_slowly(x, y));
        }
    }
}
