//! The topology with tenants' queues: what apply declares and takes away, and which states between two forms the check calls lossy.

use fis::platform::amqp::management::encode;
use serde_json::{Value, json};

use super::{FRONT_DOOR, OWN, orders, tenants, with_own_queue};
use crate::support::world::{Setup, World};

impl World {
    async fn apply(&self, setting: &str) -> String {
        self.fis_with(&["topology", "apply"], &tenants(setting)).await.expect(0, &[]).stdout
    }

    /// The findings, worst first, as `severity object`; and whether the service would refuse to start.
    async fn findings(&self, setting: &str) -> (Vec<String>, bool) {
        let said = self.fis_with(&["topology", "check", "--json"], &tenants(setting)).await;
        let json: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
        let told = |finding: &Value| {
            format!("{} {}", finding["severity"].as_str().unwrap(), finding["object"].as_str().unwrap())
        };
        let mut findings: Vec<String> = json["findings"].as_array().unwrap().iter().map(told).collect();
        findings.sort();
        assert_eq!(said.code, Some(i32::from(json["lossy"] == true)), "{said:?}");
        (findings, json["lossy"] == true)
    }

    /// Takes the way from one exchange to another, or to a queue, away.
    async fn unbind(&self, from: &str, kind: &str, to: &str, key: &str) {
        let path = format!("bindings/{}/e/{from}/{kind}/{to}/{}", encode(&self.vhost), encode(key));
        self.management.delete(&path).await.unwrap();
    }
}

const MISSING: [&str; 7] = [
    "lossy binding fis.events.exchange -> fis.tenants.exchange with key #",
    "lossy binding fis.rest.exchange -> fis.ingestion.queue with key ",
    "lossy binding fis.tenants.exchange -> fis.tenant.queue.acme with key acme",
    "lossy exchange fis.rest.exchange",
    "lossy exchange fis.tenants.exchange",
    "lossy queue fis.tenant.queue.acme",
    "differs binding fis.events.exchange -> fis.ingestion.queue with key #",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_check_knows_a_broker_before_and_after_its_tenants_have_queues() {
    let world = World::with("forms", Setup { tenants: &[], ..Setup::default() }).await;
    let (before, lossy) = world.findings("acme").await;
    assert!(lossy && before.iter().any(|finding| finding == MISSING[5]), "{before:?}");
    world.fis_with(&["run"], &tenants("acme")).await.expect(1, &[OWN, "fis topology apply"]);

    for _ in 0..2 {
        let applied = world.apply("acme").await;
        assert!(
            applied.contains("unbound  binding fis.events.exchange -> fis.ingestion.queue with key #"),
            "{applied}"
        );
        assert_eq!(world.findings("acme").await, (vec![], false));
    }
    // Whoever does not know the tenants' queues would leave what is in them, and is told what to set.
    let (plain, lossy) = world.findings("").await;
    assert!(
        lossy && plain.contains(&"differs binding fis.events.exchange -> fis.tenants.exchange with key #".to_owned())
    );
    world.fis(&["run"]).await.expect(1, &["intake.tenant_queues", "fis topology apply"]);

    let back = world.apply("").await;
    assert!(back.contains("unbound  binding fis.events.exchange -> fis.tenants.exchange with key #"), "{back}");
    assert_eq!(world.findings("").await, (vec![format!("differs queue {OWN}")], false), "it is left to be drained");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_between_two_forms_is_lossy_only_where_an_event_can_be_lost() {
    let world = with_own_queue("between").await;
    world.bind("fis.events.exchange", FRONT_DOOR, "#").await;
    let twice = "differs binding fis.events.exchange -> fis.ingestion.queue with key #".to_owned();
    assert_eq!(world.findings("acme").await, (vec![twice], false), "every event comes twice");
    world.apply("acme").await;

    for (from, kind, to, key, object) in [
        ("fis.events.exchange", "e", "fis.tenants.exchange", "#", MISSING[0]),
        ("fis.rest.exchange", "q", FRONT_DOOR, "~", MISSING[1]),
    ] {
        world.unbind(from, kind, to, key).await;
        assert_eq!(world.findings("acme").await, (vec![object.to_owned()], true));
        world.apply("acme").await;
        assert_eq!(world.findings("acme").await, (vec![], false));
    }
}

/// Without the other exchange behind it, this one drops every event whose tenant has no queue of its own.
#[tokio::test(flavor = "multi_thread")]
async fn the_front_door_stays_bound_while_the_exchange_before_it_would_drop_events() {
    let world = World::with("alternate", Setup { tenants: &[], ..Setup::default() }).await;
    let path = world.management.object_path("exchanges", "fis.tenants.exchange");
    world.management.put_json(&path, &json!({"type": "headers", "durable": true})).await.unwrap();
    let said = world.fis_with(&["topology", "apply"], &tenants("acme")).await;
    said.expect(
        1,
        &["alternate-exchange = fis.rest.exchange", "kept     binding fis.events.exchange -> fis.ingestion.queue"],
    );
    let (findings, lossy) = world.findings("acme").await;
    assert!(lossy && findings.contains(&MISSING[4].to_owned()), "{findings:?}");
    world.management.delete(&path).await.unwrap();
    world.apply("acme").await;
    assert_eq!(world.findings("acme").await, (vec![], false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_who_loses_its_queue_shares_the_front_door_and_what_was_left_is_posted() {
    let world = World::with("removed", Setup { tenants: &["acme", "globex"], ..Setup::default() }).await;
    world.apply("acme globex").await;
    world.publish(&orders("acme", "before", 7)).await;
    let applied = world.apply("globex").await;
    let binding = "binding fis.tenants.exchange -> fis.tenant.queue.acme with key acme";
    assert!(applied.contains(&format!("unbound  {binding}")), "{applied}");
    world.publish(&orders("acme", "after", 3)).await;
    assert_eq!((world.ready_count(OWN).await, world.ready_count(FRONT_DOOR).await), (7, 3));
    let said = world.fis_with(&["topology", "check"], &tenants("globex")).await;
    said.expect(0, &[OWN, "is not in `intake.tenant_queues`", "rabbitmqctl delete_queue"]);

    let mut run = world.run_with(&tenants("globex")).await;
    world.quiet().await;
    assert_eq!(world.ready_count(OWN).await, 0, "what was left is posted");
    // The operator deletes it, and the service goes on without it.
    world.management.delete(&world.management.object_path("queues", OWN)).await.unwrap();
    world.publish(&orders("globex", "own", 5)).await;
    world.rest(&mut run).await;
    assert_eq!(world.findings("globex").await, (vec![], false));
    world.invariants().await;
}
