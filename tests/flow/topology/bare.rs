//! A quorum queue that somebody declared before us, with nothing but its type.
//!
//! Enters: such a queue. Leaves: a report, and safety once the printed policy is set. What must never happen: it is
//! taken for safe while it is not.

use fis::platform::amqp::topology::{Severity, is_lossy, report};
use serde_json::json;

use super::{DLQ, LIVE, in_own_vhost, only_lossy};

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_quorum_queue_is_lossy_and_the_printed_policy_heals_it() {
    in_own_vhost(async |broker| {
        broker.declare_queue(LIVE, json!({"x-queue-type": "quorum"})).await;
        broker.declare_queue(DLQ, json!({"x-queue-type": "quorum"})).await;
        broker.apply().await;
        let findings = broker.check().await;
        let lane = only_lossy(&findings, "queue fis.ingestion.queue");
        for fact in ["x-dead-letter-exchange = none", "x-dead-letter-strategy = none", "x-overflow = none"] {
            assert!(lane.found.contains(fact), "{}", lane.found);
        }
        broker.heal(LIVE, lane).await;
        // On 4.x a dead-letter queue without a limit drops what was looked at 20 times; on 3.x it never does.
        let is_v4 = broker.version().await.starts_with('4');
        let last_stop = findings.iter().find(|f| f.object.ends_with(DLQ)).unwrap();
        let severity = if is_v4 { Severity::Lossy } else { Severity::Differs };
        assert_eq!(last_stop.severity, severity, "{}", report(&findings));
        if is_v4 {
            broker.heal(DLQ, last_stop).await;
        }
        let healed = broker.check().await;
        assert!(healed.iter().all(|f| f.severity == Severity::Differs), "{}", report(&healed));
        assert!(!healed.is_empty(), "the difference is still told");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_management_api_a_bare_quorum_queue_cannot_be_told_safe() {
    in_own_vhost(async |broker| {
        broker.declare_queue(LIVE, json!({"x-queue-type": "quorum"})).await;
        broker.apply().await;
        let findings = broker.check_amqp_only().await;
        let lane = only_lossy(&findings, "queue fis.ingestion.queue");
        assert_eq!(
            lane.found,
            "x-dead-letter-exchange = none\nx-dead-letter-routing-key = none\n\
             x-dead-letter-strategy = none\nx-overflow = none"
        );
        broker.heal(LIVE, lane).await;
        // The policy is set, but AMQP does not show it.
        assert!(is_lossy(&broker.check_amqp_only().await));
        assert!(!is_lossy(&broker.check().await));
    })
    .await;
}
