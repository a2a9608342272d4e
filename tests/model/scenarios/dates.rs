//! Days and periods: where an entry's date comes from, what becomes of a late event, and how often a held one is tried.

use super::books;
use crate::table::{check, event, instant};

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

pub(super) const DATES: &str = "
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

pub(super) const LATE_REJECTED: &str = "
shape dated  a.b.dated  day amount
dated 2026-01-31 1   | period_closed 2026-01
dated 2025-12-31 1   | period_closed in no period
dated 2026-04-01 1   | period_closed in no period
// What can never succeed is told before the period.
dated 2026-01-31 0   | bad_amount
";

pub(super) const LATE_HELD: &str = "
shape dated  a.b.dated  day amount
dated 2026-01-31 1   | period_not_open 2026-01
dated 2026-04-01 1   | period_not_open in no period
dated 2026-01-31 0   | bad_amount
";

pub(super) const LATE_MOVED: &str = "
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

#[test]
fn a_rule_may_have_its_own_retries() {
    let rules = format!("{}retry = {{ max_retries = 9 }}\n", DATED);
    let books = books("late_events = \"hold\"", &rules);
    let retries = |event_type: &str| {
        let body = format!(r#"{{"eventId":"e","tenantId":"acme","eventType":"{event_type}","payload":{{"day":"x"}}}}"#);
        let event = event(&body).unwrap();
        books
            .consider(&event, instant("2026-02-26T09:00:00Z"))
            .retry
            .map(|policy| (policy.max_retries, policy.base_delay_seconds))
    };
    assert_eq!(retries("a.b.undated"), Some((9, 60)));
    assert_eq!(retries("a.b.dated"), None);
    assert_eq!(retries("a.b.other"), None);
}
