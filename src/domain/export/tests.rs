//! What an entry looks like in each format, written by hand.

use chrono::{DateTime, NaiveDate};
use rust_decimal::Decimal;

use super::*;
use crate::domain::chain::Provenance;
use crate::domain::ids::{AccountCode, EventId, EventType, TenantId};

const BOOKS: &str = r#"
tenant = "acme"
name = "Acme \"GmbH\""
base_currency = "EUR"
rounding_account = "6999"
[[accounts]]
code = "1100"
name = "Trade, receivables; open"
type = "asset"
[[accounts]]
code = "sales.web"
type = "income"
[[accounts]]
code = "6999"
type = "expense"
[[rates]]
from = "USD"
to = "EUR"
date = 2026-02-01
rate = "0.9350"
[[rates]]
from = "USD"
to = "EUR"
date = 2026-01-01
rate = "0.92"
[[rates]]
from = "EUR"
to = "GBP"
date = 0999-12-31
rate = "0.8"
"#;

fn line(account: &str, side: Side, amount: &str, currency: &str, base: &str) -> Line {
    let dec = |text| Decimal::from_str_exact(text).unwrap();
    let currency = Currency::parse(currency).unwrap();
    Line { account: AccountCode::parse(account).unwrap(), side, amount: dec(amount), currency, base_amount: dec(base) }
}

fn sample(description: &str, date: &str) -> ChainedEntry {
    ChainedEntry {
        seq: 7,
        origin: Provenance {
            tenant_id: TenantId::parse("acme").unwrap(),
            event_id: EventId::parse("evt,1").unwrap(),
            event_type: EventType::parse("a.b.c").unwrap(),
            payload_hash: "sha256:00".to_owned(),
            rule_name: "orders".to_owned(),
            rule_version: 3,
            lane: "live",
            message_id: None,
            correlation_id: None,
            traceparent: None,
        },
        accounting_date: date.parse::<NaiveDate>().unwrap(),
        original_date: None,
        posted_at: DateTime::UNIX_EPOCH,
        description: description.to_owned(),
        reverses_entry_id: Some("acme/3".to_owned()),
        lines: vec![
            line("1100", Side::Debit, "0.33", "USD", "0.30"),
            line("sales.web", Side::Credit, "0.33", "USD", "0.31"),
            line("6999", Side::Debit, "0.01", "EUR", "0.01"),
        ],
        previous_hash: "p".to_owned(),
        hash: "h".to_owned(),
    }
}

fn written(format: Format, description: &str) -> (String, String) {
    let books = Books::parse(BOOKS, 1).unwrap();
    let exporter = Exporter::new(format, &books);
    let mut out = String::new();
    exporter.entry(&sample(description, "2026-02-25"), &mut out).unwrap();
    let currencies = ["EUR", "JPY", "KWD"].map(|code| Currency::parse(code).unwrap());
    (exporter.head(&currencies), out)
}

#[test]
fn csv_has_a_row_per_line_and_keeps_values_exact() {
    let (head, rows) = written(Format::Csv, "=1+1,\"x\"\n");
    assert!(head.starts_with("entry_id,sequence,accounting_date,") && head.ends_with(",hash\r\n"), "{head}");
    let first = "acme/7,7,2026-02-25,,1970-01-01T00:00:00.000000Z,\"evt,1\",a.b.c,\"=1+1,\"\"x\"\"\n\",orders,3,acme/3,1,1100,\
                 \"Trade, receivables; open\",debit,0.33,USD,0.30,EUR,sha256:00,p,h\r\n";
    assert!(rows.starts_with(first), "{rows}");
    assert_eq!(rows.matches("\r\n").count(), 3);
}

#[test]
fn beancount_balances_in_the_base_currency_and_escapes_strings() {
    let (head, entry) = written(Format::Beancount, "a \"b\" \\ c\nd");
    assert!(head.contains("option \"title\" \"Acme \\\"GmbH\\\"\"\n"), "{head}");
    assert!(head.contains("1000-01-01 open Income:Sales-web\n  code: \"sales.web\"\n"), "{head}");
    assert!(head.ends_with("\n\n2026-01-01 price USD 0.92 EUR\n2026-02-01 price USD 0.935 EUR\n"), "{head}");
    let expected = r#"
2026-02-25 * "a \"b\" \\ c\nd"
  entry-id: "acme/7"
  event-id: "evt,1"
  event-type: "a.b.c"
  reverses: "acme/3"
  hash: "h"
  Assets:1100-Trade-receivables-open  0.33 USD @@ 0.30 EUR
  Income:Sales-web  -0.33 USD @@ 0.31 EUR
  Expenses:6999  0.01 EUR
"#;
    assert_eq!(entry, expected);
}

#[test]
fn hledger_shows_what_it_cannot_quote_as_codes() {
    let (head, entry) = written(Format::Hledger, "(x) ; y\nz \\ ");
    assert!(
        head.contains("commodity 1000.00 EUR\ncommodity 1000. JPY\ncommodity 1000.000 KWD\ncommodity 1000.00 USD\n"),
        "{head}"
    );
    assert!(
        head.contains(
            "account Assets:1100 Trade, receivables open  ; code: 1100, name: Trade\\u{2c} receivables\\u{3b} open\n"
        ),
        "{head}"
    );
    assert!(head.ends_with("\n\nP 2026-01-01 USD 0.92 EUR\nP 2026-02-01 USD 0.935 EUR\n"), "{head}");
    let expected = r"
2026-02-25 * (acme/7) (x) \u{3b} y\nz \\
  ; event: evt\u{2c}1
  ; type: a.b.c
  ; reverses: acme/3
  ; hash: h
  Assets:1100 Trade, receivables open  0.33 USD @@ 0.30 EUR
  Income:Sales-web  -0.33 USD @@ 0.31 EUR
  Expenses:6999  0.01 EUR
";
    assert_eq!(entry, expected);
}

#[test]
fn what_a_format_cannot_hold_is_named_and_leaves_nothing_half() {
    let books = Books::parse(BOOKS, 1).unwrap();
    let mut out = String::new();
    let mut odd = sample("x", "+12026-02-25");
    let exporter = Exporter::new(Format::Beancount, &books);
    assert!(matches!(exporter.entry(&odd, &mut out), Err(ExportError::Year { .. })));
    odd.accounting_date = NaiveDate::MIN;
    assert!(matches!(exporter.entry(&odd, &mut out), Err(ExportError::Year { .. })));
    let mut odd = sample("x", "2026-02-25");
    odd.lines.push(line("9999", Side::Debit, "1", "EUR", "1"));
    assert!(matches!(exporter.entry(&odd, &mut out), Err(ExportError::UnknownAccount { .. })));
    assert_eq!(out, "");
}
