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

// Half a cent per converted line, rounded up, is rounding, and goes to its account; more is a rule that does not balance.
transfer 1010 100.00 USD 1000 91.99  EUR 2026-02-25 | 1010 +100.00 USD = 92.00 | 1000 -91.99 | 6999 -0.01 | posted
transfer 1010 100.00 USD 1000 92.01  EUR 2026-02-25 | 1010 +100.00 USD = 92.00 | 1000 -92.01 | 6999 +0.01 | posted
transfer 1010 100.00 USD 1000 92.02  EUR 2026-02-25 | unbalanced debits are 92.00 EUR, credits are 92.02 EUR
transfer 1000 0.10   USD 1100 0.08   GBP 2026-02-25 | 1000 +0.10 USD = 0.09 | 1100 -0.08 GBP = 0.10 | 6999 +0.01 | posted
transfer 1000 0.10   USD 1100 0.09   GBP 2026-02-25 | unbalanced debits are 0.09 EUR, credits are 0.11 EUR
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

/// Lines in whatever currency the publisher names, and rates at which a few coins are worth nothing.
const MIXED: &str = r#"
[[rates]]
from = "VND"
to = "EUR"
date = 2026-01-01
rate = "0.00003"
[[rates]]
from = "IDR"
to = "EUR"
date = 2026-01-01
rate = "0.00005"
[[rules]]
name = "mixed"
on = "bank.mixed.done"
each = "payload.items"
currency = "item.currency"
lines = [
  { debit = "1100", amount = "item.debit", when = "exists(item.debit)" },
  { credit = "1000", amount = "item.credit", when = "exists(item.credit)" },
]
"#;

const MIXTURES: &str = r#"
shape mixed  bank.mixed.done  items

// What is in the base currency was not rounded, so it leaves no residue.
mixed [{"debit":"0.01","currency":"EUR"},{"debit":"0.01","currency":"EUR"},{"debit":"0.01","currency":"EUR"},{"credit":"0.01","currency":"USD"}] | unbalanced debits are 0.03 EUR, credits are 0.01 EUR

// What is worth nothing in the base currency balances in its own, or not at all.
mixed [{"debit":"100","currency":"VND"},{"credit":"0.01","currency":"IDR"}] | unbalanced debits are 0 IDR, credits are 0.01 IDR
mixed [{"debit":"100","currency":"VND"},{"credit":"100","currency":"VND"},{"debit":"1","currency":"IDR"},{"credit":"2","currency":"IDR"}] | unbalanced debits are 1.00 IDR, credits are 2.00 IDR
mixed [{"debit":"100","currency":"VND"},{"credit":"100","currency":"VND"},{"debit":"1","currency":"IDR"},{"credit":"1","currency":"IDR"}] | 1100 +100 VND = 0.00 | 1000 -100 VND = 0.00 | 1100 +1.00 IDR = 0.00 | 1000 -1.00 IDR = 0.00 | posted
mixed [{"debit":"100","currency":"VND"},{"credit":"100","currency":"VND"}] | 1100 +100 VND = 0.00 | 1000 -100 VND = 0.00 | posted
"#;

#[test]
fn only_what_was_converted_can_be_off() {
    check(&books("", MIXED), MIXTURES);
}

/// 3,200 debits of a cent against a credit of one US cent: 31.99 euro that no conversion has rounded.
#[test]
fn many_exact_lines_do_not_make_room_for_a_residue() {
    let cents = "{\"debit\":\"0.01\",\"currency\":\"EUR\"},".repeat(3_200);
    let row = format!(
        "shape mixed bank.mixed.done items\nmixed [{cents}{{\"credit\":\"0.01\",\"currency\":\"USD\"}}] | unbalanced debits are 32.00 EUR"
    );
    check(&books("", MIXED), &row);
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
