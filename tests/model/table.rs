//! The scenarios' little language. A table of rows enters; each row is one event, what the books make of it stands behind it,
//! and the verdict stands last:
//!
//! ```text
//! shape order  ecommerce.order.completed  orderId total  tax   currency
//! order        ord-1 119.00 19.00 EUR     | 1100 +119.00 | 4000 -100.00 | 2200 -19.00 | posted
//! order        ord-2 119.00 _     EUR     | rule_failed payload.tax
//! ```
//!
//! | word of an event | means |
//! |---|---|
//! | `ord-1` | the text `"ord-1"` |
//! | `#119.0`, `[…]`, `{…}`, `null`, `true`, `false` | this JSON (without blanks) |
//! | `_` | the member is missing |
//! | `@2026-02-25T10:00:00Z`, `@-` | the event's `occurredAt`, or none; 10 o'clock on that day where not given |
//!
//! | part of an outcome | means |
//! |---|---|
//! | `1100 +119.00`, `4000 -100.00` | a debit, a credit, in euro |
//! | `1100 +100.00 USD = 92.00` | the same in another currency, with its amount in euro |
//! | `on 2026-02-25`, `says …`, `by …` | accounting date, description, rule; checked where given |
//! | `from 2026-01-31` | the event's own date, of an entry that was moved; stands wherever one was |
//! | `posted`, `ignored`, `reverses evt-7` | the verdict |
//! | `rule_failed payload.tax` | or the reason, and a part of its detail |

use std::collections::HashMap;
use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use fis::domain::books::{Books, Mapped};
use fis::domain::disposition::Failure;
use fis::domain::entry::{BalancedEntry, Line, Side};
use fis::domain::event::{InboundEvent, RawMessage, decode};

const OCCURRED_AT: &str = "2026-02-25T10:00:00Z";
const RECEIVED_AT: &str = "2026-02-26T09:00:00Z";

/// Maps every row and compares; all rows that differ are told at once.
#[track_caller]
pub fn check(books: &Books, table: &str) {
    let mut shapes: HashMap<&str, Vec<&str>> = HashMap::new();
    let (mut complaints, mut rows) = (String::new(), 0);
    for row in table.lines().map(str::trim).filter(|row| !row.is_empty() && !row.starts_with("//")) {
        if let Some(shape) = row.strip_prefix("shape ") {
            let mut words = shape.split_whitespace();
            shapes.insert(words.next().expect("a shape has a name"), words.collect());
            continue;
        }
        rows += 1;
        let (event, expected) = row.split_once('|').unwrap_or_else(|| panic!("a row without a verdict: {row}"));
        let body = body(&shapes, rows, event);
        if let Err(difference) = compare(&outcome(books, &body), expected) {
            let _ = write!(complaints, "\n{row}\n    {difference}\n    {body}\n");
        }
    }
    assert!(rows > 0 && complaints.is_empty(), "{rows} rows\n{complaints}");
}

/// The last part of each row: a verdict or a reason code.
pub fn verdicts(table: &str) -> impl Iterator<Item = &str> {
    let rows = table.lines().map(str::trim).filter(|row| !row.is_empty() && !row.starts_with("//"));
    rows.filter_map(|row| row.rsplit_once('|')?.1.split_whitespace().next())
}

/// The canonical form of the event that a row describes.
fn body(shapes: &HashMap<&str, Vec<&str>>, number: usize, event: &str) -> String {
    let mut words = event.split_whitespace();
    let name = words.next().expect("a row begins with a shape");
    let shape = shapes.get(name).unwrap_or_else(|| panic!("no shape `{name}`"));
    let (event_type, members) = shape.split_first().expect("a shape has an event type");
    let (times, values): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with('@'));
    assert_eq!(values.len(), members.len(), "values of `{event}`");
    let occurred_at = match times.first() {
        None => format!(r#""occurredAt": "{OCCURRED_AT}", "#),
        Some(&"@-") => String::new(),
        Some(time) => format!(r#""occurredAt": "{}", "#, time.trim_start_matches('@')),
    };
    let given = members.iter().zip(&values).filter(|(_, value)| **value != "_");
    let payload: Vec<String> = given.map(|(member, value)| format!(r#""{member}": {}"#, json(value))).collect();
    format!(
        r#"{{"eventId": "evt-{number}", "tenantId": "acme", "eventType": "{event_type}", {occurred_at}"payload": {{{}}}}}"#,
        payload.join(", ")
    )
}

fn json(word: &str) -> String {
    match word {
        "null" | "true" | "false" => word.to_owned(),
        raw if raw.starts_with(['[', '{']) => raw.to_owned(),
        number if number.starts_with('#') => number.trim_start_matches('#').to_owned(),
        text => format!("\"{text}\""),
    }
}

pub fn event(body: &str) -> Result<InboundEvent<'_>, Failure> {
    let message =
        RawMessage { body: body.as_bytes(), routing_key: "a.b.c", content_type: None, header: &|_: &str| None };
    decode(message, None).map_err(|undecodable| undecodable.failure)
}

pub fn instant(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).unwrap().to_utc()
}

fn outcome(books: &Books, body: &str) -> Result<Mapped, Failure> {
    books.map(&event(body)?, instant(RECEIVED_AT))
}

fn compare(outcome: &Result<Mapped, Failure>, expected: &str) -> Result<(), String> {
    let parts: Vec<&str> = expected.split('|').map(str::trim).collect();
    let (verdict, parts) = parts.split_last().expect("split yields one part at least");
    match (outcome, *verdict) {
        (Ok(Mapped::Entry { entry, rule }), "posted") => entry_is(entry, rule, parts),
        (Ok(Mapped::Ignored { .. }), "ignored") => Ok(()),
        (Ok(Mapped::Reversal(request)), verdict) => {
            same("verdict", &format!("reverses {}", request.original), verdict)?;
            let description = request.description.as_deref().unwrap_or("-");
            facts_are(parts, &request.own_date.to_string(), description, &request.rule)
        }
        (Err(failure), verdict) => {
            let (code, detail) = verdict.split_once(' ').unwrap_or((verdict, ""));
            same("verdict", &format!("{} ({})", failure.reason.code(), failure.detail), verdict)
                .or_else(|told| if failure.reason.code() == code { Ok(()) } else { Err(told) })?;
            if failure.detail.contains(detail.trim()) {
                Ok(())
            } else {
                Err(format!("the detail is: {}", failure.detail))
            }
        }
        (Ok(other), verdict) => Err(format!("expected {verdict}, the books made {other:?}")),
    }
}

fn entry_is(entry: &BalancedEntry, rule: &str, parts: &[&str]) -> Result<(), String> {
    let is_line = |part: &&str| part.split_whitespace().nth(1).is_some_and(|word| word.starts_with(['+', '-']));
    let (expected, facts): (Vec<&str>, Vec<&str>) = parts.iter().partition(|part| is_line(part));
    let found: Vec<String> = entry.lines().iter().map(line_text).collect();
    same("lines", &found.join(" | "), &expected.iter().map(|line| tidy(line)).collect::<Vec<_>>().join(" | "))?;
    let moved = |fact: &&str| fact.starts_with("from ");
    let own_date = entry.original_date().map(|date| format!("from {date}")).unwrap_or_default();
    same("own date", &own_date, facts.iter().copied().find(moved).unwrap_or_default())?;
    let facts: Vec<&str> = facts.into_iter().filter(|fact| !moved(fact)).collect();
    facts_are(&facts, &entry.accounting_date().to_string(), entry.description(), rule)
}

fn facts_are(parts: &[&str], date: &str, description: &str, rule: &str) -> Result<(), String> {
    for part in parts {
        let (word, expected) = part.split_once(' ').unwrap_or((part, ""));
        match word {
            "on" => same("date", date, expected.trim())?,
            "says" => same("description", description, expected.trim())?,
            "by" => same("rule", rule, expected.trim())?,
            _ => panic!("`{part}` is neither a line nor a fact"),
        }
    }
    Ok(())
}

/// A line as a table writes it.
fn line_text(line: &Line) -> String {
    let sign = match line.side {
        Side::Debit => '+',
        Side::Credit => '-',
    };
    let euro = line.currency.code() == "EUR" && line.base_amount == line.amount;
    let rest = if euro { String::new() } else { format!(" {} = {}", line.currency, line.base_amount) };
    format!("{} {sign}{}{rest}", line.account, line.amount)
}

/// Blanks are for people.
fn tidy(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn same(what: &str, found: &str, expected: &str) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: expected {expected}\n    {what}: found    {found}")) }
}
