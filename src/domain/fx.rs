//! Conversion to the base currency. An amount and a rate enter, the base amount leaves, rounded half-even exactly once.
//! The sum is done in 128-bit integers: a decimal multiplication past 28 digits would round without telling.

use std::collections::HashMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;

use super::money::Currency;

/// Rates have at most this many significant digits and decimals, so that a product fits 128 bits.
const RATE_MANTISSA_MAX: i128 = 1_000_000_000_000;
const RATE_SCALE_MAX: u32 = 10;

/// `1 from = rate to`, from a date on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    pub from: Currency,
    pub to: Currency,
    pub date: NaiveDate,
    rate: Decimal,
}

impl Rate {
    /// A rate is positive, with at most 12 significant digits and 10 decimals.
    #[must_use]
    pub fn new(from: Currency, to: Currency, date: NaiveDate, rate: Decimal) -> Option<Self> {
        let rate = rate.normalize();
        let usable = rate.is_sign_positive()
            && !rate.is_zero()
            && rate.mantissa() < RATE_MANTISSA_MAX
            && rate.scale() <= RATE_SCALE_MAX;
        (usable && from != to).then_some(Self { from, to, date, rate })
    }
}

/// The rates of one version of the books. A line finds its rate without a look at all of them: an event has thousands of lines, and books may
/// have a rate for every day of years.
#[derive(Debug, Clone, Default)]
pub struct Rates {
    /// Newest first.
    all: Vec<Rate>,
    /// Newest first per pair.
    pairs: HashMap<(Currency, Currency), Vec<(NaiveDate, Decimal)>>,
}

impl Rates {
    #[must_use]
    pub fn new(mut all: Vec<Rate>) -> Self {
        all.sort_by_key(|rate| std::cmp::Reverse(rate.date));
        let mut pairs: HashMap<_, Vec<_>> = HashMap::new();
        for Rate { from, to, date, rate } in &all {
            pairs.entry((*from, *to)).or_default().push((*date, *rate));
        }
        Self { all, pairs }
    }

    /// The newest rate of a pair on or before the date.
    fn newest(&self, from: Currency, to: Currency, date: NaiveDate) -> Option<(NaiveDate, Decimal)> {
        let dated = self.pairs.get(&(from, to))?;
        dated.get(dated.partition_point(|(from, _)| *from > date)).copied()
    }

    /// Every rate as `(from, to, date, rate)`, the newest first.
    pub fn all(&self) -> impl Iterator<Item = (Currency, Currency, NaiveDate, Decimal)> {
        self.all.iter().map(|rate| (rate.from, rate.to, rate.date, rate.rate))
    }

    /// True where an amount could be converted on the date.
    #[must_use]
    pub fn has(&self, from: Currency, to: Currency, date: NaiveDate) -> bool {
        self.convert(Decimal::ZERO, from, to, date) != Err(ConvertError::NoRate)
    }

    /// `amount` of `from` in `to`: the newest rate on or before the date applies; a direct rate goes before an inverse
    /// one of the same day.
    ///
    /// # Errors
    /// There is no rate, or the result is too large for any ledger.
    pub fn convert(
        &self,
        amount: Decimal,
        from: Currency,
        to: Currency,
        date: NaiveDate,
    ) -> Result<Decimal, ConvertError> {
        if from == to {
            return Ok(amount);
        }
        let converted = match (self.newest(from, to, date), self.newest(to, from, date)) {
            (Some((direct, _)), Some((inverse, rate))) if inverse > direct => divide(amount, rate, to),
            (Some((_, rate)), _) => multiply(amount, rate, to),
            (None, Some((_, rate))) => divide(amount, rate, to),
            (None, None) => return Err(ConvertError::NoRate),
        };
        converted.ok_or(ConvertError::TooLarge)
    }
}

/// Why there is no base amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvertError {
    NoRate,
    TooLarge,
}

fn multiply(amount: Decimal, rate: Decimal, to: Currency) -> Option<Decimal> {
    let product = amount.mantissa().checked_mul(rate.mantissa())?;
    let scale = amount.scale() + rate.scale();
    let minor_units = to.minor_units();
    let quotient = if scale >= minor_units {
        half_even(product, 10i128.checked_pow(scale - minor_units)?)?
    } else {
        product.checked_mul(10i128.checked_pow(minor_units - scale)?)?
    };
    Decimal::try_from_i128_with_scale(quotient, minor_units).ok()
}

fn divide(amount: Decimal, rate: Decimal, to: Currency) -> Option<Decimal> {
    let minor_units = to.minor_units();
    let mut numerator = amount.mantissa().checked_mul(10i128.checked_pow(rate.scale() + minor_units)?)?;
    let mut denominator = rate.mantissa();
    // amount / 10^scale: move the power to the other side instead of dividing twice.
    let power = 10i128.checked_pow(amount.scale())?;
    if numerator % power == 0 {
        numerator /= power;
    } else {
        denominator = denominator.checked_mul(power)?;
    }
    Decimal::try_from_i128_with_scale(half_even(numerator, denominator)?, minor_units).ok()
}

/// Integer division of non-negative numbers, half to even.
fn half_even(numerator: i128, denominator: i128) -> Option<i128> {
    let quotient = numerator.checked_div(denominator)?;
    let twice = (numerator % denominator).checked_mul(2)?;
    let up = twice > denominator || (twice == denominator && quotient % 2 == 1);
    Some(quotient + i128::from(up))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dec(text: &str) -> Decimal {
        Decimal::from_str_exact(text).unwrap()
    }

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn rates(rows: &[(&str, &str, &str, &str)]) -> Rates {
        let currency = |code| Currency::parse(code).unwrap();
        Rates::new(
            rows.iter().map(|(f, t, d, r)| Rate::new(currency(f), currency(t), day(d), dec(r)).unwrap()).collect(),
        )
    }

    #[test]
    fn the_newest_rate_on_or_before_the_date_converts_half_even() {
        let rates = rates(&[
            ("USD", "EUR", "2026-02-01", "0.9000"),
            ("USD", "EUR", "2026-02-25", "0.9200"),
            ("EUR", "JPY", "2026-02-01", "160.5"),
        ]);
        let rows = [
            ("100.00", "USD", "EUR", "2026-02-25", Some("92.00")),
            ("100.00", "USD", "EUR", "2026-02-24", Some("90.00")),
            ("100.00", "USD", "EUR", "2026-01-31", None),
            ("0.25", "USD", "EUR", "2026-02-24", Some("0.22")), // 0.225 to even
            ("0.35", "USD", "EUR", "2026-02-24", Some("0.32")), // 0.315 to even
            ("92.00", "EUR", "USD", "2026-02-25", Some("100.00")),
            ("1", "JPY", "EUR", "2026-02-25", Some("0.01")),
            ("10.00", "EUR", "JPY", "2026-02-25", Some("1605")),
            ("5.00", "EUR", "EUR", "2020-01-01", Some("5.00")),
            ("999999999999999.99", "USD", "EUR", "2026-02-25", Some("919999999999999.99")),
        ];
        for (amount, from, to, date, expected) in rows {
            let (from, to) = (Currency::parse(from).unwrap(), Currency::parse(to).unwrap());
            let got = rates.convert(dec(amount), from, to, day(date)).ok().map(|d| d.to_string());
            assert_eq!(got.as_deref(), expected, "{amount} {from} in {to} on {date}");
        }
    }

    #[test]
    fn no_rate_and_a_result_beyond_all_bounds_are_told_apart() {
        let rates = rates(&[("USD", "EUR", "2026-02-01", "999999999999")]);
        let (usd, eur, gbp) =
            (Currency::parse("USD").unwrap(), Currency::parse("EUR").unwrap(), Currency::parse("GBP").unwrap());
        let much = dec("999999999999999.99");
        assert_eq!(rates.convert(much, usd, eur, day("2026-02-01")), Err(ConvertError::TooLarge));
        assert_eq!(rates.convert(much, gbp, eur, day("2026-02-01")), Err(ConvertError::NoRate));
    }
}
