//! Several currencies: what balances in its own currency and in the base currency, rates, residues and their account.

use fis::domain::books::Books;

use super::books;
use crate::shared::CHART;
use crate::table::check;

const EXCHANGE: &str = r#"
[[rules]]
name = "transfer"
on = "bank.transfer.done"
date = "payload.day"
currency = "payload.currency"
lines = [
  { debit  = "{payload.to}", amount = "payload.bought", currency = "payload.other" },
  { credit = "{payload.from}", amount = "payload.sold" },
]
[[rules]]
name = "split"
on = "bank.transfer.split"
currency = "payload.currency"
lines = [
  { debit  = "1000", amount = "payload.a + payload.b + payload.c" },
  { credit = "4000", amount = "payload.a" },
  { credit = "4000", amount = "payload.b" },
  { credit = "4000", amount = "payload.c" },
]
"#;

pub(super) const EXCHANGES: &str = "
shape transfer  bank.transfer.done   to bought other from sold currency day
shape split     bank.transfer.split  currency a b c

// One foreign currency: it balances in itself, and in euro at the newest rate of the day.
transfer 1010 100.00 USD 1000 100.00 USD 2026-02-25 | 1010 +100.00 USD = 92.00 | 1000 -100.00 USD = 92.00 | posted
transfer 1010 100.00 USD 1000 100.00 USD 2026-02-20 | 1010 +100.00 USD = 92.00 | 1000 -100.00 USD = 92.00 | posted
transfer 1010 100.00 USD 1000 100.00 USD 2026-02-19 | 1010 +100.00 USD = 90.00 | 1000 -100.00 USD = 90.00 | posted
transfer 1000 8.00   GBP 1100 8.00   GBP 2026-02-25 | 1000 +8.00 GBP = 10.00 | 1100 -8.00 GBP = 10.00 | posted
transfer 1000 1.234  KWD 1100 1.234  KWD 2026-02-25 | 1000 +1.234 KWD = 3.83 | 1100 -1.234 KWD = 3.83 | posted
transfer 1010 100.00 USD 1000 99.99  USD 2026-02-25 | unbalanced debits are 100.00 USD, credits are 99.99 USD
transfer 1000 100    JPY 1100 100    JPY 2026-02-25 | fx_rate_missing JPY to EUR on 2026-02-25

// Several currencies: they balance in euro.
transfer 1010 100.00 USD 1000 92.00  EUR 2026-02-25 | 1010 +100.00 USD = 92.00 | 1000 -92.00 | posted
transfer 1000 92.00  EUR 1010 100.00 USD 2026-02-25 | 1000 +92.00 | 1010 -100.00 USD = 92.00 | posted
transfer 1010 100.00 USD 1000 73.60  GBP 2026-02-25 | 1010 +100.00 USD = 92.00 | 1000 -73.60 GBP = 92.00 | posted
transfer 1010 100.00 USD 1000 80.00  EUR 2026-02-25 | unbalanced debits are 92.00 EUR, credits are 80.00 EUR
transfer 1000 100    JPY 1100 1.00   EUR 2026-02-25 | fx_rate_missing JPY

// Up to a cent per line is rounding, and goes to its account; more is a rule that does not balance.
transfer 1010 100.00 USD 1000 91.99  EUR 2026-02-25 | 1010 +100.00 USD = 92.00 | 1000 -91.99 | 6999 -0.01 | posted
transfer 1010 100.00 USD 1000 92.01  EUR 2026-02-25 | 1010 +100.00 USD = 92.00 | 1000 -92.01 | 6999 +0.01 | posted
transfer 1010 100.00 USD 1000 92.02  EUR 2026-02-25 | 1010 +100.00 USD = 92.00 | 1000 -92.02 | 6999 +0.02 | posted
transfer 1010 100.00 USD 1000 92.03  EUR 2026-02-25 | unbalanced
split    USD 0.01 0.01 0.01                         | 1000 +0.03 USD = 0.03 | 4000 -0.01 USD = 0.01 | 4000 -0.01 USD = 0.01 | 4000 -0.01 USD = 0.01 | posted
split    USD 0.05 0.05 0.05                         | 1000 +0.15 USD = 0.14 | 4000 -0.05 USD = 0.05 | 4000 -0.05 USD = 0.05 | 4000 -0.05 USD = 0.05 | 6999 +0.01 | posted
split    EUR 0.05 0.05 0.05                         | 1000 +0.15 | 4000 -0.05 | 4000 -0.05 | 4000 -0.05 | posted

// An account may take one currency only, and a closed one takes nothing.
transfer 1010 92.00  EUR 1000 92.00  EUR 2026-02-25 | bad_currency 1010 takes USD only
transfer 1190 1.00   EUR 1000 1.00   EUR 2026-02-25 | account_closed 1190
transfer 1999 1.00   EUR 1000 1.00   EUR 2026-02-25 | unknown_account 1999
transfer 1000 1.00   EUR 1999 1.00   EUR 2026-02-25 | unknown_account 1999
// … which is told before what may mend itself.
transfer 1190 1      JPY 1000 1      JPY 2026-02-25 | account_closed
transfer 1000 1      JPY 1100 2      JPY 2026-02-25 | unbalanced
";

#[test]
fn an_entry_balances_in_its_currency_and_in_the_base_currency() {
    check(&books("", EXCHANGE), EXCHANGES);
}

pub(super) const UNROUNDED: &str = "
shape transfer  bank.transfer.done   to bought other from sold currency day
transfer 1010 100.00 USD 1000 92.00 EUR 2026-02-25  | 1010 +100.00 USD = 92.00 | 1000 -92.00 | posted
transfer 1010 100.00 USD 1000 91.99 EUR 2026-02-25  | unbalanced no rounding_account
";

#[test]
fn without_a_rounding_account_a_residue_is_unbalanced() {
    let chart = CHART.replace("rounding_account = \"6999\"\n", "");
    check(&Books::parse(&(chart + EXCHANGE), 1).unwrap(), UNROUNDED);
}
