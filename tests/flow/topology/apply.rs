//! Declaring, importing and using the topology.
//!
//! Enters: virtual hosts in different states. Leaves: the promise that what is declared is what is defined. What must
//! never happen: an object that was there before is changed.

use fis::platform::amqp::{
    management::Management,
    topology::{Applied, DEFINITIONS, Outcome, Severity, Topology, apply, check, is_lossy, report},
};
use lapin::{
    BasicProperties, ExchangeKind,
    options::{BasicPublishOptions, BasicRejectOptions, ExchangeDeclareOptions, QueueDeclareOptions},
    types::FieldTable,
};
use serde_json::{Value, json};

use super::{DLQ, LIVE, in_own_vhost, next_message, objects, rewrite_vhost};
use crate::support::wait::{same, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_vhost_is_clean_after_apply() {
    in_own_vhost(async |broker| {
        let applied = broker.apply().await;
        assert!(applied.iter().all(|a| matches!(a.outcome, Outcome::Created | Outcome::Bound)), "{applied:?}");
        broker.expect_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn applying_twice_changes_nothing() {
    in_own_vhost(async |broker| {
        broker.apply().await;
        let again = broker.apply().await;
        assert!(again.iter().all(|a| matches!(a.outcome, Outcome::Present | Outcome::Bound)), "{again:?}");
        broker.expect_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_differs_is_reported_and_the_others_are_declared() {
    in_own_vhost(async |broker| {
        broker.declare_queue(LIVE, json!({"x-queue-type": "classic"})).await;
        let applied = broker.apply().await;
        let differs: Vec<&Applied> = applied.iter().filter(|a| matches!(a.outcome, Outcome::Differs { .. })).collect();
        let [Applied { object, outcome: Outcome::Differs { expected, found, remedy } }] = differs[..] else {
            panic!("exactly one differs: {applied:?}");
        };
        assert_eq!(object, "queue fis.ingestion.queue");
        assert_eq!((expected.as_str(), found.as_str()), ("type = quorum", "type = classic"));
        assert!(remedy.contains("rabbitmqctl delete_queue"), "{remedy}");
        // Everything else, its bindings included, is in place.
        let findings = broker.check().await;
        assert_eq!(objects(&findings), ["queue fis.ingestion.queue"], "{}", report(&findings));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_a_publisher_declared_first_is_fine() {
    in_own_vhost(async |broker| {
        let channel = broker.connection.channel().await.unwrap();
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let name = "fis.events.exchange";
        channel.exchange_declare(name.into(), ExchangeKind::Topic, durable, FieldTable::default()).await.unwrap();
        let applied = broker.apply().await;
        let events = applied.iter().find(|a| a.object.ends_with(name)).unwrap();
        assert_eq!(events.outcome, Outcome::Present);
        broker.expect_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_definitions_import_as_they_are_and_are_clean() {
    in_own_vhost(async |broker| {
        let mut definitions: Value = serde_json::from_str(DEFINITIONS).unwrap();
        rewrite_vhost(&mut definitions, broker.vhost());
        broker.world.management.post_json("definitions", &definitions).await.unwrap();
        broker.expect_clean().await;
        let applied = broker.apply().await;
        assert!(applied.iter().all(|a| matches!(a.outcome, Outcome::Present | Outcome::Bound)), "{applied:?}");
    })
    .await;
}

/// The keys of the contract reach their lanes, whatever their word count, and a refused message reaches the DLQ.
#[tokio::test(flavor = "multi_thread")]
async fn every_routing_key_arrives_once_and_a_reject_is_dead_lettered() {
    in_own_vhost(async |broker| {
        broker.apply().await;
        let channel = broker.connection.channel().await.unwrap();
        for key in ["a.b.c", "a", "a.b", "a.b.c.d", ""] {
            for exchange in ["fis.events.exchange", "fis.urgent.exchange", "fis.backfill.exchange"] {
                let options = BasicPublishOptions { mandatory: true, ..Default::default() };
                let persistent = BasicProperties::default().with_delivery_mode(2);
                let sent = channel.basic_publish(exchange.into(), key.into(), options, b"{}", persistent);
                sent.await.unwrap();
            }
        }
        for queue in [LIVE, "fis.urgent.queue", "fis.backfill.queue"] {
            for _ in 0..5 {
                let got = next_message(&channel, queue).await;
                got.reject(BasicRejectOptions { requeue: false }).await.unwrap();
            }
        }
        for _ in 0..15 {
            let dead = next_message(&channel, DLQ).await;
            dead.ack(Default::default()).await.unwrap();
        }
        let end = channel.basic_get(DLQ.into(), Default::default()).await.unwrap();
        assert!(end.is_none(), "two bindings must not double a message");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exclusive_queue_of_somebody_else_does_not_keep_the_others_from_being_declared() {
    in_own_vhost(async |broker| {
        let theirs = broker.world.connect().await.unwrap();
        let channel = theirs.create_channel().await.unwrap();
        let exclusive = QueueDeclareOptions { exclusive: true, ..Default::default() };
        channel.queue_declare(LIVE.into(), exclusive, FieldTable::default()).await.unwrap();
        let applied = broker.apply().await;
        let differs = applied.iter().filter(|a| matches!(a.outcome, Outcome::Differs { .. }));
        assert_eq!(differs.count(), 3, "the queue and its two bindings: {applied:?}");
        for findings in [broker.check().await, broker.check_amqp_only().await] {
            assert!(is_lossy(&findings), "{}", report(&findings));
            assert!(findings.iter().all(|f| f.severity == Severity::Unverified || f.object.contains(LIVE)));
        }
    })
    .await;
}

/// `topology/README.md` tells admins which rights to give.
#[tokio::test(flavor = "multi_thread")]
async fn the_rights_in_the_readme_suffice_to_apply_check_and_use_it() {
    in_own_vhost(async |broker| {
        let readme = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/topology/README.md"));
        let (configure, write, read) = (r"^fis\.", r"^(fis\.|amq\.default$)", r"^fis\.");
        assert!(readme.contains(&format!("fis_topology '{configure}' '{write}' '{read}'")));
        let (user, connection) = broker.guest(configure, write, read).await;
        let topology = Topology::embedded().unwrap();
        apply(&topology, &connection).await.unwrap();
        let management = Management::new(&broker.world.servers.management, &user, "pw", broker.vhost()).unwrap();
        let findings = check(&topology, &connection, Some(&management)).await.unwrap();
        assert!(findings.is_empty(), "{}", report(&findings));
        let channel = connection.channel().await.unwrap();
        for exchange in ["fis.events.exchange", ""] {
            let sent = channel.basic_publish(
                exchange.into(),
                LIVE.into(),
                BasicPublishOptions::default(),
                b"{}",
                BasicProperties::default(),
            );
            sent.await.unwrap();
            let got = next_message(&channel, LIVE).await;
            got.reject(BasicRejectOptions { requeue: false }).await.unwrap();
            next_message(&channel, DLQ).await;
        }
        broker.forget(&user).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_counts_of_a_queue_are_those_of_the_broker() {
    in_own_vhost(async |broker| {
        broker.apply().await;
        let channel = broker.connection.channel().await.unwrap();
        for _ in 0..3 {
            let sent = channel.basic_publish(
                "fis.events.exchange".into(),
                "a.b.c".into(),
                BasicPublishOptions::default(),
                b"{}",
                BasicProperties::default(),
            );
            sent.await.unwrap();
        }
        let _held = next_message(&channel, LIVE).await;
        // Statistics lag behind by some seconds, so the condition is waited for.
        wait_until("the counts", async || {
            let counts = broker.world.management.queue_counts(LIVE).await.unwrap();
            same(counts.map(|counts| (counts.ready, counts.unacked)), Some((2, 1)))
        })
        .await;
        assert!(broker.world.management.queue_counts("no.such.queue").await.is_err());
    })
    .await;
}
