//! Topologies that are not as written, or not wholly visible, but lose nothing.
//!
//! Enters: a virtual host with a harmless difference, or a narrow view of it. Leaves: a finding that does not stop
//! `fis run`. What must never happen: a harmless difference hides another.

use fis::platform::amqp::{
    management::Management,
    topology::{Severity, Topology, apply, check, report},
};
use serde_json::json;

use super::{LIVE, arguments_of, in_own_vhost, objects, only, only_lossy};

#[tokio::test(flavor = "multi_thread")]
async fn another_length_differs_and_no_more() {
    in_own_vhost(async |broker| {
        let mut arguments = arguments_of(LIVE);
        arguments["x-max-length"] = json!(1000);
        broker.declare_queue(LIVE, arguments).await;
        broker.apply().await;
        for findings in [broker.check().await, broker.check_amqp_only().await] {
            let finding = only(&findings, "queue fis.ingestion.queue");
            assert_eq!(finding.severity, Severity::Differs);
            assert_eq!(finding.expected, "x-max-length = 5000000");
            assert_eq!(finding.found, "x-max-length = 1000");
        }
    })
    .await;
}

/// The broker names only the first difference; a harmless one must not hide a lossy one behind it.
#[tokio::test(flavor = "multi_thread")]
async fn through_amqp_alone_all_differences_are_found() {
    in_own_vhost(async |broker| {
        let arguments = json!({
            "x-queue-type": "quorum", "x-max-length": 7, "x-message-ttl": 1000,
            "x-dead-letter-exchange": "fis.dlx.exchange", "x-dead-letter-routing-key": "fis.ingestion.dlq",
            "x-dead-letter-strategy": "at-most-once", "x-overflow": "reject-publish",
            "x-single-active-consumer": true,
        });
        broker.declare_queue(LIVE, arguments).await;
        broker.apply().await;
        let by_amqp = broker.check_amqp_only().await;
        let lossy = only_lossy(&by_amqp, "queue fis.ingestion.queue");
        assert_eq!(lossy.found, "x-dead-letter-strategy = at-most-once\nx-message-ttl = 1000");
        let harmless = by_amqp.iter().find(|f| f.severity == Severity::Differs).unwrap();
        assert!(harmless.found.contains("x-max-length = 7"), "{}", harmless.found);
        assert!(harmless.found.contains("x-single-active-consumer = true"), "{}", harmless.found);
        // The management API, which sees the arguments themselves, comes to the same.
        let by_management = broker.check().await;
        assert_eq!(only_lossy(&by_management, "queue fis.ingestion.queue").found, lossy.found);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_management_api_bindings_and_policies_are_unverified() {
    in_own_vhost(async |broker| {
        broker.apply().await;
        let nowhere = Management::new("http://127.0.0.1:1", &broker.world.user(), "tops3cret", broker.vhost()).unwrap();
        let stranger =
            Management::new(&broker.world.servers.management, &broker.world.user(), "tops3cret", broker.vhost())
                .unwrap();
        let elsewhere = broker.world.management_of("/other");
        for management in [None, Some(&nowhere), Some(&stranger), Some(&elsewhere)] {
            let findings = broker.check_with(management).await;
            let expected =
                ["bindings", "policies"].map(|object| format!("{object} of virtual host {}", broker.vhost()));
            assert_eq!(objects(&findings), expected, "{}", report(&findings));
            assert!(findings.iter().all(|f| f.severity == Severity::Unverified));
            assert!(!report(&findings).contains("tops3cret"));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extra_binding_into_a_lane_differs_and_foreign_objects_are_ignored() {
    in_own_vhost(async |broker| {
        broker.apply().await;
        broker.declare_queue("finance.queue", json!({"x-queue-type": "classic"})).await;
        broker.bind("fis.domain.exchange", "finance.queue", "fis.journal.#").await;
        broker.expect_clean().await;
        broker.bind("fis.events.exchange", LIVE, "ecommerce.#").await;
        let findings = broker.check().await;
        let finding = only(&findings, "binding fis.events.exchange -> fis.ingestion.queue with key ecommerce.#");
        assert_eq!(finding.severity, Severity::Differs);
    })
    .await;
}

/// A hardened service user may read and write but not configure: no reason to refuse the start.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_declare_is_told_what_it_could_not_see() {
    in_own_vhost(async |broker| {
        broker.apply().await;
        let (user, hardened) = broker.guest("", ".*", ".*").await;
        let topology = Topology::embedded().unwrap();
        let findings = check(&topology, &hardened, None).await.unwrap();
        assert!(findings.iter().all(|f| f.severity == Severity::Unverified), "{}", report(&findings));
        let findings = check(&topology, &hardened, Some(&broker.world.management)).await.unwrap();
        assert_eq!(report(&findings), report(&[]));
        assert!(apply(&topology, &hardened).await.unwrap_err().to_string().contains("403"));
        broker.forget(&user).await;
    })
    .await;
}

/// Of this kind an operator may have reasons; the stream still takes every announcement.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_remembers_differently_differs_and_no_more() {
    in_own_vhost(async |broker| {
        broker.declare_queue("fis.journal.stream", json!({"x-queue-type": "stream", "x-max-age": "7D"})).await;
        broker.apply().await;
        for findings in [broker.check().await, broker.check_amqp_only().await] {
            let finding = only(&findings, "queue fis.journal.stream");
            assert_eq!(finding.severity, Severity::Differs);
            assert_eq!(finding.found, "x-max-age = 7D\nx-max-length-bytes = none");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extra_argument_of_an_exchange_differs_and_no_more() {
    in_own_vhost(async |broker| {
        let path = broker.world.management.object_path("exchanges", "fis.events.exchange");
        let body = json!({"type": "topic", "durable": true, "arguments": {"alternate-exchange": "amq.fanout"}});
        broker.world.management.put_json(&path, &body).await.unwrap();
        broker.apply().await;
        for findings in [broker.check().await, broker.check_amqp_only().await] {
            let finding = only(&findings, "exchange fis.events.exchange");
            assert_eq!(finding.severity, Severity::Differs);
            assert_eq!(finding.found, "alternate-exchange = amq.fanout");
        }
    })
    .await;
}
