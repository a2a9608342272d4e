//! The trial balance. Sums per account and currency enter, the same with balances and totals leave. A sum that does not fit
//! is an error, never a rounded figure.

use rust_decimal::Decimal;

use super::ids::AccountCode;
use super::money::Currency;

/// The sums that an account took in one currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSum {
    pub account: AccountCode,
    pub currency: Currency,
    pub debit: Decimal,
    pub credit: Decimal,
}

impl AccountSum {
    /// Debit less credit: positive where the account stands in debit.
    #[must_use]
    pub fn balance(&self) -> Decimal {
        self.debit - self.credit
    }
}

/// All accounts in one currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Total {
    pub currency: Currency,
    pub debit: Decimal,
    pub credit: Decimal,
}

impl Total {
    /// Debit less credit: zero, but where entries exchange this currency for another.
    #[must_use]
    pub fn difference(&self) -> Decimal {
        self.debit - self.credit
    }
}

/// A total has more than 28 digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the total in {currency} has more digits than can be added exactly")]
pub struct TooLarge {
    pub currency: Currency,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialBalance {
    /// By account, then currency.
    pub sums: Vec<AccountSum>,
    /// By currency.
    pub totals: Vec<Total>,
}

impl TrialBalance {
    /// # Errors
    /// A total has too many digits to be exact.
    pub fn new(mut sums: Vec<AccountSum>) -> Result<Self, TooLarge> {
        sums.sort_by(|a, b| a.account.cmp(&b.account).then(a.currency.cmp(&b.currency)));
        let mut totals: Vec<Total> = Vec::new();
        for sum in &sums {
            let currency = sum.currency;
            let place = match totals.binary_search_by(|total| total.currency.cmp(&currency)) {
                Ok(place) => place,
                Err(place) => {
                    totals.insert(place, Total { currency, debit: Decimal::ZERO, credit: Decimal::ZERO });
                    place
                }
            };
            let Some(total) = totals.get_mut(place) else { unreachable!("found or inserted above") };
            total.debit = total.debit.checked_add(sum.debit).ok_or(TooLarge { currency })?;
            total.credit = total.credit.checked_add(sum.credit).ok_or(TooLarge { currency })?;
        }
        Ok(Self { sums, totals })
    }

    /// Debits equal credits in every currency.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.totals.iter().all(|total| total.debit == total.credit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(account: &str, currency: &str, debit: &str, credit: &str) -> AccountSum {
        let dec = |text| Decimal::from_str_exact(text).unwrap();
        let currency = Currency::parse(currency).unwrap();
        AccountSum { account: AccountCode::parse(account).unwrap(), currency, debit: dec(debit), credit: dec(credit) }
    }

    #[test]
    fn accounts_stand_in_order_and_totals_per_currency() {
        let sums = vec![
            sum("4000", "EUR", "0", "100.00"),
            sum("1100", "USD", "5.00", "0"),
            sum("1100", "EUR", "119.00", "0"),
            sum("2200", "EUR", "0", "19.00"),
        ];
        let trial = TrialBalance::new(sums).unwrap();
        let rows: Vec<String> =
            trial.sums.iter().map(|sum| format!("{} {} {}", sum.account, sum.currency, sum.balance())).collect();
        assert_eq!(rows, ["1100 EUR 119.00", "1100 USD 5.00", "2200 EUR -19.00", "4000 EUR -100.00"]);
        let totals: Vec<String> =
            trial.totals.iter().map(|total| format!("{} {} {}", total.currency, total.debit, total.credit)).collect();
        assert_eq!(totals, ["EUR 119.00 119.00", "USD 5.00 0"]);
        assert!(!trial.is_balanced());
    }

    #[test]
    fn a_total_that_would_not_be_exact_is_an_error() {
        let most = "79228162514264337593543950335";
        assert!(TrialBalance::new(vec![sum("a", "EUR", most, "0"), sum("b", "EUR", "1", "0")]).is_err());
    }
}
