//! The work that one event can cause: every evaluation of its rules draws from one budget, and what an event can make longer than it looks (texts,
//! numbers, objects, lists, names) counts. The oracle is the count of steps, which is the same on every machine; nothing here measures time.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use fis::domain::books::{Books, Considered, Mapped};
use fis::domain::disposition::Reason;
use fis::domain::event::BODY_BYTES_MAX;
use fis::domain::expr::STEPS_MAX;

use crate::shared::{CHART, books as acme};
use crate::table::{event, instant};

/// One look at the longest text goes beyond the budget by so much before it is noticed.
const BEYOND_MAX: u32 = 40_000;

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

// --- adversaries --------------------------------------------------------------------------------------------------

/// Rules that do with an event whatever rules can.
const GREEDY: &str = r##"
[[rules]]
name = "sums"
on = "a.sums"
when = "count(payload.list) >= 0 and sum(payload.list[*].n) != 1"
each = "payload.list"
currency = "coalesce(item.currency, payload.currency, 'EUR')"
description = "{coalesce(payload.text, payload.name, 'x')} {count(payload.list)}"
lines = [
  { debit  = "{coalesce(item.account, '1000')}", amount = "item.n / sum(payload.list[*].n) * max(payload.list[*].n) + payload.number * 1.000000001" },
  { credit = "4000", amount = "round(item.n * item.n / 3 / 7 * payload.number, 2)", when = "coalesce(item.code, -1) in payload.codes or coalesce(item.code, -1) in payload.list[*].n or coalesce(item.text, '') == payload.text" },
]
[[rules]]
name = "texts"
on = "a.texts"
each = "payload.list[*].list[*]"
date = "payload.date"
currency = "payload.text"
lines = [
  { debit  = "{item.text}{payload.text}", amount = "payload.text + item.text", when = "payload.text != item.text and not exists(payload.list[*].none)" },
  { credit = "{payload.text}", amount = "payload.text * payload.text" },
]
[[rules]]
name = "deep"
on = "#.a.#.a.#.b"
reverses = "payload.a.a.a.a.a.a.a.a"
[[rules]]
name = "numbers"
on = "a.#"
currency = "'EUR'"
lines = [
  { debit  = "1000", amount = "payload.number / 3 * payload.number / 7 - payload.small * payload.number" },
  { credit = "4000", amount = "min(payload.list[*].n) + abs(payload.number) + sum(payload.numbers) / count(payload.numbers)" },
]
"##;

struct Adversary {
    random: fastrand::Rng,
    /// Whether numbers of this event may be long, and what its items are like.
    long: bool,
    shape: u8,
}

impl Adversary {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self { long: random.u8(..4) == 0, shape: random.u8(..4), random }
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.random.usize(..of.len())]
    }

    fn event(&mut self) -> String {
        let event_type = match self.random.u8(..5) {
            0 => "a.sums".to_owned(),
            1 => "a.texts".to_owned(),
            2 => vec![self.pick(&["a", "b", "c"]); self.random.usize(1..60)].join("."),
            3 => format!("{}.b", vec!["a"; self.random.usize(1..60)].join(".")),
            _ => "a.numbers".to_owned(),
        };
        let mut members = String::new();
        let mut names = ["list", "codes", "numbers", "number", "small", "text", "name", "currency", "date", "a"];
        self.random.shuffle(&mut names);
        for name in names {
            // Mostly all are there: an event that lacks something ends early.
            if self.random.u8(..12) == 0 {
                continue;
            }
            let room = BODY_BYTES_MAX.saturating_sub(400 + members.len());
            let value = self.value(name, room);
            if value.len() + name.len() + 4 <= room {
                let _ = write!(members, "\"{name}\":{value},");
            }
            let unasked = self.random.usize(..2) * self.random.usize(..2) * self.random.usize(..2_000);
            for n in 0..unasked {
                if members.len() + 400 < BODY_BYTES_MAX {
                    let _ = write!(members, "\"{name}{n}\":{n},");
                }
            }
        }
        body(&event_type, &format!("{{{members}\"last\":0}}"))
    }

    fn value(&mut self, name: &str, room: usize) -> String {
        let most = 1 + self.random.usize(..room.max(2)) / self.random.usize(1..20);
        match name {
            "list" | "codes" | "numbers" => {
                let mut list = String::from("[");
                while list.len() + 400 < most {
                    let number = self.number();
                    let _ = match (name, self.shape) {
                        ("list", 0) => write!(list, "{{\"n\":{number},\"text\":\"{number}\",\"code\":{number}}},"),
                        ("list", 1) => write!(list, "{{\"n\":{number},\"list\":[{number},{{\"text\":{number}}}]}},"),
                        ("list", _) => write!(list, "{{\"n\":1}},"),
                        _ => write!(list, "{number},"),
                    };
                }
                format!("{list}{{\"n\":1}}]")
            }
            "a" => {
                let depth = self.random.usize(1..70);
                format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
            }
            "currency" => "\"EUR\"".to_owned(),
            "date" => "\"2026-02-25\"".to_owned(),
            "text" | "name" => {
                let piece = self.pick(&["0", "1", "x", "EUR", "2026-02-25", "é", "\\u00e9", "0.", "\\n"]);
                format!("\"{}\"", piece.repeat(if self.random.bool() { 1 } else { most / 8 + 1 }))
            }
            _ => self.number(),
        }
    }

    /// Mostly a small one; now and then as long as a number may be, and rarely longer.
    fn number(&mut self) -> String {
        let digits = |count: usize, digit: &str| digit.repeat(count);
        match if self.long { self.random.u16(..2_000) } else { 2_000 } {
            0 => format!("1{}", digits(self.random.usize(..260), "0")),
            1 => format!("{}e{}", self.random.u32(..), self.random.i32(-10_000..10_000)),
            2..20 => format!("0.{}1", digits(self.random.usize(..250), "0")),
            20..40 => digits(1 + self.random.usize(..30), "9"),
            40..60 => format!("0.{}", digits(1 + self.random.usize(..30), "9")),
            60..100 => format!("-{}.{}", self.random.u64(..), self.random.u64(..)),
            _ => self.random.u8(1..).to_string(),
        }
    }
}

/// The budget holds whatever an event is made of, its verdict is the same every time, and nothing panics. Some seconds on every run, and minutes
/// with `FIS_TEST_FULL=1`.
#[test]
fn no_event_takes_more_than_its_steps() {
    let books = chart_with(GREEDY);
    let full = std::env::var_os("FIS_TEST_FULL").is_some();
    let end = Instant::now() + Duration::from_secs(if full { 300 } else { 4 });
    let (mut count, mut used_up, mut posted) = (0_u64, 0_u64, 0_u64);
    // However slow the machine is: until one has come to the border.
    while Instant::now() < end || (used_up == 0 && count < 2_000) {
        let seed = fastrand::u64(..);
        let text = Adversary::new(seed).event();
        count += 1;
        // Deep or long beyond what is taken at all: refused before any rule is asked.
        let Ok(event) = event(&text) else { continue };
        let considered = || books.consider(&event, instant("2026-02-26T09:00:00Z"));
        let (once, again) = (considered(), considered());
        assert!(once.steps <= STEPS_MAX + BEYOND_MAX, "seed {seed}: {} steps", once.steps);
        assert_eq!(once.steps, again.steps, "seed {seed}");
        assert_eq!(format!("{:?}", once.outcome), format!("{:?}", again.outcome), "seed {seed}");
        used_up +=
            u64::from(once.outcome.as_ref().is_err_and(|failure| failure.detail.contains("the rules take more than")));
        posted += u64::from(once.outcome.is_ok());
    }
    println!("{count} events, {used_up} of them used their steps up, {posted} came to something");
    assert!(used_up > 0, "none of {count} events came near the budget");
}
