//! What the books make of events, as tables: adding a case is adding a row. The language is told in `table.rs`.

use std::collections::BTreeSet;

use fis::domain::books::{Books, Mistake};
use fis::domain::disposition::Reason;

use crate::table::{check, event, verdicts};

/// The chart, the periods and the rates that all tables share.
const CHART: &str = r#"
tenant = "acme"
base_currency = "EUR"
timezone = "Europe/Berlin"
rounding_account = "6999"

[[accounts]]
code = "1000"
type = "asset"
[[accounts]]
code = "1010"
type = "asset"
currency = "USD"
[[accounts]]
code = "1100"
type = "asset"
[[accounts]]
code = "1190"
type = "asset"
closed = true
[[accounts]]
code = "2200"
type = "liability"
[[accounts]]
code = "2300"
type = "liability"
[[accounts]]
code = "4000"
type = "income"
[[accounts]]
code = "6010"
type = "expense"
[[accounts]]
code = "6020"
type = "expense"
[[accounts]]
code = "6999"
type = "expense"

[[periods]]
name = "2026-01"
starts = 2026-01-01
ends = 2026-01-31
status = "closed"
[[periods]]
name = "2026-02"
starts = 2026-02-01
ends = 2026-02-28
status = "open"
[[periods]]
name = "2026-03"
starts = 2026-03-01
ends = 2026-03-31
status = "open"

[[rates]]
from = "USD"
to = "EUR"
date = 2026-02-01
rate = "0.9000"
[[rates]]
from = "USD"
to = "EUR"
date = 2026-02-20
rate = "0.9200"
[[rates]]
from = "EUR"
to = "GBP"
date = 2026-02-01
rate = "0.80"
[[rates]]
from = "KWD"
to = "EUR"
date = 2026-02-01
rate = "3.1"
"#;

const SHOP: &str = r#"
[[rules]]
name = "order-completed"
on = "ecommerce.order.completed"
when = "payload.total > 0"
currency = "payload.currency"
description = "Order {payload.orderId}"
lines = [
  { debit  = "1100", amount = "payload.total" },
  { credit = "4000", amount = "payload.total - payload.tax" },
  { credit = "2200", amount = "payload.tax", when = "payload.tax != 0" },
]
"#;

const ORDERS: &str = "
shape order  ecommerce.order.completed  orderId total tax currency

// The usual order, an order without tax, and numbers written as numbers.
order ord-1   119.00              19.00   EUR  | 1100 +119.00 | 4000 -100.00 | 2200 -19.00 | on 2026-02-25 | says Order ord-1 | by order-completed | posted
order ord-2   100.00              0       EUR  | 1100 +100.00 | 4000 -100.00 | posted
order ord-3   #119                #19.0   EUR  | 1100 +119.00 | 4000 -100.00 | 2200 -19.00 | posted
order ord-4   #1.19e2             #190e-1 EUR  | 1100 +119.00 | 4000 -100.00 | 2200 -19.00 | posted
order ord-5   0.02                0.01    EUR  | 1100 +0.02 | 4000 -0.01 | 2200 -0.01 | posted
order ord-6   999999999999999.99  0       EUR  | 1100 +999999999999999.99 | 4000 -999999999999999.99 | posted
order #7      1                   0       EUR  | 1100 +1.00 | 4000 -1.00 | says Order 7 | posted

// `when` decides whether the rule is meant at all.
order ord-8   0                   0       EUR  | rule_not_found ecommerce.order.completed
order ord-9   #-0                 0       EUR  | rule_not_found
order ord-10  -5                  0       EUR  | rule_not_found

// What is missing, or is no number, is named by its place.
order ord-11  119.00              _       EUR  | rule_failed payload.tax
order ord-12  119.00              null    EUR  | rule_failed payload.tax
order ord-13  _                   19.00   EUR  | rule_failed payload.total
order ord-14  much                0       EUR  | rule_failed payload.total
order ord-15  {}                  0       EUR  | rule_failed payload.total
order ord-16  true                0       EUR  | rule_failed payload.total
order ord-17  1,50                0       EUR  | rule_failed payload.total
order ord-18  1e2                 0       EUR  | rule_failed payload.total
order _       119.00              0       EUR  | rule_failed payload.orderId
order []      119.00              0       EUR  | rule_failed payload.orderId
order ord-19  119.00              0       _    | rule_failed payload.currency
order ord-20  #1234567890123456789012345678901234567890 0 EUR | rule_failed 28 digits

// Amounts are positive, bounded and no finer than the currency.
order ord-21  100                 100     EUR  | bad_amount not positive
order ord-22  10                  20      EUR  | bad_amount not positive
order ord-23  119.001             0       EUR  | bad_amount more decimals
order ord-24  119.010             0       EUR  | 1100 +119.01 | 4000 -119.01 | posted
order ord-25  1000000000000000    0       EUR  | bad_amount not below
order ord-26  100.5               0       JPY  | bad_amount JPY, which has 0

// Currencies are ISO 4217, upper case, with minor units.
order ord-27  100                 0       eur  | bad_currency eur
order ord-28  100                 0       XXX  | bad_currency XXX
order ord-29  100                 0       XAU  | bad_currency XAU
order ord-30  100                 0       #978 | bad_currency 978
";

#[test]
fn an_order_becomes_a_receivable_revenue_and_tax() {
    check(&books("", SHOP), ORDERS);
}

const PAYROLL_RULES: &str = r#"
[[rules]]
name = "salaries"
on = "payroll.salary.disbursed"
each = "payload.payslips"
currency = "coalesce(item.currency, payload.currency)"
description = "Pay run {payload.runId}"
lines = [
  { debit  = "60{item.department}", amount = "item.gross" },
  { credit = "1000", amount = "item.gross - item.withheld" },
  { credit = "2300", amount = "item.withheld", when = "item.withheld > 0" },
]
"#;

const PAYROLL: &str = r#"
shape payroll  payroll.salary.disbursed  runId currency payslips

payroll r1 EUR [{"department":"10","gross":"100.00","withheld":"20.00"}]   | 6010 +100.00 | 1000 -80.00 | 2300 -20.00 | says Pay run r1 | posted
payroll r2 EUR [{"department":10,"gross":1,"withheld":0},{"department":"20","gross":2,"withheld":1}] | 6010 +1.00 | 1000 -1.00 | 6020 +2.00 | 1000 -1.00 | 2300 -1.00 | posted
payroll r3 _   [{"department":"10","gross":3,"withheld":0,"currency":"EUR"}] | 6010 +3.00 | 1000 -3.00 | posted
payroll r4 EUR []                                                         | unbalanced at least two lines
payroll r5 EUR [{"department":"99","gross":"1","withheld":"0"}]           | unknown_account 6099
payroll r6 EUR [{"department":"","gross":"1","withheld":"0"}]             | unknown_account 60
payroll r7 EUR [{"department":{},"gross":"1","withheld":"0"}]             | rule_failed item.department
payroll r8 EUR [{"department":"10","gross":"1"}]                          | rule_failed item.withheld
payroll r9 EUR [7]                                                        | rule_failed so it has no member `department`
payroll ra EUR _                                                          | rule_failed payload.payslips
payroll rb EUR {}                                                         | rule_failed payload.payslips
payroll rc EUR many                                                       | rule_failed payload.payslips
payroll rd EUR null                                                       | rule_failed payload.payslips
"#;

#[test]
fn each_payslip_makes_its_own_lines() {
    check(&books("", PAYROLL_RULES), PAYROLL);
}

const DATED: &str = r#"
[[rules]]
name = "dated"
on = "a.b.dated"
date = "payload.day"
currency = "'EUR'"
lines = [{ debit = "1000", amount = "payload.amount" }, { credit = "4000", amount = "payload.amount" }]
[[rules]]
name = "undated"
on = "a.b.undated"
currency = "'EUR'"
lines = [{ debit = "1000", amount = "payload.amount" }, { credit = "4000", amount = "payload.amount" }]
"#;

const DATES: &str = "
shape dated    a.b.dated    day amount
shape undated  a.b.undated  amount

// The rule's date goes before the event's, and an instant is a day of the tenant's zone.
dated   2026-02-03             1  | 1000 +1.00 | 4000 -1.00 | on 2026-02-03 | says dated | posted
dated   2026-02-03T22:59:59Z   1  | 1000 +1.00 | 4000 -1.00 | on 2026-02-03 | posted
dated   2026-02-03T23:00:00Z   1  | 1000 +1.00 | 4000 -1.00 | on 2026-02-04 | posted
dated   2026-02-03T23:30:00-05:00 1 | 1000 +1.00 | 4000 -1.00 | on 2026-02-04 | posted
dated   yesterday              1  | rule_failed payload.day
dated   2026-02-30             1  | rule_failed payload.day
dated   #20260203              1  | rule_failed payload.day
dated   2026-2-3               1  | rule_failed payload.day
dated   +2026-02-03            1  | rule_failed payload.day
dated   2026-02-03T10:00:00    1  | rule_failed payload.day
dated   _                      1  | rule_failed payload.day

// Without one: when it occurred, else when it was received, which in these tables is the 26th.
undated 1                         | 1000 +1.00 | 4000 -1.00 | on 2026-02-25 | posted
undated 1 @2026-02-28T22:59:59Z   | 1000 +1.00 | 4000 -1.00 | on 2026-02-28 | posted
undated 1 @2026-02-28T23:00:00Z   | 1000 +1.00 | 4000 -1.00 | on 2026-03-01 | posted
undated 1 @-                      | 1000 +1.00 | 4000 -1.00 | on 2026-02-26 | posted
undated 1 @yesterday              | bad_field occurredAt
";

#[test]
fn an_entry_is_dated_by_the_rule_the_event_or_the_receipt() {
    check(&books("", DATED), DATES);
}

const LATE_REJECTED: &str = "
shape dated  a.b.dated  day amount
dated 2026-01-31 1   | period_closed 2026-01
dated 2025-12-31 1   | period_closed in no period
dated 2026-04-01 1   | period_closed in no period
// What can never succeed is told before the period.
dated 2026-01-31 0   | bad_amount
";

const LATE_HELD: &str = "
shape dated  a.b.dated  day amount
dated 2026-01-31 1   | period_not_open 2026-01
dated 2026-04-01 1   | period_not_open in no period
dated 2026-01-31 0   | bad_amount
";

const LATE_MOVED: &str = "
shape dated  a.b.dated  day amount
dated 2026-01-31 1   | 1000 +1.00 | 4000 -1.00 | on 2026-02-01 | from 2026-01-31 | posted
dated 2025-06-30 1   | 1000 +1.00 | 4000 -1.00 | on 2026-02-01 | from 2025-06-30 | posted
dated 2026-02-28 1   | 1000 +1.00 | 4000 -1.00 | on 2026-02-28 | posted
dated 2026-04-01 1   | period_not_open no later period is open
";

#[test]
fn a_late_event_is_rejected_held_or_moved_as_the_books_say() {
    check(&books("", DATED), LATE_REJECTED);
    check(&books("late_events = \"reject\"", DATED), LATE_REJECTED);
    check(&books("late_events = \"hold\"", DATED), LATE_HELD);
    check(&books("late_events = \"next_open\"", DATED), LATE_MOVED);
}

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

const EXCHANGES: &str = "
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

const UNROUNDED: &str = "
shape transfer  bank.transfer.done   to bought other from sold currency day
transfer 1010 100.00 USD 1000 92.00 EUR 2026-02-25  | 1010 +100.00 USD = 92.00 | 1000 -92.00 | posted
transfer 1010 100.00 USD 1000 91.99 EUR 2026-02-25  | unbalanced no rounding_account
";

#[test]
fn without_a_rounding_account_a_residue_is_unbalanced() {
    let chart = CHART.replace("rounding_account = \"6999\"\n", "");
    check(&Books::parse(&(chart + EXCHANGE), 1).unwrap(), UNROUNDED);
}

const CANCELLING: &str = r#"
[[rules]]
name = "order-cancelled"
on = "ecommerce.order.cancelled"
reverses = "payload.orderEventId"
description = "Cancellation of {payload.orderId}"
[[rules]]
name = "refund"
on = "ecommerce.order.refunded"
when = "exists(payload.orderEventId)"
reverses = "payload.orderEventId"
date = "payload.day"
"#;

const CANCELLATIONS: &str = "
shape cancel  ecommerce.order.cancelled  orderId orderEventId
shape refund  ecommerce.order.refunded   day orderEventId

cancel ord-1 evt-7                          | on 2026-02-25 | says Cancellation of ord-1 | by order-cancelled | reverses evt-7
cancel ord-1 #7                             | reverses 7
cancel ord-1 evt-7 @2026-01-10T00:00:00Z    | on 2026-01-10 | reverses evt-7
cancel ord-1 _                              | rule_failed payload.orderEventId
cancel ord-1 null                           | rule_failed payload.orderEventId
cancel ord-1 {}                             | rule_failed payload.orderEventId
cancel _     evt-7                          | rule_failed payload.orderId
refund 2026-03-01 evt-8                     | on 2026-03-01 | says - | by refund | reverses evt-8
refund someday    evt-8                     | rule_failed payload.day
refund 2026-03-01 _                         | rule_not_found
refund 2026-03-01 null                      | rule_not_found
";

#[test]
fn a_cancellation_asks_to_reverse_the_entry_of_another_event() {
    check(&books("", CANCELLING), CANCELLATIONS);
}

const PATTERNS: &str = r##"
[[rules]]
name = "carts"
on = "ecommerce.cart.*"
ignore = true
[[rules]]
name = "big"
on = "*.order.*"
when = "payload.total >= 1000"
currency = "'EUR'"
lines = [{ debit = "1100", amount = "payload.total" }, { credit = "4000", amount = "payload.total" }]
[[rules]]
name = "small"
on = "*.order.*"
currency = "'EUR'"
lines = [{ debit = "1000", amount = "payload.total" }, { credit = "4000", amount = "payload.total" }]
[[rules]]
name = "billing"
on = "billing.#"
currency = "'EUR'"
lines = [{ debit = "1000", amount = "payload.total" }, { credit = "1100", amount = "payload.total" }]
[[rules]]
name = "tests"
on = "#.test"
ignore = true
"##;

const MATCHES: &str = "
shape cart     ecommerce.cart.filled        total
shape carts    ecommerce.cart               total
shape order    ecommerce.order.completed    total
shape orders   b2b.order.completed          total
shape long     eu.b2b.order.completed       total
shape bill     billing                      total
shape invoice  billing.invoice.paid         total
shape deep     billing.invoice.paid.late    total
shape probe    some.thing.test              total
shape bare     test                         total
shape upper    Billing.invoice.paid         total

cart    1    | ignored
cart    _    | ignored
carts   1    | rule_not_found
// The first rule that matches wins; a condition that fails to hold leaves the event to the next.
order   1000 | 1100 +1000.00 | 4000 -1000.00 | by big | posted
order   999  | 1000 +999.00 | 4000 -999.00 | by small | posted
orders  999  | 1000 +999.00 | 4000 -999.00 | by small | posted
// A condition that cannot be told does not.
order   _    | rule_failed payload.total
long    1    | rule_not_found eu.b2b.order.completed
bill    1    | 1000 +1.00 | 1100 -1.00 | by billing | posted
invoice 1    | 1000 +1.00 | 1100 -1.00 | by billing | posted
deep    1    | 1000 +1.00 | 1100 -1.00 | by billing | posted
probe   1    | ignored
bare    1    | ignored
upper   1    | rule_not_found
";

const UNMATCHED_IGNORED: &str = "
shape long  eu.b2b.order.completed       total
shape order ecommerce.order.completed    total
long    1    | ignored
order   _    | rule_failed payload.total
";

#[test]
fn the_first_rule_whose_pattern_and_condition_hold_decides() {
    check(&books("", PATTERNS), MATCHES);
    check(&books("unmatched = \"reject\"", PATTERNS), MATCHES);
    check(&books("unmatched = \"ignore\"", PATTERNS), UNMATCHED_IGNORED);
}

const SUMMING: &str = r#"
[[rules]]
name = "sum"
on = "a.b.sum"
currency = "'EUR'"
description = "{eventType} {eventId} {tenantId} {coalesce(correlationId, '-')} {{{payload.note}}}"
lines = [
  { debit  = "1000", amount = "round(sum(payload.net[*].amount) * (1 + payload.rate / 100), 2)" },
  { credit = "4000", amount = "sum(payload.net[*].amount)" },
  { credit = "2200", amount = "round(sum(payload.net[*].amount) * payload.rate / 100, 2)", when = "payload.rate > 0" },
]
[[rules]]
name = "limits"
on = "a.b.limits"
currency = "coalesce(payload.currency, 'EUR')"
lines = [
  { debit  = "1000", amount = "min(max(payload.a, payload.b), 100)" },
  { credit = "4000", amount = "abs(payload.c)" },
]
"#;

const SUMS: &str = r#"
shape sum     a.b.sum     note rate net
shape limits  a.b.limits  a b c currency

sum    n 19 [{"amount":"10.00"},{"amount":5}]  | 1000 +17.85 | 4000 -15.00 | 2200 -2.85 | says a.b.sum evt-1 acme - {n} | posted
sum    n 0  [{"amount":"10.00"}]               | 1000 +10.00 | 4000 -10.00 | posted
sum    n 19 []                                 | bad_amount not positive
sum    n 19 [{"amount":"10.00"},{}]            | rule_failed payload.net[1].amount
sum    n 19 [{"amount":"ten"}]                 | rule_failed payload.net[0].amount
sum    _ 19 [{"amount":1}]                     | rule_failed payload.note
limits 7   9   -9   _                          | 1000 +9.00 | 4000 -9.00 | posted
limits 700 9   -100 _                          | 1000 +100.00 | 4000 -100.00 | posted
limits 7   9   8    _                          | unbalanced debits are 9.00 EUR, credits are 8.00 EUR
limits 7   9   9    null                       | 1000 +9.00 | 4000 -9.00 | posted
limits 7   9   9    USD                        | 1000 +9.00 USD = 8.28 | 4000 -9.00 USD = 8.28 | posted
"#;

#[test]
fn amounts_and_texts_are_computed_exactly() {
    check(&books("", SUMMING), SUMS);
}

#[test]
fn a_rule_may_have_its_own_retries() {
    let rules = format!("{}retry = {{ max_retries = 9 }}\n", DATED);
    let books = books("late_events = \"hold\"", &rules);
    let retries = |event_type: &str| {
        let body = format!(r#"{{"eventId":"e","tenantId":"acme","eventType":"{event_type}","payload":{{"day":"x"}}}}"#);
        books.retry_policy(&event(&body).unwrap()).map(|policy| (policy.max_retries, policy.base_delay_seconds))
    };
    assert_eq!(retries("a.b.undated"), Some((9, 60)));
    assert_eq!(retries("a.b.dated"), None);
    assert_eq!(retries("a.b.other"), None);
}

#[test]
fn books_that_could_go_wrong_are_refused_with_the_place() {
    let lines = r#"lines = [{ debit = "1000", amount = "payload.a" }, { credit = "4000", amount = "payload.a" }]"#;
    let rule = |more: &str| format!("[[rules]]\nname = \"r\"\non = \"a.b.c\"\ncurrency = \"'EUR'\"\n{more}\n");
    let account = |more: &str| format!("[[accounts]]\ncode = \"x\"\ntype = \"asset\"\n{more}\n");
    let rows = [
        (rule(""), "rule `r`", "exactly one of `lines`, `reverses` and `ignore"),
        (rule(&format!("{lines}\nignore = true")), "rule `r`", "exactly one of `lines`, `reverses` and `ignore"),
        (rule(&format!("when = \"payload.a >\"\n{lines}")), "rule `r`", "when"),
        (rule(&format!("when = \"paylod.a > 1\"\n{lines}")), "rule `r`", "payload"),
        (rule(&format!("when = \"item.a > 1\"\n{lines}")), "rule `r`", "item"),
        (rule(&lines.replace("4000", "4001")), "rule `r`, line 2", "did you mean `4000`?"),
        (
            rule(&lines.replace("{ debit =", "{ debit = \"1000\", credit =")),
            "rule `r`, line 1",
            "exactly one of `debit`",
        ),
        (rule(&format!("{lines}\nretry = {{ max_retries = 1001 }}")), "rule `r`", "max_retries"),
        (rule(&format!("{lines}\nretry = {{ max_delay_seconds = 2592001 }}")), "rule `r`", "2592000"),
        (rule(&format!("{lines}\nretry = {{ jitter_seconds = 9000000000000000 }}")), "rule `r`", "2592000"),
        (rule(&format!("{lines}\nretry = {{ backoff_multiplier = 0.5 }}")), "rule `r`", "backoff_multiplier"),
        (rule(&format!("{lines}\nretry = {{ backoff_multiplier = nan }}")), "rule `r`", "backoff_multiplier"),
        (rule(&format!("{lines}\n{}", rule(lines))), "rule `r`", "appears twice"),
        (account("currency = \"XAU\""), "account `x`", "ISO 4217"),
        (format!("{}{}", account(""), account("")), "account `x`", "appears twice"),
        (account("colour = \"red\""), "account `x`", "colour"),
        (
            "[[periods]]\nname = \"x\"\nstarts = 2026-02-28\nends = 2026-03-31\nstatus = \"open\"\n".to_owned(),
            "period `x`",
            "overlap",
        ),
        ("[[rates]]\nfrom = \"USD\"\nto = \"EUR\"\ndate = 2026-02-01\nrate = \"0\"\n".to_owned(), "rate", "positive"),
        (
            "[[rates]]\nfrom = \"EUR\"\nto = \"EUR\"\ndate = 2026-02-01\nrate = \"1\"\n".to_owned(),
            "rate",
            "two currencies",
        ),
    ];
    for (text, place, message) in rows {
        refused(&format!("{CHART}\n{text}"), place, message);
    }
    refused(&CHART.replace("\"6999\"\n\n", "\"1010\"\n\n"), "rounding_account", "takes USD only");
    refused(&CHART.replace("Europe/Berlin", "Europe/Bonn"), "timezone", "Europe/Bonn");
    refused(&CHART.replace("base_currency = \"EUR\"", "base_currency = \"EURO\""), "base_currency", "EURO");
    refused(&CHART.replace("tenant = \"acme\"", "tenant = \"a/b\""), "tenant", "'/'");
}

#[track_caller]
fn refused(text: &str, place: &str, message: &str) {
    let mistakes = Books::parse(text, 1).expect_err(message);
    let told = |mistake: &Mistake| mistake.place.starts_with(place) && mistake.message.contains(message);
    assert!(mistakes.iter().any(told), "{place}: {message} is not among {mistakes:#?}");
}

/// Reasons that only the ledger, the broker or the configuration of tenants can give; `tests/flow` has them.
const OF_THE_LEDGER: [Reason; 7] = [
    Reason::UnknownTenant,
    Reason::IdempotencyConflict,
    Reason::AlreadyReversed,
    Reason::AttemptsExhausted,
    Reason::DeliveryLimit,
    Reason::DatabaseRefused,
    Reason::OriginalNotPosted,
];

#[test]
fn every_reason_of_decoding_and_mapping_has_a_row() {
    let tables = [
        ORDERS,
        PAYROLL,
        DATES,
        LATE_REJECTED,
        LATE_HELD,
        LATE_MOVED,
        EXCHANGES,
        UNROUNDED,
        CANCELLATIONS,
        MATCHES,
        SUMS,
    ];
    let mut told: BTreeSet<&str> = tables.iter().flat_map(|table| verdicts(table)).collect();
    told.extend(crate::decode::REASONS.iter().map(|reason| reason.code()));
    for reason in Reason::ALL {
        let expected = !OF_THE_LEDGER.contains(reason);
        assert_eq!(told.contains(reason.code()), expected, "{reason}");
    }
    for verdict in told {
        let known = Reason::from_code(verdict).is_some() || ["posted", "ignored", "reverses"].contains(&verdict);
        assert!(known, "`{verdict}` is no verdict");
    }
}

/// The chart with further settings at its top and rules at its end.
fn books(settings: &str, rules: &str) -> Books {
    Books::parse(&format!("{settings}\n{CHART}\n{rules}"), 1).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"))
}
