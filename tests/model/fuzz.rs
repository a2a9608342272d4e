//! Fuzzing of what needs no server: the decoder and the shipped books, expressions, books, the work of an event (`map`) and the broker's bytes (`wire`). No
//! panic, no hang, no float: a value that comes out is exact, or it is an error. `tests/support/fuzz.rs` tells how it is run and how inputs are kept.

mod adversary;
mod map;
mod wire;

use std::time::Duration;

use chrono::DateTime;
use fis::domain::books::{Books, Considered, Mapped};
use fis::domain::entry::{BalancedEntry, Side};
use fis::domain::event::{RawMessage, decode};
use fis::domain::expr::{Expr, STEPS_MAX, Scope, Template};
use fis::domain::json;
use rust_decimal::Decimal;

use crate::fuzzing::{Target, about, fuzz, mutate, outline};
use crate::shared::ACME;
use crate::work::BEYOND_MAX;

const BYTES_MAX: usize = 16 * 1024;
/// Pieces that inputs of this kind are made of; mutations put them in.
const PIECES: [&[u8]; 46] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b",",
    b":",
    b"null",
    b"true",
    b"-0",
    b"1e400",
    b"9007199254740993",
    b"0.1",
    b"\\ud800",
    b"\\u0000",
    b"payload",
    b"item",
    b".",
    b"(",
    b")",
    b"*",
    b"/",
    b"-",
    b"+",
    b"==",
    b"and",
    b"or",
    b"not",
    b"sum(",
    b"round(",
    b"coalesce(",
    b"[*]",
    b"'",
    b"{{",
    b"[[rules]]\n",
    b"lines = [",
    b"on = \"#\"",
    b"99999999999999999999999999999",
    b"\xc3\xa9\xe2\x80\xae",
    b"\xff",
    b"\0",
    b"@cloudEvents:id ",
    b"@x-fis-tenant ",
    b"@content-type application/cloudevents+json\n",
    b"each = \"payload.list[*].list[*]\"\n",
];

/// An event that uses its steps up takes about a tenth of a second in an unoptimised build.
const CPU_MAX: Duration = Duration::from_secs(3);

/// The books' answer: within its steps, and balanced where it is an entry. Its shape.
fn considered(books: &Books, event: &fis::domain::event::InboundEvent<'_>) -> String {
    let Considered { outcome, steps, .. } = books.consider(event, DateTime::UNIX_EPOCH);
    assert!(steps <= STEPS_MAX + BEYOND_MAX, "{steps} steps");
    let became = match outcome {
        Ok(Mapped::Entry { entry, .. }) => {
            assert_balanced(&entry);
            format!("entry of {} lines", about(entry.lines().len() as u64))
        }
        Ok(Mapped::Ignored { .. }) => "ignored".to_owned(),
        Ok(Mapped::Reversal(_)) => "reversal".to_owned(),
        Err(failure) => format!("{} {}", failure.reason.code(), outline(&failure.detail)),
    };
    format!("{became}, {} steps", about(u64::from(steps)))
}

fn assert_balanced(entry: &BalancedEntry) {
    let sum =
        |side| -> Decimal { entry.lines().iter().filter(|line| line.side == side).map(|line| line.base_amount).sum() };
    assert_eq!(sum(Side::Debit), sum(Side::Credit));
}

/// A message as text: lines such as `@routing-key a.b.c`, `@content-type …` and `@header value`, and behind them the body.
struct Message<'i> {
    properties: Vec<(&'i str, &'i str)>,
    body: &'i [u8],
}

impl<'i> Message<'i> {
    fn of(mut input: &'i [u8]) -> Self {
        let mut properties = Vec::new();
        while let Some(rest) = input.strip_prefix(b"@") {
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
            let Ok(line) = std::str::from_utf8(&rest[..end]) else { break };
            properties.push(line.split_once(' ').unwrap_or((line, "")));
            input = &rest[end + 1..];
        }
        Self { properties, body: input }
    }

    fn property(&self, name: &str) -> Option<&'i str> {
        self.properties.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

#[test]
fn no_message_makes_the_decoder_or_a_shipped_rule_panic_or_hang() {
    let texts = [include_str!("../../books/shop.toml"), include_str!("../../books/payroll.toml"), ACME];
    let books = texts.map(|text| Books::parse(text, 1).unwrap());
    let target = Target { name: "decode", share: 1, folders: &["tests/corpus/decode"], cpu_max: CPU_MAX };
    let make = |random: &mut fastrand::Rng, pool: &[Vec<u8>]| mutate(random, pool, &PIECES, BYTES_MAX);
    fuzz(target, make, |input| {
        let message = Message::of(input);
        let header = |name: &str| message.property(name);
        let raw = RawMessage {
            body: message.body,
            routing_key: message.property("routing-key").unwrap_or("ecommerce.order.completed"),
            content_type: message.property("content-type"),
            header: &header,
        };
        match decode(raw, Some(&books[0].tenant_id)) {
            Ok(event) => {
                let outcomes = books.iter().map(|books| considered(books, &event)).collect::<Vec<_>>();
                format!("{:?} {}", event.dialect, outcomes.join("; "))
            }
            Err(refused) => {
                let known = refused.identity.event().is_some();
                format!("{} {} {known}", refused.failure.reason.code(), outline(&refused.failure.detail))
            }
        }
    });
}

#[test]
fn no_text_makes_an_expression_panic_or_hang() {
    let payload =
        json::parse(r#"{"total":"119.00","tax":19,"lines":[{"net":1},{"net":"2.5"}],"name":"x","odd name":true}"#)
            .unwrap();
    let target = Target { name: "expr", share: 1, folders: &["tests/corpus/expr"], cpu_max: CPU_MAX };
    let make = |random: &mut fastrand::Rng, pool: &[Vec<u8>]| mutate(random, pool, &PIECES, BYTES_MAX);
    fuzz(target, make, |input| {
        let text = String::from_utf8_lossy(input);
        let mut scope = Scope::new();
        scope.bind_json("payload", &payload);
        let expr = match Expr::parse(&text, &["payload", "item"]) {
            Ok(expr) => expr.eval(&scope).map_or_else(|error| outline(&error.to_string()), |_| "value".to_owned()),
            Err(error) => outline(&error.to_string()),
        };
        let template = match Template::parse(&text, &["payload", "item"]) {
            Ok(template) => {
                template.eval(&scope).map_or_else(|error| outline(&error.to_string()), |_| "text".to_owned())
            }
            Err(_) => "no template".to_owned(),
        };
        format!("{expr}; {template}")
    });
}

#[test]
fn no_file_makes_the_books_panic_or_hang() {
    let folders = &["tests/corpus/books", "books", "tests/support/books"];
    let target = Target { name: "books", share: 1, folders, cpu_max: CPU_MAX };
    let make = |random: &mut fastrand::Rng, pool: &[Vec<u8>]| mutate(random, pool, &PIECES, BYTES_MAX);
    fuzz(target, make, |input| match Books::parse(&String::from_utf8_lossy(input), 1) {
        Ok(_) => "books".to_owned(),
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "refused without a word");
            outline(&mistakes[0].to_string())
        }
    });
}
