//! The work that one event can cause: every evaluation of its rules draws from one budget, and what an event can make longer than it looks (texts,
//! numbers, objects, lists, names) counts. The oracle is the count of steps, which is the same on every machine; nothing here measures time. `fuzz/map.rs` asks the same
//! of events and rules that are made at random.

use std::fmt::Write as _;

use fis::domain::books::{Books, Considered, Mapped};
use fis::domain::disposition::Reason;
use fis::domain::event::BODY_BYTES_MAX;
use fis::domain::expr::STEPS_MAX;

use crate::shared::{CHART, books as acme};
use crate::table::{event, instant};

/// One look at the longest text goes beyond the budget by so much before it is noticed.
pub const BEYOND_MAX: u32 = 40_000;

fn chart_with(rules: &str) -> Books {
    Books::parse(&format!("{CHART}\n{rules}"), 1).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

fn consider<'b>(books: &'b Books, body: &str) -> Considered<'b> {
    assert!(body.len() <= BODY_BYTES_MAX, "{} bytes", body.len());
    books.consider(&event(body).unwrap(), instant("2026-02-26T09:00:00Z"))
}

fn body(event_type: &str, payload: &str) -> String {
    format!(
        r#"{{"eventId":"e","tenantId":"acme","eventType":"{event_type}","occurredAt":"2026-02-25T10:00:00Z","payload":{payload}}}"#
    )
}

const SHARES: &str = r#"
[[rules]]
name = "shares"
on = "costs.bill.shared"
each = "payload.items"
currency = "payload.currency"
lines = [
  { debit  = "1000", amount = "round(item.amount / sum(payload.items[*].amount) * payload.total, 2)" },
  { credit = "4000", amount = "round(item.amount / sum(payload.items[*].amount) * payload.total, 2)" },
]
"#;

/// Items worth one each, and a total of as much.
fn shares(items: usize) -> String {
    let list = vec![r#"{"amount":1}"#; items].join(",");
    body("costs.bill.shared", &format!(r#"{{"currency":"EUR","total":"{items}.00","items":[{list}]}}"#))
}

#[test]
fn a_share_of_a_total_for_each_of_thousands_is_posted_in_linear_time() {
    let books = chart_with(SHARES);
    let steps = |items: usize| {
        let Considered { outcome, steps, .. } = consider(&books, &shares(items));
        let Ok(Mapped::Entry { entry, .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(entry.lines().len(), 2 * items);
        assert!(entry.lines().iter().all(|line| line.amount.to_string() == "1.00"));
        steps
    };
    let (some, most) = (steps(500), steps(5_000));
    assert!(most <= 10 * some, "{some} steps for 500 items, {most} for 5,000");
    assert!(most <= STEPS_MAX / 3 * 2, "an entry of the most lines has room: {most}");
}

/// Looked for from the beginning every time, 10,000 members that nobody asks for would be looked at for every line.
#[test]
fn members_that_nobody_asks_for_cost_nothing_to_speak_of() {
    let books = Books::parse(&acme("acme"), 1).unwrap();
    let unasked: String = (0..10_000).map(|n| format!(r#""x{n}":0,"#)).collect();
    let slips = vec![r#"{"department":"10","gross":"30.00","withheld":"9.00"}"#; 1_500].join(",");
    let steps = |before: &str| {
        let payload = format!(r#"{{{before}"currency":"EUR","runId":"r","payslips":[{slips}]}}"#);
        let Considered { outcome, steps, .. } = consider(&books, &body("payroll.salary.disbursed", &payload));
        assert!(matches!(outcome, Ok(Mapped::Entry { .. })), "{outcome:?}");
        steps
    };
    let (without, with) = (steps(""), steps(&unasked));
    assert!(with < without + 100, "{without} steps without them, {with} with them");
}

#[test]
fn an_event_that_takes_too_many_steps_is_refused_by_rule_and_expression() {
    let books = chart_with(
        r#"
[[rules]]
name = "known-codes"
on = "codes.list.checked"
each = "payload.items"
currency = "'EUR'"
lines = [
  { debit  = "1000", amount = "1", when = "item.code in payload.items[*].other" },
  { credit = "4000", amount = "1" },
]
"#,
    );
    let list = vec![r#"{"code":1,"other":2}"#; 4_000].join(",");
    let event = body("codes.list.checked", &format!(r#"{{"items":[{list}]}}"#));
    let Considered { outcome, steps, .. } = consider(&books, &event);
    let failure = outcome.unwrap_err();
    assert_eq!(failure.reason, Reason::RuleFailed);
    assert_eq!(
        failure.detail,
        "rule `known-codes`: `item.code in payload.items[*].other`: the rules take more than 500000 steps for this event"
    );
    assert!(steps <= STEPS_MAX + BEYOND_MAX);
}

/// Many rules, none of which is the one: their conditions draw from the same budget, and so do their patterns.
#[test]
fn conditions_and_patterns_of_other_rules_count() {
    let rules = |count: usize, on: &str, when: &str| {
        let mut text = String::new();
        for n in 0..count {
            let _ = write!(text, "[[rules]]\nname = \"r{n}\"\non = \"{on}\"\nwhen = \"{when}\"\nignore = true\n");
        }
        text
    };
    let list = vec!["1"; 10_000].join(",");
    let long = body("a.b.c", &format!(r#"{{"list":[{list}]}}"#));
    let books = chart_with(&rules(100, "a.b.c", "sum(payload.list) == 0"));
    let failure = consider(&books, &long).outcome.unwrap_err();
    assert!(failure.detail.contains("rule `r49`: `sum(payload.list) == 0`: the rules take more"), "{}", failure.detail);

    let words = vec!["a"; 60].join(".");
    let books = chart_with(&rules(5_000, "#.a.#.a.#.a.#.a.b", "true"));
    let failure = consider(&books, &body(&words, "{}")).outcome.unwrap_err();
    assert!(failure.detail.contains("`#.a.#.a.#.a.#.a.b`: the rules take more"), "{}", failure.detail);
}
