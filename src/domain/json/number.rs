//! Numbers: read as text, exact as decimals. Digits enter; a `Decimal` of exactly that value leaves.
//! What must never happen: rounding, a float, a negative zero, a spelling that two readers read differently.

use std::borrow::Cow;

use rust_decimal::Decimal;

use super::error::JsonErrorKind as Kind;
use super::read::{Read, Reader, fail_at};
use super::{EXPONENT_MAX, NUMBER_CHARS_MAX};

/// Digits a `Decimal` holds without loss: its 96 bits cover every number of 28 digits, but not of 29.
pub const DIGITS_MAX: usize = 28;
/// Decimals a `Decimal` holds.
pub const DECIMALS_MAX: u32 = 28;
/// Digits that fit a `u64` whatever they are; reading those is several times faster than reading a `u128`.
const WORD_DIGITS: usize = 19;

/// Why a text has no exact decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    #[error("does not spell a number")]
    NotANumber,
    #[error("has more than {DIGITS_MAX} digits")]
    TooManyDigits,
    #[error("has more than {DECIMALS_MAX} decimals")]
    TooManyDecimals,
}

/// A JSON number, as the text it was written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number<'a> {
    text: Cow<'a, str>,
}

impl<'a> Number<'a> {
    /// Only the reader calls this, with text it has checked against the JSON grammar.
    fn from_checked(text: &'a str) -> Self {
        Number { text: Cow::Borrowed(text) }
    }

    /// The number exactly as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The exact value. `1e2` is 100 and `1.5e-3` is 0.0015; `-0` is 0; the decimals written are kept (`1.10`).
    ///
    /// # Errors
    /// More than 28 digits or 28 decimals, written out without exponent.
    pub fn to_decimal(&self) -> Result<Decimal, NumberError> {
        Parts::split(&self.text).to_decimal()
    }

    pub(super) fn into_owned(self) -> Number<'static> {
        Number { text: Cow::Owned(self.text.into_owned()) }
    }
}

impl<'a> Reader<'a> {
    /// Reads a number, and keeps its text.
    pub(super) fn number(&mut self) -> Read<Number<'a>> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let first = self.peek();
        let integer_digits = self.digits("a digit")?.len();
        if first == Some(b'0') && integer_digits > 1 {
            return Err(fail_at(start, Kind::LeadingZero));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("a digit after the point")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if exponent_value(self.digits("a digit of the exponent")?) > EXPONENT_MAX {
                return Err(fail_at(start, Kind::ExponentTooLarge));
            }
        }
        if self.at - start > NUMBER_CHARS_MAX {
            return Err(fail_at(start, Kind::NumberTooLong));
        }
        Ok(Number::from_checked(self.slice(start, self.at)))
    }

    fn digits(&mut self, expected: &'static str) -> Read<&'a [u8]> {
        let rest = self.rest();
        let count = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        if count == 0 {
            return Err(self.unexpected(expected));
        }
        self.at += count;
        Ok(rest.get(..count).unwrap_or(rest))
    }
}

/// The exact value of a string that spells a number: `-?(0|[1-9][0-9]*)(\.[0-9]+)?` and nothing else, so no
/// exponent, plus, underscore, white space or full-width digit. `-0` is 0.
///
/// # Errors
/// Another shape, or more than 28 digits or 28 decimals.
pub fn decimal_from_str(text: &str) -> Result<Decimal, NumberError> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let point = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let integer_is_good = match digits.get(..point) {
        Some([b'0'] | [b'1'..=b'9', ..]) => true,
        Some(_) | None => false,
    };
    let fraction_is_good = match digits.get(point..) {
        Some([]) => true,
        Some([b'.', decimals @ ..]) => !decimals.is_empty() && decimals.iter().all(u8::is_ascii_digit),
        Some(_) | None => false,
    };
    if !(integer_is_good && fraction_is_good) {
        return Err(NumberError::NotANumber);
    }
    Parts::split(text).to_decimal()
}

/// A number text taken apart; its value is ±`integer`.`fraction` × 10^`exponent`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'t> {
    pub negative: bool,
    pub integer: &'t [u8],
    pub fraction: &'t [u8],
    pub exponent: i32,
}

impl<'t> Parts<'t> {
    /// Takes apart text that has been checked against the number grammar.
    pub fn split(text: &'t str) -> Self {
        let (negative, unsigned) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            all => (false, all),
        };
        let (integer, after) = split_digits(unsigned);
        let (fraction, after) = match after {
            [b'.', rest @ ..] => split_digits(rest),
            rest => (&[][..], rest),
        };
        let exponent = match after {
            [b'e' | b'E', b'-', digits @ ..] => -exponent_value(digits),
            [b'e' | b'E', b'+', digits @ ..] | [b'e' | b'E', digits @ ..] => exponent_value(digits),
            _ => 0,
        };
        Parts { negative, integer, fraction, exponent }
    }

    fn to_decimal(self) -> Result<Decimal, NumberError> {
        let decimals = i64::try_from(self.fraction.len()).unwrap_or(i64::MAX) - i64::from(self.exponent);
        let mantissa = self.mantissa()?;
        if decimals >= 0 {
            return match u32::try_from(decimals) {
                Ok(scale @ 0..=DECIMALS_MAX) => Ok(assemble(self.negative, mantissa, scale)),
                Ok(_) | Err(_) => Err(NumberError::TooManyDecimals),
            };
        }
        let raised = raise(mantissa, decimals.unsigned_abs())?;
        Ok(assemble(self.negative, raised, 0))
    }

    /// All digits as one integer below 10^28.
    fn mantissa(self) -> Result<u128, NumberError> {
        if self.integer.len() + self.fraction.len() <= WORD_DIGITS {
            let shift = |sum: u64, digit: &u8| sum * 10 + u64::from(digit & 0x0F);
            let integer = self.integer.iter().fold(0, shift);
            return Ok(u128::from(self.fraction.iter().fold(integer, shift)));
        }
        let mut mantissa = 0_u128;
        let mut digits = 0;
        for digit in self.integer.iter().chain(self.fraction) {
            mantissa = mantissa * 10 + u128::from(digit & 0x0F);
            digits += usize::from(mantissa != 0);
            if digits > DIGITS_MAX {
                return Err(NumberError::TooManyDigits);
            }
        }
        Ok(mantissa)
    }
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    bytes.split_at_checked(end).unwrap_or((bytes, &[]))
}

/// Saturates just above the limit: the caller only asks whether the limit is kept.
fn exponent_value(digits: &[u8]) -> i32 {
    digits.iter().fold(0, |sum, digit| (sum * 10 + i32::from(digit & 0x0F)).min(EXPONENT_MAX + 1))
}

/// `mantissa` × 10^`zeros`; bounded by 28 rounds, because any other mantissa than 0 is too long by then.
fn raise(mantissa: u128, zeros: u64) -> Result<u128, NumberError> {
    if mantissa == 0 {
        return Ok(0);
    }
    let limit = 10_u128.pow(28);
    let mut raised = mantissa;
    for _ in 0..zeros {
        raised *= 10;
        if raised >= limit {
            return Err(NumberError::TooManyDigits);
        }
    }
    Ok(raised)
}

/// `mantissa` is below 10^28 and so fits the 96 bits. The three words are cut on purpose.
#[allow(clippy::cast_possible_truncation)]
fn assemble(negative: bool, mantissa: u128, scale: u32) -> Decimal {
    let (low, mid, high) = (mantissa as u32, (mantissa >> 32) as u32, (mantissa >> 64) as u32);
    Decimal::from_parts(low, mid, high, negative && mantissa != 0, scale)
}
