//! Amounts and currencies. A decimal enters, an `Amount` that the ledger may book leaves: positive, bounded and
//! within the currency's minor units. Nothing here rounds what a publisher sent, and no float exists.

use std::fmt;

use rust_decimal::{Decimal, RoundingStrategy};

/// Amounts are below 10^15: the largest economy's yearly output in its smallest unit, and small enough that the sum of
/// a million such lines stays exact in 28 digits.
pub const AMOUNT_MAX: Decimal = Decimal::from_parts(0xA4C6_8000, 0x0003_8D7E, 0, false, 0);

/// Converted amounts are below 10^18, whatever the rate: the sum of 10,000 lines stays exact.
pub const BASE_AMOUNT_MAX: Decimal = Decimal::from_parts(0xA764_0000, 0x0DE0_B6B3, 0, false, 0);

/// The money that a message says it is worth; `None` where it names no amount or no currency that can be read.
pub type Worth = Option<(Decimal, Currency)>;

/// An ISO 4217 currency with its minor units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency(iso_currency::Currency);

impl Currency {
    /// Upper-case alphabetic code of a currency that has minor units (so not `XXX` or `XAU`).
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        let currency = iso_currency::Currency::from_code(code)?;
        currency.exponent().map(|_| Self(currency))
    }

    #[must_use]
    pub fn code(self) -> &'static str {
        self.0.code()
    }

    #[must_use]
    pub fn minor_units(self) -> u32 {
        self.0.exponent().map_or(2, u32::from)
    }

    /// Half-even to minor units: the only rounding in fis, used for conversion alone.
    #[must_use]
    pub fn round(self, value: Decimal) -> Decimal {
        let mut rounded = value.round_dp_with_strategy(self.minor_units(), RoundingStrategy::MidpointNearestEven);
        rounded.rescale(self.minor_units());
        rounded
    }

    /// An amount as people read it: at least the minor units, zero-padded. What is finer, which only a tampered row can
    /// be, is shown as it is: a figure is never rounded on its way to a reader.
    #[must_use]
    pub fn text(self, amount: Decimal) -> String {
        let mut amount = amount.normalize();
        if amount.scale() < self.minor_units() {
            amount.rescale(self.minor_units());
        }
        if amount.is_zero() {
            amount.set_sign_positive(true);
        }
        amount.to_string()
    }
}

impl PartialOrd for Currency {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Currency {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.code().cmp(other.code())
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Why a decimal is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    #[error("{value} is not positive")]
    NotPositive { value: Decimal },
    #[error("{value} is not below {AMOUNT_MAX}")]
    TooLarge { value: Decimal },
    #[error("{value} has more decimals than {currency}, which has {minor_units}")]
    TooFine { value: Decimal, currency: Currency, minor_units: u32 },
}

/// A positive amount, scaled to its currency's minor units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount(Decimal);

impl Amount {
    /// # Errors
    /// Zero, negative, too large, or finer than the currency's minor units.
    pub fn new(value: Decimal, currency: Currency) -> Result<Self, AmountError> {
        if value.is_sign_negative() || value.is_zero() {
            return Err(AmountError::NotPositive { value });
        }
        if value >= AMOUNT_MAX {
            return Err(AmountError::TooLarge { value });
        }
        let mut value = value.normalize();
        let minor_units = currency.minor_units();
        if value.scale() > minor_units {
            return Err(AmountError::TooFine { value, currency, minor_units });
        }
        value.rescale(minor_units);
        Ok(Self(value))
    }

    #[must_use]
    pub fn value(self) -> Decimal {
        self.0
    }
}

/// The form of a decimal whose text is hashed: no trailing zeros, no exponent, no negative zero. `119.00` and `119` are
/// the same money, and PostgreSQL may hand back either.
#[must_use]
pub fn canonical_decimal(value: Decimal) -> Decimal {
    if value.is_zero() { Decimal::ZERO } else { value.normalize() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dec(text: &str) -> Decimal {
        Decimal::from_str_exact(text).unwrap()
    }

    #[test]
    fn amounts_end_at_ten_to_the_fifteenth_and_converted_ones_at_ten_to_the_eighteenth() {
        assert_eq!(AMOUNT_MAX, dec("1000000000000000"));
        assert_eq!(BASE_AMOUNT_MAX, dec("1000000000000000000"));
    }

    #[test]
    fn an_amount_is_positive_bounded_and_within_minor_units() {
        let eur = Currency::parse("EUR").unwrap();
        let jpy = Currency::parse("JPY").unwrap();
        let kwd = Currency::parse("KWD").unwrap();
        assert_eq!(Amount::new(dec("1.5"), eur).unwrap().value().to_string(), "1.50");
        assert_eq!(Amount::new(dec("1.500"), eur).unwrap().value().to_string(), "1.50");
        assert_eq!(Amount::new(dec("7.0"), jpy).unwrap().value().to_string(), "7");
        assert_eq!(Amount::new(dec("1.234"), kwd).unwrap().value().to_string(), "1.234");
        assert!(matches!(Amount::new(dec("0.00"), eur), Err(AmountError::NotPositive { .. })));
        assert!(matches!(Amount::new(dec("-1"), eur), Err(AmountError::NotPositive { .. })));
        assert!(matches!(Amount::new(dec("1.001"), eur), Err(AmountError::TooFine { .. })));
        assert!(matches!(Amount::new(dec("0.5"), jpy), Err(AmountError::TooFine { .. })));
        assert!(matches!(Amount::new(AMOUNT_MAX, eur), Err(AmountError::TooLarge { .. })));
    }

    #[test]
    fn what_has_no_minor_units_is_no_currency_of_a_ledger() {
        for code in ["XXX", "XAU", "eur", "EURO", ""] {
            assert_eq!(Currency::parse(code), None, "{code}");
        }
    }

    #[test]
    fn an_amount_is_read_with_its_minor_units_and_never_rounded() {
        let rows = [
            ("1.5", "EUR", "1.50"),
            ("-1", "EUR", "-1.00"),
            ("-0", "EUR", "0.00"),
            ("0", "JPY", "0"),
            ("7.00", "JPY", "7"),
            ("1.2", "KWD", "1.200"),
            ("0.001", "EUR", "0.001"),
        ];
        for (amount, currency, text) in rows {
            assert_eq!(Currency::parse(currency).unwrap().text(dec(amount)), text, "{amount} {currency}");
        }
    }

    #[test]
    fn the_hashed_text_does_not_depend_on_scale() {
        for (text, canonical) in [("0.00", "0"), ("-0", "0"), ("119.00", "119"), ("10.5000", "10.5"), ("100", "100")] {
            assert_eq!(canonical_decimal(dec(text)).to_string(), canonical, "{text}");
        }
    }
}
