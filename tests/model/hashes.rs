//! Golden hashes. `golden.json` holds inputs with the forms, bytes and hashes that `golden.py` made of them, a program written
//! from `docs/hash-chain.md` alone; the code must agree with it, and so must the page's example.

use std::process::Command;

use chrono::{DateTime, Utc};
use fis::domain::books::{Books, Mapped};
use fis::domain::canonical::{payload_hash, sha256_text, write_canonical};
use fis::domain::chain::{ChainHead, ChainedEntry, GENESIS, Provenance};
use fis::domain::entry::{Line, Side};
use fis::domain::ids::{AccountCode, EventId, EventType, TenantId};
use fis::domain::json::parse;
use fis::domain::money::Currency;
use rust_decimal::Decimal;
use serde_json::Value;

use crate::table::event;
use crate::{project_file, read};

pub fn golden(kind: &str) -> Vec<Value> {
    let golden: Value = serde_json::from_str(&read("tests/model/golden.json")).unwrap();
    let rows = golden[kind].as_array().unwrap().clone();
    assert!(!rows.is_empty());
    rows
}

fn text<'v>(row: &'v Value, key: &str) -> &'v str {
    row[key].as_str().unwrap_or_else(|| panic!("`{key}` of {row}"))
}

fn instant(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).unwrap().to_utc()
}

/// The entry that a golden row describes.
pub fn entry(row: &Value) -> ChainedEntry {
    let line = |line: &Value| {
        let word = |index: usize| line[index].as_str().unwrap();
        Line {
            account: AccountCode::parse(word(0)).unwrap(),
            side: Side::parse(word(1)).unwrap(),
            amount: Decimal::from_str_exact(word(2)).unwrap(),
            currency: Currency::parse(word(3)).unwrap(),
            base_amount: Decimal::from_str_exact(word(4)).unwrap(),
        }
    };
    ChainedEntry {
        seq: row["sequence"].as_i64().unwrap(),
        origin: Provenance {
            tenant_id: TenantId::parse(text(row, "tenantId")).unwrap(),
            event_id: EventId::parse(text(row, "eventId")).unwrap(),
            event_type: EventType::parse(text(row, "eventType")).unwrap(),
            payload_hash: text(row, "payloadHash").to_owned(),
            rule_name: text(row, "rule").to_owned(),
            rule_version: i32::try_from(row["ruleVersion"].as_i64().unwrap()).unwrap(),
            lane: "live",
            message_id: None,
            correlation_id: None,
            traceparent: None,
        },
        accounting_date: text(row, "accountingDate").parse().unwrap(),
        original_date: row["originalDate"].as_str().map(|date| date.parse().unwrap()),
        posted_at: instant(text(row, "postedAt")),
        description: text(row, "description").to_owned(),
        reverses_entry_id: row["reverses"].as_str().map(str::to_owned),
        lines: row["lines"].as_array().unwrap().iter().map(line).collect(),
        previous_hash: text(row, "previousHash").to_owned(),
        hash: String::new(),
    }
}

#[test]
fn payload_hashes_are_the_golden_ones() {
    for row in golden("payloads") {
        let payload = parse(text(&row, "payload")).unwrap_or_else(|error| panic!("{}: {error}", row["what"]));
        let mut form = Vec::new();
        write_canonical(&payload, &mut form);
        let form = String::from_utf8(form).unwrap();
        assert!(text(&row, "form").contains(&format!("\"payload\":{form},\"tenantId\":")), "{}: {form}", row["what"]);
        let hash = payload_hash(text(&row, "eventType"), &payload, text(&row, "tenantId"));
        assert_eq!(hash, text(&row, "hash"), "{}", row["what"]);
        assert_eq!(sha256_text(text(&row, "form").as_bytes()), hash, "{}", row["what"]);
    }
}

#[test]
fn entry_hashes_are_the_golden_ones() {
    for row in golden("entries") {
        let hash = entry(&row).compute_hash();
        assert_eq!(hash, text(&row, "hash"), "{}", row["what"]);
        assert_eq!(sha256_text(text(&row, "bytes").as_bytes()), format!("sha256:{hash}"), "{}", row["what"]);
    }
}

#[test]
fn the_golden_entries_of_a_tenant_are_a_chain() {
    let mut previous = GENESIS.to_owned();
    let chain: Vec<Value> = golden("entries").into_iter().filter(|row| row["tenantId"] == "acme").take(3).collect();
    for (row, seq) in chain.iter().zip(1..) {
        assert_eq!((text(row, "previousHash"), row["sequence"].as_i64()), (previous.as_str(), Some(seq)));
        previous = text(row, "hash").to_owned();
    }
}

#[test]
fn an_independent_program_makes_the_same_hashes() {
    let script = project_file("tests/model/golden.py");
    let answer = match Command::new("python3").arg(&script).output() {
        Err(error) => {
            eprintln!("skipped: python3 cannot be run: {error}");
            return;
        }
        Ok(answer) => answer,
    };
    let told = String::from_utf8_lossy(&answer.stdout).into_owned() + &String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success(), "{told}");
    let rows = golden("payloads").len() + golden("entries").len();
    assert!(told.contains(&format!("{rows} rows checked")), "{told}");
}

/// The page's blocks between fences, without the word behind the first fence.
fn blocks(page: &str) -> Vec<String> {
    let fenced = page.split("```").skip(1).step_by(2);
    fenced.map(|block| block.split_once('\n').unwrap().1.trim_end().to_owned()).collect()
}

#[test]
fn the_pages_example_is_the_golden_one_and_what_the_program_does() {
    let page = read("docs/hash-chain.md");
    let example = blocks(page.split_once("## A worked example").unwrap().1);
    let [body, form, payload_hash, bytes, hash] = example.as_slice() else { panic!("{example:#?}") };
    let (payload, first) = (&golden("payloads")[0], &golden("entries")[0]);
    assert_eq!((form.as_str(), payload_hash.as_str()), (text(payload, "form"), text(payload, "hash")));
    assert_eq!((bytes.replace('\n', "").as_str(), hash.as_str()), (text(first, "bytes"), text(first, "hash")));

    // The same from the event on: decoded, mapped by version 3 of the example books, put behind an empty chain.
    let books = read("books/shop.toml").replace("tenant = \"acme-shop\"", "tenant = \"acme\"");
    let books = Books::parse(&books, 3).unwrap();
    let event = event(body).unwrap();
    let Mapped::Entry { entry, rule } = books.map(&event, Utc::now()).unwrap() else { panic!("not posted") };
    let origin = Provenance {
        tenant_id: event.tenant_id.clone(),
        event_id: event.event_id.clone(),
        event_type: event.event_type.clone(),
        payload_hash: event.payload_hash.clone(),
        rule_name: rule,
        rule_version: books.version,
        lane: "live",
        message_id: None,
        correlation_id: None,
        traceparent: None,
    };
    let mut head = ChainHead::genesis();
    let posted_at = instant(text(first, "postedAt"));
    let chained = ChainedEntry::append(&mut head, entry, origin, None, posted_at);
    assert_eq!(chained.hash, *hash);
    assert_eq!(head, ChainHead { seq: 1, hash: hash.clone() });
    assert_eq!(event.payload_hash, *payload_hash);
}

type Change<'c> = &'c dyn Fn(&mut ChainedEntry);

#[test]
fn every_field_of_an_entry_is_in_its_hash_and_the_scale_of_an_amount_is_not() {
    let row = &golden("entries")[2];
    let hash = |change: Change| {
        let mut entry = entry(row);
        change(&mut entry);
        entry.compute_hash()
    };
    let cent = Decimal::new(1, 2);
    let changes: [(&str, Change); 20] = [
        ("tenant", &|e| e.origin.tenant_id = TenantId::parse("other").unwrap()),
        ("sequence", &|e| e.seq += 1),
        ("previous hash", &|e| e.previous_hash = GENESIS.to_owned()),
        ("event id", &|e| e.origin.event_id = EventId::parse("other").unwrap()),
        ("event type", &|e| e.origin.event_type = EventType::parse("other").unwrap()),
        ("payload hash", &|e| e.origin.payload_hash.push('0')),
        ("rule", &|e| e.origin.rule_name.push('x')),
        ("rule version", &|e| e.origin.rule_version += 1),
        ("accounting date", &|e| e.accounting_date = e.accounting_date.succ_opt().unwrap()),
        ("original date", &|e| e.original_date = Some(e.accounting_date)),
        ("time of posting", &|e| e.posted_at += chrono::Duration::microseconds(1)),
        ("description", &|e| e.description.push(' ')),
        ("reversed entry", &|e| e.reverses_entry_id = None),
        ("account", &|e| e.lines[0].account = AccountCode::parse("other").unwrap()),
        ("side", &|e| e.lines[0].side = e.lines[0].side.opposite()),
        ("amount", &|e| e.lines[0].amount += cent),
        ("currency", &|e| e.lines[0].currency = Currency::parse("USD").unwrap()),
        ("base amount", &|e| e.lines[0].base_amount += cent),
        ("order of lines", &|e| e.lines.swap(0, 1)),
        ("number of lines", &|e| _ = e.lines.pop()),
    ];
    let original = hash(&|_| {});
    for (what, change) in changes {
        assert_ne!(hash(change), original, "{what}");
    }
    let rescale = |scale: u32| {
        hash(&move |entry: &mut ChainedEntry| {
            for line in &mut entry.lines {
                line.amount.rescale(scale);
                line.base_amount.rescale(scale);
            }
        })
    };
    assert_eq!(original, rescale(0));
    assert_eq!(original, rescale(9));
    // Where it came from is no part of what it says.
    assert_eq!(original, hash(&|entry| entry.origin.message_id = Some("m".to_owned())));
}
