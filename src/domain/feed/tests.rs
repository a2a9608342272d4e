//! A right feed, and every way to break it.

use chrono::{DateTime, NaiveDate};
use rust_decimal::Decimal;
use serde_json::{Value, json};

use super::*;
use crate::domain::chain::{ChainHead, Provenance, instant_text};
use crate::domain::entry::{Line, Side};
use crate::domain::ids::{AccountCode, EventId, EventType};
use crate::domain::money::Currency;
use crate::domain::outbound::{OutboundEvent, journal_event};

/// A message with what stands beside its body.
#[derive(Clone)]
struct Sent(OutboundEvent, Vec<u8>);

impl Sent {
    fn message(&self) -> Message<'_> {
        Message {
            kind: Some(self.0.kind.routing_key()),
            message_id: Some(&self.0.message_id),
            tenant: self.0.tenant_id.as_deref(),
            sequence: self.0.sequence,
            body: &self.1,
        }
    }

    fn value(&self) -> Value {
        serde_json::from_slice(&self.1).unwrap()
    }

    /// A copy of the message with another body.
    fn with(&self, change: impl FnOnce(&mut Value)) -> Self {
        let mut value = self.value();
        change(&mut value);
        Self(self.0.clone(), serde_json::to_vec(&value).unwrap())
    }
}

/// The feed of a tenant from its beginning.
fn feed(tenant: &str, count: i64) -> Vec<Sent> {
    let mut head = ChainHead::genesis();
    let euros = |account: &str, side, amount: &str| Line {
        account: AccountCode::parse(account).unwrap(),
        side,
        amount: Decimal::from_str_exact(amount).unwrap(),
        currency: Currency::parse("EUR").unwrap(),
        base_amount: Decimal::from_str_exact(amount).unwrap(),
    };
    let mut entry = |seq: i64| {
        let mut entry = ChainedEntry {
            seq,
            origin: Provenance {
                tenant_id: TenantId::parse(tenant).unwrap(),
                event_id: EventId::parse(&format!("evt-{seq} \"é\"")).unwrap(),
                event_type: EventType::parse("ecommerce.order.completed").unwrap(),
                payload_hash: "sha256:00".to_owned(),
                rule_name: "order-completed".to_owned(),
                rule_version: 3,
                lane: "live",
                message_id: None,
                correlation_id: None,
                traceparent: None,
            },
            accounting_date: NaiveDate::from_ymd_opt(2026, 2, 25).unwrap(),
            original_date: (seq % 3 == 0).then(|| NaiveDate::from_ymd_opt(2025, 12, 31).unwrap()),
            posted_at: DateTime::from_timestamp_micros(1_772_013_600_120_000 + seq).unwrap(),
            description: "Order <1>".to_owned(),
            reverses_entry_id: (seq % 4 == 0).then(|| format!("{tenant}/{}", seq - 1)),
            lines: vec![euros("1100", Side::Debit, "119.00"), euros("4000", Side::Credit, "119")],
            previous_hash: head.hash.clone(),
            hash: String::new(),
        };
        entry.hash = entry.compute_hash();
        head = ChainHead { seq, hash: entry.hash.clone() };
        let event = journal_event(&entry);
        let body = event.body.clone();
        Sent(event, body)
    };
    (1..=count).map(&mut entry).collect()
}

/// Reads to the first fault, as (place in the feed, its sequence, the fault).
fn prove(feed: &[Sent], mut proof: Proof) -> Result<Proof, (usize, Option<i64>, FeedFault)> {
    for (place, sent) in feed.iter().enumerate() {
        proof.take(&sent.message()).map_err(|at| (place, at.sequence, at.fault))?;
    }
    Ok(proof)
}

fn fault(feed: &[Sent]) -> (usize, Option<i64>, FeedFault) {
    prove(feed, Proof::default()).expect_err("the feed is broken")
}

fn only(proof: &Proof) -> &TenantProof {
    proof.tenants().next().unwrap().1
}

#[test]
fn a_right_feed_is_proven_with_its_repetitions_and_other_events() {
    let (acme, bolt) = (feed("acme", 8), feed("bolt", 2));
    // The relay sends a window again after a crash, and somebody asks for a range next year.
    let order = [0, 1, 2, 1, 2, 3, 4, 5, 0, 6, 7];
    let mut mixed: Vec<Sent> = order.iter().map(|place| acme[*place].clone()).collect();
    mixed.insert(3, bolt[0].clone());
    mixed.push(bolt[1].clone());
    let proof = prove(&mixed, Proof { from_the_beginning: true, ..Proof::default() }).unwrap();
    let seen: Vec<_> = proof.tenants().map(|(t, p)| (t.as_str(), p.first, p.last, p.repeats)).collect();
    assert_eq!(seen, [("acme", 1, 8, 3), ("bolt", 1, 2, 0)]);
    assert_eq!(only(&proof).hash, acme[7].value()["data"]["hash"]);

    let of_bolt = Proof { only: Some(TenantId::parse("bolt").unwrap()), ..Proof::default() };
    let proof = prove(&mixed, of_bolt).unwrap();
    assert_eq!((proof.others, only(&proof).last), (11, 2));
}

#[test]
fn a_feed_without_its_beginning_is_proven_from_where_it_begins() {
    let acme = feed("acme", 8);
    let mut late = acme[4..].to_vec();
    late.extend_from_slice(&acme[2..5]);
    let proof = prove(&late, Proof::default()).unwrap();
    let seen = only(&proof);
    assert_eq!((seen.first, seen.last, seen.repeats, seen.earlier), (5, 8, 1, 2));
}

#[test]
fn a_gap_is_told_with_what_was_expected() {
    let mut feed = feed("acme", 5);
    feed.remove(2);
    assert_eq!(fault(&feed), (2, Some(4), FeedFault::Gap { expected: 3, found: 4 }));
}

#[test]
fn disorder_is_told() {
    let mut turned = feed("acme", 5);
    turned.swap(2, 3);
    assert_eq!(fault(&turned), (2, Some(4), FeedFault::Gap { expected: 3, found: 4 }));
    let mut turned = feed("acme", 3);
    turned.swap(0, 1);
    let whole = Proof { from_the_beginning: true, ..Proof::default() };
    let told = prove(&turned, whole).err().unwrap();
    assert_eq!(told, (1, Some(1), FeedFault::Disorder { found: 1, after: 2 }));
}

#[test]
fn a_repetition_with_other_bytes_is_told_even_if_it_says_the_same() {
    let mut feed = feed("acme", 3);
    // Other white space: the same event, but not the same bytes.
    let mut again = feed[1].clone();
    again.1 = serde_json::to_vec_pretty(&again.value()).unwrap();
    feed.push(again);
    assert!(matches!(fault(&feed), (3, Some(2), FeedFault::OtherBytes { .. })));
}

#[test]
fn a_broken_link_is_told() {
    // Another ledger's second entry, right in itself, behind the first of this one.
    let mut acme = feed("acme", 3);
    let mut stranger = crate::domain::feed::tests::feed("acme", 2).remove(1);
    let mut value = stranger.value();
    value["data"]["previousHash"] = json!("f".repeat(64));
    stranger.1 = serde_json::to_vec(&value).unwrap();
    // Its hash is made to fit its contents, so only the link is wrong.
    let FaultAt { fault: FeedFault::Hash { computed, .. }, .. } = read(&stranger.message()).unwrap_err() else {
        panic!("the hash covers the link")
    };
    let stranger = stranger.with(|value| value["data"]["hash"] = json!(computed));
    acme[1] = stranger.clone();
    let expected = acme[0].value()["data"]["hash"].as_str().unwrap().to_owned();
    assert_eq!(fault(&acme), (1, Some(2), FeedFault::Link { expected, found: "f".repeat(64) }));
    // The same before the place where the reading began.
    let late = [feed("acme", 3).remove(2), stranger];
    assert!(matches!(fault(&late), (1, Some(2), FeedFault::Link { .. })));
    // The first of all follows nothing.
    let first = feed("acme", 1).remove(0).with(|value| value["data"]["previousHash"] = json!("e".repeat(64)));
    let FaultAt { fault: FeedFault::Hash { computed, .. }, .. } = read(&first.message()).unwrap_err() else { panic!() };
    let first = first.with(|value| value["data"]["hash"] = json!(computed));
    assert!(matches!(fault(&[first]), (0, Some(1), FeedFault::Link { .. })));
}

#[test]
fn every_member_that_the_hash_covers_is_in_the_event_and_bites() {
    let right = feed("acme", 4);
    let changes: [(&str, Value); 14] = [
        ("/time", json!(instant_text(DateTime::from_timestamp_micros(1).unwrap()))),
        ("/data/eventId", json!("evt-5")),
        ("/data/eventType", json!("a.b.c")),
        ("/data/payloadHash", json!("sha256:01")),
        ("/data/accountingDate", json!("2026-02-26")),
        ("/data/originalDate", json!("2026-01-01")),
        ("/data/description", json!("Order <2>")),
        ("/data/rule", json!("another")),
        ("/data/ruleVersion", json!(4)),
        ("/data/lines/0/account", json!("1200")),
        ("/data/lines/0/side", json!("credit")),
        ("/data/lines/0/amount", json!("119.01")),
        ("/data/lines/1/currency", json!("USD")),
        ("/data/lines/1/baseAmount", json!("118")),
    ];
    for (pointer, other) in changes {
        let mut feed = right.clone();
        feed[2] = feed[2].with(|value| *value.pointer_mut(pointer).unwrap() = other);
        assert!(matches!(fault(&feed), (2, Some(3), FeedFault::Hash { .. })), "{pointer}: {:?}", fault(&feed));
    }
    let mut shorter = right.clone();
    shorter[2] = shorter[2].with(|value| drop(value["data"]["lines"].as_array_mut().unwrap().pop()));
    assert!(matches!(fault(&shorter), (2, Some(3), FeedFault::Hash { .. })));
    let mut reverses = right;
    reverses[3] = reverses[3].with(|value| value["data"]["reverses"] = json!("acme/1"));
    assert!(matches!(fault(&reverses), (3, Some(4), FeedFault::Hash { .. })));
}

#[test]
fn what_is_no_event_or_contradicts_itself_is_told() {
    let right = feed("acme", 1).remove(0);
    type Change = fn(&mut Value);
    let unreadable: [Change; 6] = [
        |value| value["specversion"] = json!("2.0"),
        |value| value["type"] = json!("fis.journal.guessed"),
        |value| drop(value.as_object_mut().unwrap().remove("data")),
        |value| value["data"]["lines"][0]["amount"] = json!("1e3"),
        |value| value["data"]["lines"][0]["amount"] = json!(119.0),
        |value| value["data"]["lines"][0]["side"] = json!("left"),
    ];
    for change in unreadable {
        let told = fault(&[right.with(change)]);
        assert!(matches!(told, (0, Some(1), FeedFault::Unreadable { .. })), "{told:?}");
    }
    let contradicting: [(&str, Change); 5] = [
        ("id", |value| value["id"] = json!("another")),
        ("type", |value| value["type"] = json!("fis.journal.reverted")),
        ("tenantId", |value| value["data"]["tenantId"] = json!("bolt")),
        ("sequence", |value| value["data"]["sequence"] = json!(2)),
        ("entryId", |value| value["data"]["entryId"] = json!("acme/2")),
    ];
    for (wrong, change) in contradicting {
        let told = fault(&[right.with(change)]).2;
        assert!(matches!(&told, FeedFault::Contradiction { member, .. } if *member == wrong), "{told:?}");
    }
    let mut garbage = right;
    garbage.1 = b"\xff".to_vec();
    assert!(matches!(fault(&[garbage]).2, FeedFault::Unreadable { .. }));
}
