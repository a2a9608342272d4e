//! `fis run` and `fis topology` on a topology that can lose messages: exit 1, with object, expectation, finding and remedy.

use fis::platform::amqp::management::encode;
use serde_json::json;

use super::{DLQ, LIVE};
use crate::support::broker::LANES;
use crate::support::events::order;
use crate::support::world::{Setup, World};

async fn empty_vhost(name: &str) -> World {
    World::with(name, Setup { topology: false, ..Setup::default() }).await
}

async fn declare(world: &World, queue: &str, arguments: serde_json::Value) {
    let body = json!({"durable": true, "arguments": arguments});
    world.management.put_json(&world.management.object_path("queues", queue), &body).await.unwrap();
}

/// Both commands refuse with the same facts.
async fn refused(world: &World, words: &[&str]) {
    world.fis(&["run"]).await.expect(1, words);
    world.fis(&["run", "--once"]).await.expect(1, words);
    world.fis(&["topology", "check"]).await.expect(1, words);
    let json = world.fis(&["topology", "check", "--json"]).await.expect(1, &[]).json();
    assert_eq!(json["lossy"], true, "{json}");
    let finding = json["findings"].as_array().unwrap().iter().find(|finding| finding["severity"] == "lossy").unwrap();
    for member in ["object", "expected", "found", "remedy"] {
        assert!(finding[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {finding}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_does_not_start_on_an_empty_virtual_host() {
    let world = empty_vhost("empty").await;
    refused(&world, &[LIVE, DLQ, "fis topology apply"]).await;
    world.fis(&["topology", "apply"]).await.expect(0, &[LIVE]);
    world.fis(&["run", "--once"]).await.expect(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_does_not_start_on_a_classic_ingestion_queue() {
    let world = empty_vhost("classic").await;
    declare(&world, LIVE, json!({"x-queue-type": "classic"})).await;
    let words = ["queue fis.ingestion.queue", "type = quorum", "type = classic", "rabbitmqctl delete_queue"];
    world.fis(&["topology", "apply"]).await.expect(1, &words);
    refused(&world, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_does_not_start_without_the_dead_letter_binding() {
    let world = World::new("unbound").await;
    let path = format!("bindings/{}/e/fis.dlx.exchange/q/{DLQ}/fis.ingestion.dlq", encode(&world.vhost));
    world.management.delete(&path).await.unwrap();
    refused(&world, &["binding fis.dlx.exchange -> fis.ingestion.dlq.queue", "fis topology apply"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_does_not_start_under_a_drop_head_policy() {
    let world = World::new("drop_head").await;
    let body =
        json!({"pattern": "^fis\\.ingestion\\.queue$", "apply-to": "queues", "definition": {"overflow": "drop-head"}});
    world.management.put_json(&world.management.object_path("policies", "theirs"), &body).await.unwrap();
    let words = [LIVE, "x-overflow = reject-publish", "x-overflow = drop-head (policy 'theirs')", "rabbitmqctl"];
    refused(&world, &words).await;
}

/// A colleague declared the queue with nothing but its type. The report prints the policy that makes it safe; with that
/// policy the service starts, and says that the queue is not as written.
#[tokio::test(flavor = "multi_thread")]
async fn a_bare_quorum_queue_is_reported_with_the_policy_that_makes_it_safe() {
    let world = empty_vhost("bare").await;
    declare(&world, LIVE, json!({"x-queue-type": "quorum"})).await;
    world.fis(&["topology", "apply"]).await.expect(1, &["queue fis.ingestion.queue"]);
    let said = world.fis(&["run"]).await.expect(1, &["rabbitmqctl set_policy", "x-dead-letter-exchange", LIVE]);
    let command = said.all().lines().find(|line| line.contains("rabbitmqctl set_policy")).unwrap().trim().to_owned();
    assert!(command.contains(&world.vhost), "{command}");
    // The printed command, as the management API takes it.
    let policy = printed_policy(&command);
    world.management.put_json(&world.management.object_path("policies", &policy.0), &policy.1).await.unwrap();
    world.declare_readers().await;
    let mut run = world.run().await;
    assert!(run.log().contains(LIVE), "the difference is told: {}", run.log());
    world
        .publish(&[order("evt"), crate::support::events::payment("bad", "9999", "1").rejected("unknown_account")])
        .await;
    world.rest(&mut run).await;
    world.invariants().await;
    assert_eq!(world.ready_count(LANES[0]).await, 0);
}

/// Name and body of `rabbitmqctl set_policy --vhost V --priority P --apply-to queues NAME PATTERN DEFINITION`.
fn printed_policy(command: &str) -> (String, serde_json::Value) {
    let mut words = Vec::new();
    let mut rest = command;
    while !rest.is_empty() {
        let (word, next) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap(),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word);
        rest = next.trim_start();
    }
    let option = |name: &str| words.iter().position(|word| *word == name).map(|at| words[at + 1]);
    let [name, pattern, definition] = words[words.len() - 3..] else { panic!("{command}") };
    let definition: serde_json::Value = serde_json::from_str(definition).unwrap();
    let priority: i64 = option("--priority").map_or(0, |text| text.parse().unwrap());
    let apply_to = option("--apply-to").unwrap_or("queues");
    (name.to_owned(), json!({"pattern": pattern, "apply-to": apply_to, "priority": priority, "definition": definition}))
}

/// The management API is not reachable: what AMQP alone can tell is enough to start, with a warning.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_management_api_the_service_starts_and_says_what_it_could_not_see() {
    let world = World::new("no_management").await;
    let mut run = world.run_with(&[("FIS__AMQP__MANAGEMENT_URL", "http://127.0.0.1:1")]).await;
    assert!(run.log().contains("policies of virtual host"), "{}", run.log());
    world.publish(&[order("evt")]).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_topology_is_drawn_without_a_broker() {
    let world = empty_vhost("drawn").await;
    let said = world.fis_with(&["topology", "print"], &[("FIS_AMQP_URL", "amqp://127.0.0.1:1/")]).await.expect(0, &[]);
    for name in ["fis.events.exchange", "fis.domain.exchange", "fis.journal.stream", DLQ, LANES[0], LANES[1], LANES[2]]
    {
        assert!(said.stdout.contains(name), "{name} in {}", said.stdout);
    }
}
