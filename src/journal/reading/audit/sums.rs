//! Sums of exact amounts, in millionths, beside the ledger's own. No currency has more than four decimals; an amount that has
//! more than six was never posted.

use std::collections::HashMap;

use super::copy::LineRow;
use super::kept::wrong_balance;
use crate::store::audit::KeptBalance;

const DECIMALS: usize = 6;

/// Debits and credits of one entry in the base currency.
#[derive(Default)]
pub struct EntrySum {
    debit: i128,
    credit: i128,
    unreadable: bool,
}

impl EntrySum {
    pub fn add(&mut self, line: &LineRow<'_>) {
        match (line.side, millionths(line.base_amount)) {
            (b"debit", Some(amount)) => self.debit += amount,
            (b"credit", Some(amount)) => self.credit += amount,
            _ => self.unreadable = true,
        }
    }

    pub fn fault(&self) -> Option<String> {
        if self.unreadable {
            return Some("a line has an amount or a side that was never posted".to_owned());
        }
        (self.debit != self.credit)
            .then(|| format!("debits are {}, credits are {} in the base currency", text(self.debit), text(self.credit)))
    }
}

/// Debits and credits of every account of a tenant, by account and currency.
#[derive(Default)]
pub struct Sums(HashMap<Vec<u8>, (i128, i128)>);

impl Sums {
    pub fn add(&mut self, line: &LineRow<'_>) {
        let Some(amount) = millionths(line.amount) else { return };
        // An account code has no tab, so the pair has one spelling. A known key is looked up without a copy.
        let mut key = [0u8; 80];
        let length = line.account.len() + 1 + line.currency.len();
        let sum = match key.get_mut(..length) {
            Some(key) => {
                let (account, rest) = key.split_at_mut(line.account.len());
                account.copy_from_slice(line.account);
                if let [tab, currency @ ..] = rest {
                    *tab = b'\t';
                    currency.copy_from_slice(line.currency);
                }
                match self.0.get_mut(&*key) {
                    Some(sum) => sum,
                    None => self.0.entry(key.to_vec()).or_default(),
                }
            }
            None => self.0.entry([line.account, b"\t", line.currency].concat()).or_default(),
        };
        if line.side == b"debit" { sum.0 += amount } else { sum.1 += amount }
    }

    /// The first account whose kept balance is not the sum of its lines.
    pub fn fault(&self, kept: &[KeptBalance]) -> Option<String> {
        let mut known = 0;
        for KeptBalance { account_code, currency, debit, credit } in kept {
            let stored = (millionths(debit.as_bytes()), millionths(credit.as_bytes()));
            let summed = self.0.get(format!("{account_code}\t{currency}").as_bytes()).copied();
            known += usize::from(summed.is_some());
            let (debit, credit) = summed.unwrap_or_default();
            if stored != (Some(debit), Some(credit)) {
                return Some(wrong_balance(account_code, currency));
            }
        }
        if known == self.0.len() {
            return None;
        }
        // An account has lines and no balance at all.
        let is_kept =
            |key: &str| kept.iter().any(|balance| key == format!("{}\t{}", balance.account_code, balance.currency));
        let missing = self.0.keys().filter_map(|key| std::str::from_utf8(key).ok()).filter(|key| !is_kept(key)).min();
        missing.and_then(|key| key.split_once('\t')).map(|(account, currency)| wrong_balance(account, currency))
    }
}

/// A decimal text in millionths; `None` where it is no such decimal.
fn millionths(text: &[u8]) -> Option<i128> {
    let mut value: i128 = 0;
    let mut decimals = None;
    for byte in text {
        match byte {
            b'0'..=b'9' => value = value.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?,
            b'.' if decimals.is_none() => {
                decimals = Some(0);
                continue;
            }
            _ => return None,
        }
        decimals = decimals.map(|count| count + 1);
    }
    let missing = u32::try_from(DECIMALS.checked_sub(decimals.unwrap_or(0))?).ok()?;
    value.checked_mul(10i128.checked_pow(missing)?)
}

fn text(millionths: i128) -> String {
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_summed_in_millionths() {
        let rows = [
            ("119.00", Some(119_000_000)),
            ("0.000001", Some(1)),
            ("7", Some(7_000_000)),
            ("0.0000001", None),
            ("NaN", None),
            ("-1", None),
        ];
        for (given, expected) in rows {
            assert_eq!(millionths(given.as_bytes()), expected, "{given}");
        }
        assert_eq!(text(119_500_000), "119.5");
    }
}
