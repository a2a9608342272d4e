//! Orders and pay runs: what becomes a line, with which amount, and what is told where a value is missing or is no amount.

use super::books;
use crate::shared::{ACME, rule};
use crate::table::check;

pub(super) const ORDERS: &str = "
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
    check(&books("", &rule(ACME, "order-completed")), ORDERS);
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

pub(super) const PAYROLL: &str = r#"
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
