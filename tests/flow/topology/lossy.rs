//! Topologies that can lose messages.
//!
//! Enters: a virtual host with one fault. Leaves: exactly that fault, with a remedy that works. What must never
//! happen: `fis run` would start here.

use fis::platform::amqp::{
    management::encode,
    topology::{Severity, Topology, is_lossy, report},
};
use serde_json::json;

use super::{DLQ, LIVE, arguments_of, in_own_vhost, objects, only, only_lossy};

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_vhost_is_lossy_object_by_object() {
    in_own_vhost(async |broker| {
        let findings = broker.check().await;
        let topology = Topology::embedded().unwrap();
        assert_eq!(findings.len(), topology.exchanges.len() + topology.queues.len());
        assert!(findings.iter().all(|f| f.severity == Severity::Lossy && f.remedy == "fis topology apply"));
        // Looking must not have created anything.
        assert_eq!(objects(&broker.check().await), objects(&findings));
        assert_eq!(objects(&broker.check_amqp_only().await)[2..], objects(&findings)[..]);
        assert_eq!(broker.check().await.len(), findings.len());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_classic_ingestion_queue_is_lossy() {
    in_own_vhost(async |broker| {
        broker.declare_queue(LIVE, json!({"x-queue-type": "classic"})).await;
        broker.apply().await;
        for findings in [broker.check().await, broker.check_amqp_only().await] {
            let finding = only(&findings, "queue fis.ingestion.queue");
            assert_eq!(finding.severity, Severity::Lossy);
            assert_eq!(finding.found, "type = classic");
            assert!(finding.remedy.contains("rabbitmqctl delete_queue"), "{}", finding.remedy);
        }
    })
    .await;
}

/// A bare declaration by a client that knows nothing of queue types: RabbitMQ makes it classic.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_without_any_argument_is_lossy() {
    in_own_vhost(async |broker| {
        broker.declare_queue(LIVE, json!({})).await;
        broker.apply().await;
        for findings in [broker.check().await, broker.check_amqp_only().await] {
            assert_eq!(only(&findings, "queue fis.ingestion.queue").severity, Severity::Lossy);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_dead_letter_binding_is_lossy() {
    in_own_vhost(async |broker| {
        broker.apply().await;
        let path = format!("bindings/{}/e/fis.dlx.exchange/q/{DLQ}/fis.ingestion.dlq", encode(broker.vhost()));
        broker.world.management.delete(&path).await.unwrap();
        let findings = broker.check().await;
        let finding = only(&findings, "binding fis.dlx.exchange -> fis.ingestion.dlq.queue with key fis.ingestion.dlq");
        assert_eq!((finding.severity, finding.remedy.as_str()), (Severity::Lossy, "fis topology apply"));
        broker.apply().await;
        broker.expect_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_word_count_binding_is_lossy() {
    in_own_vhost(async |broker| {
        broker.apply().await;
        let path = format!("bindings/{}/e/fis.events.exchange/q/{LIVE}/%23", encode(broker.vhost()));
        broker.world.management.delete(&path).await.unwrap();
        let findings = broker.check().await;
        let finding = only(&findings, "binding fis.events.exchange -> fis.ingestion.queue with key #");
        assert_eq!(finding.severity, Severity::Lossy);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drop_head_policy_is_lossy_and_outranking_it_heals() {
    in_own_vhost(async |broker| {
        broker.apply().await;
        broker.set_policy("theirs", json!({"overflow": "drop-head"})).await;
        let findings = broker.check().await;
        for queue in [LIVE, "fis.urgent.queue", "fis.backfill.queue"] {
            let finding = only_lossy(&findings, &format!("queue {queue}"));
            assert_eq!(finding.expected, "x-overflow = reject-publish");
            assert_eq!(finding.found, "x-overflow = drop-head (policy 'theirs')");
            assert!(finding.remedy.contains("takes the place of policy 'theirs'"), "{}", finding.remedy);
            broker.heal(queue, finding).await;
        }
        let healed = broker.check().await;
        assert!(!is_lossy(&healed), "{}", report(&healed));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_lets_messages_expire_is_lossy() {
    in_own_vhost(async |broker| {
        broker.apply().await;
        broker.set_policy("ttl", json!({"message-ttl": 60000})).await;
        let findings = broker.check().await;
        for queue in [LIVE, "fis.urgent.queue", "fis.backfill.queue", DLQ] {
            let finding = only_lossy(&findings, &format!("queue {queue}"));
            assert_eq!(finding.found, "x-message-ttl = 60000 (policy 'ttl')");
        }
        broker.world.management.delete(&broker.world.management.object_path("policies", "ttl")).await.unwrap();
        broker.expect_clean().await;
    })
    .await;
}

/// An operator's policy overrules ours, so the remedy has to name it.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_policy_that_lets_messages_expire_is_lossy() {
    in_own_vhost(async |broker| {
        broker.apply().await;
        let path = broker.world.management.object_path("operator-policies", "guard");
        let definition = json!({"message-ttl": 60000});
        let body = json!({"pattern": "^fis\\.ingestion\\.queue$", "apply-to": "queues", "definition": definition});
        broker.world.management.put_json(&path, &body).await.unwrap();
        let findings = broker.check().await;
        let finding = only(&findings, "queue fis.ingestion.queue");
        assert_eq!(finding.severity, Severity::Lossy);
        assert_eq!(finding.found, "x-message-ttl = 60000 (operator policy 'guard')");
        let remedy = "operator policy 'guard' overrules any other: have its operator exempt this queue";
        assert_eq!(finding.remedy, remedy, "a policy of ours would not help");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_limit_of_minus_one_is_lossy() {
    in_own_vhost(async |broker| {
        let mut arguments = arguments_of(LIVE);
        arguments["x-delivery-limit"] = json!(-1);
        broker.declare_queue(LIVE, arguments).await;
        broker.apply().await;
        for findings in [broker.check().await, broker.check_amqp_only().await] {
            let finding = only_lossy(&findings, "queue fis.ingestion.queue");
            assert_eq!(finding.found, "x-delivery-limit = -1");
            // An argument has the last word here, so no policy is offered.
            assert!(finding.remedy.contains("delete_queue"), "{}", finding.remedy);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_dead_letter_exchange_is_lossy() {
    in_own_vhost(async |broker| {
        let mut arguments = arguments_of(LIVE);
        arguments["x-dead-letter-exchange"] = json!("somebody.elses");
        broker.declare_queue(LIVE, arguments).await;
        broker.apply().await;
        for findings in [broker.check().await, broker.check_amqp_only().await] {
            let finding = only_lossy(&findings, "queue fis.ingestion.queue");
            assert_eq!(finding.found, "x-dead-letter-exchange = somebody.elses");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_of_another_type_is_lossy() {
    in_own_vhost(async |broker| {
        let path = broker.world.management.object_path("exchanges", "fis.dlx.exchange");
        broker.world.management.put_json(&path, &json!({"type": "topic", "durable": true})).await.unwrap();
        broker.apply().await;
        for findings in [broker.check().await, broker.check_amqp_only().await] {
            let finding = only(&findings, "exchange fis.dlx.exchange");
            assert_eq!(finding.severity, Severity::Lossy);
            assert_eq!((finding.expected.as_str(), finding.found.as_str()), ("type = direct", "type = topic"));
        }
    })
    .await;
}
