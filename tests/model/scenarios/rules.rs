//! Which rule an event gets, by pattern and condition, and what expressions make of its values.

use super::books;
use crate::table::check;

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

pub(super) const MATCHES: &str = "
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

pub(super) const SUMS: &str = r#"
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
