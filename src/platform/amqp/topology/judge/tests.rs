//! The rules of safety as rows.
//!
//! Enters: a queue of the definitions, changed in one respect. Leaves: the verdict. What must never happen: a rule
//! without a row.

use super::*;
use crate::platform::amqp::topology::{Topology, arguments::Arguments, definitions::Queue, state::PolicyState};

/// `lane` and `last` are queues as defined, `bare…` have nothing but their type. `key=value` sets, `key=` removes.
/// queue | arguments | policy | on 3.x | on 4.x
const ROWS: &str = "
    lane      |                                   |                            | -       | -
    last      |                                   |                            | -       | -
    lane      | x-max-length=10                   |                            | differs | differs
    lane      | x-max-length=                     |                            | differs | differs
    lane      |                                   | max-length=10              | differs | differs
    lane      | x-single-active-consumer=true     |                            | differs | differs
    lane      | x-overflow=drop-head              |                            | lossy   | lossy
    lane      | x-overflow=                       |                            | lossy   | lossy
    lane      |                                   | overflow=drop-head         | lossy   | lossy
    lane      | x-overflow=drop-head              | overflow=reject-publish    | differs | differs
    lane      | x-overflow=reject-publish-dlx     |                            | lossy   | lossy
    lane      | x-dead-letter-exchange=           |                            | lossy   | lossy
    lane      | x-dead-letter-exchange=other      |                            | lossy   | lossy
    lane      | x-dead-letter-exchange=other      | dead-letter-exchange=fis.dlx.exchange | lossy | lossy
    lane      | x-dead-letter-exchange=           | dead-letter-exchange=fis.dlx.exchange | differs | differs
    lane      |                                   | dead-letter-exchange=other | -       | -
    lane      | x-dead-letter-routing-key=other   |                            | lossy   | lossy
    lane      | x-dead-letter-strategy=at-most-once |                          | lossy   | lossy
    lane      | x-dead-letter-strategy=           |                            | lossy   | lossy
    lane      | x-message-ttl=1000                |                            | lossy   | lossy
    lane      |                                   | message-ttl=1000           | lossy   | lossy
    lane      |                                   | expires=1000               | lossy   | lossy
    lane      | x-delivery-limit=-1               |                            | lossy   | lossy
    lane      | x-delivery-limit=0                |                            | lossy   | lossy
    lane      |                                   | delivery-limit=-1          | lossy   | -
    lane      | x-delivery-limit=                 |                            | differs | differs
    lane      | x-delivery-limit=20               |                            | differs | differs
    lane      |                                   | delivery-limit=5           | differs | differs
    last      | x-delivery-limit=                 |                            | differs | lossy
    last      | x-delivery-limit=20               |                            | lossy   | lossy
    last      |                                   | delivery-limit=20          | lossy   | lossy
    last      | x-delivery-limit=1000             |                            | differs | differs
    last      | x-overflow=                       |                            | differs | differs
    last      | x-max-length=10                   |                            | differs | differs
    last      | x-max-length=10,x-overflow=       |                            | lossy   | lossy
    last      |                                   | max-length=10,overflow=drop-head | lossy | lossy
    last      | x-message-ttl=1000                |                            | lossy   | lossy
    last      |                                   | ha-mode=all                | -       | -
    bare lane |                                   |                            | lossy   | lossy
    bare last |                                   |                            | differs | lossy
    stream    | x-max-length-bytes=               |                            | differs | differs
    stream    | x-max-age=7D                      |                            | differs | differs
    stream    |                                   | max-length-bytes=10        | differs | differs
    stream    | x-queue-type=quorum               |                            | lossy   | lossy
    lane      | x-queue-type=classic              |                            | lossy   | lossy
";

#[test]
fn every_difference_has_its_severity() {
    for row in ROWS.lines().filter(|row| !row.trim().is_empty()) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [queue, arguments, policy, on_v3, on_v4] = cells[..] else {
            panic!("a row has five cells: {row}");
        };
        for (series, expected) in [(Series::V3, on_v3), (Series::V4, on_v4)] {
            let found = worst(queue, arguments, policy, series);
            let found = match found {
                None => "-",
                Some(Severity::Lossy) => "lossy",
                Some(Severity::Unverified) => "unverified",
                Some(Severity::Differs) => "differs",
            };
            assert_eq!(found, expected, "{series:?}: {row}");
        }
    }
}

#[test]
fn an_unknown_version_is_judged_as_strictly_as_any() {
    assert_eq!(worst("bare last", "", "", Series::Unknown), Some(Severity::Lossy));
    assert_eq!(worst("lane", "", "delivery-limit=-1", Series::Unknown), Some(Severity::Lossy));
}

/// A policy is offered as the remedy only where it can work.
#[test]
fn a_policy_heals_what_no_argument_decides() {
    let rows = [
        ("bare lane", "", "", true),
        ("lane", "", "overflow=drop-head", true),
        ("lane", "x-overflow=drop-head", "", true),
        ("lane", "", "message-ttl=5", true),
        ("lane", "x-message-ttl=5", "", false),
        ("lane", "x-dead-letter-exchange=other", "", false),
        ("lane", "x-delivery-limit=-1", "", false),
        ("lane", "x-queue-type=classic", "", false),
    ];
    for (queue, arguments, policy, heals) in rows {
        let differences = judged(queue, arguments, policy, Series::V4);
        let lossy = differences.iter().filter(|difference| difference.is_lossy());
        assert_eq!(lossy.map(|d| d.policy_heals).min(), Some(heals), "{queue} {arguments} {policy}");
    }
}

#[test]
fn an_exchange_that_routes_otherwise_or_vanishes_is_lossy_and_an_argument_is_not() {
    let topology = Topology::embedded().unwrap();
    let expected = topology.exchange("fis.events.exchange").unwrap();
    let as_defined = || ExchangeState {
        kind: "topic".to_owned(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
        unclear: None,
    };
    let arguments = set(Arguments::new(), "alternate-exchange=other");
    let rows = [
        (as_defined(), None),
        (ExchangeState { kind: "fanout".to_owned(), ..as_defined() }, Some(Severity::Lossy)),
        (ExchangeState { durable: false, ..as_defined() }, Some(Severity::Lossy)),
        (ExchangeState { auto_delete: true, ..as_defined() }, Some(Severity::Lossy)),
        (ExchangeState { internal: true, ..as_defined() }, Some(Severity::Lossy)),
        (ExchangeState { unclear: Some("?".to_owned()), ..as_defined() }, Some(Severity::Lossy)),
        (ExchangeState { arguments, ..as_defined() }, Some(Severity::Differs)),
    ];
    for (state, expected_severity) in rows {
        let differences = judge_exchange(expected, &state);
        let worst = differences.iter().map(|difference| difference.severity).min();
        assert_eq!(worst, expected_severity, "{state:?}");
    }
}

fn worst(queue: &str, arguments: &str, policy: &str, series: Series) -> Option<Severity> {
    judged(queue, arguments, policy, series).iter().map(|difference| difference.severity).min()
}

fn judged(queue: &str, arguments: &str, policy: &str, series: Series) -> Vec<Difference> {
    let topology = Topology::embedded().unwrap();
    let (name, bare) = match queue {
        "lane" => ("fis.ingestion.queue", false),
        "last" => ("fis.ingestion.dlq.queue", false),
        "bare lane" => ("fis.ingestion.queue", true),
        "bare last" => ("fis.ingestion.dlq.queue", true),
        "stream" => ("fis.journal.stream", false),
        other => panic!("no such queue: {other}"),
    };
    let expected: &Queue = topology.queue(name).unwrap();
    let mut present = expected.arguments.clone();
    if bare {
        present.retain(|key, _| key == keys::X_QUEUE_TYPE);
    }
    let present = set(present, arguments);
    let state = QueueState {
        kind: present[keys::X_QUEUE_TYPE].to_string(),
        durable: true,
        auto_delete: false,
        exclusive: false,
        arguments: present,
        policy: PolicyState::InForce {
            policy: Some("theirs".to_owned()),
            operator_policy: None,
            definition: set(Arguments::new(), policy),
        },
        unclear: None,
    };
    judge_queue(expected, topology.role(expected), &state, series)
}

fn set(mut table: Arguments, changes: &str) -> Arguments {
    for change in changes.split(',').filter(|change| !change.is_empty()) {
        let (key, value) = change.split_once('=').unwrap();
        let value = match (value, value.parse()) {
            ("", _) => {
                table.remove(key).unwrap();
                continue;
            }
            ("true", _) => Argument::Flag(true),
            (_, Ok(number)) => Argument::Integer(number),
            (text, Err(_)) => Argument::Text(text.to_owned()),
        };
        table.insert(key.to_owned(), value);
    }
    table
}
