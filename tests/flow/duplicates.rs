//! The same event again: by a publisher, by the broker, with other content, and with every state that Redis can be in.

use deadpool_redis::redis;
use serde_json::{Value, json};

use crate::support::events::{Message, order, rewritten};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const KEY: &str = "fis:ik:acme:evt";

async fn key(world: &World) -> Value {
    let mut redis = world.redis().await;
    let value: Option<String> = redis::cmd("GET").arg(KEY).query_async(&mut redis).await.unwrap();
    value.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
}

/// Deliveries that the service has settled with this outcome, as its metrics say.
async fn settled(run: &crate::support::process::Run, outcome: &str) -> u64 {
    let (_, metrics) = run.get("/metrics").await;
    let counted = metrics.lines().filter(|line| {
        line.starts_with("fis_intake_deliveries_total{") && line.contains(&format!("outcome=\"{outcome}\""))
    });
    counted.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

async fn wait_settled(run: &crate::support::process::Run, outcome: &str, count: u64) {
    wait_until(&format!("{count} deliveries are {outcome}"), async || same(settled(run, outcome).await, count)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_written_by_somebody_else_is_acknowledged_and_posts_nothing() {
    let world = World::new("duplicate").await;
    let mut run = world.run().await;
    world.publish(&[order("evt")]).await;
    wait_settled(&run, "posted", 1).await;
    // As it was, and with other key order, white space and spelling of the number.
    let mut respelt = order("evt").value();
    respelt["payload"]["total"] = json!("119.00");
    respelt["correlationId"] = json!("another");
    respelt["occurredAt"] = json!("2026-02-25T10:00:01Z");
    let messages = [order("evt"), rewritten(&order("evt")), Message::json("ecommerce.order.completed", &respelt)];
    world.publish(&messages).await;
    wait_settled(&run, "duplicate", 3).await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 1);
    let feed = world.invariants().await;
    assert_eq!(feed.messages.len(), 1, "a duplicate is not announced");
}

/// Both wait in the queue before the service starts, so that one batch takes them.
#[tokio::test(flavor = "multi_thread")]
async fn duplicates_within_one_batch_post_once() {
    let world = World::new("duplicate_in_batch").await;
    let mut conflict = order("evt").value();
    conflict["payload"]["total"] = json!("120.00");
    let conflict = Message::json("ecommerce.order.completed", &conflict).rejected("idempotency_conflict");
    world.publish(&[order("evt"), rewritten(&order("evt")), conflict, order("evt"), order("other")]).await;
    let mut run = world.run().await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 2);
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_with_other_content_is_a_conflict_and_the_key_keeps_the_truth() {
    let world = World::new("conflict").await;
    let mut run = world.run().await;
    world.publish(&[order("evt")]).await;
    wait_settled(&run, "posted", 1).await;
    let before = key(&world).await;
    assert_eq!(before["status"], "COMPLETED");
    let mut other = order("evt").value();
    other["payload"]["total"] = json!("120.00");
    let other = Message::json("ecommerce.order.completed", &other).rejected("idempotency_conflict");
    world.publish(&[other]).await;
    wait_settled(&run, "rejected", 1).await;
    let after = key(&world).await;
    assert_eq!(
        (&after["status"], &after["payloadHash"], &after["responseBody"]["entryId"]),
        (&json!("COMPLETED"), &before["payloadHash"], &json!("acme/1"))
    );
    // The original is still a duplicate, not a conflict.
    world.publish(&[order("evt")]).await;
    wait_settled(&run, "duplicate", 1).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// PROCESSING of a dead process, FAILED, rubbish, COMPLETED of another ledger, of nobody, or written by somebody who can read and write
/// Redis and knows everything but the ledger's secret: none of them is a reason not to post.
#[tokio::test(flavor = "multi_thread")]
async fn no_key_but_a_proven_one_keeps_an_event_from_being_posted() {
    let world = World::new("untrusted_keys").await;
    let mut run = world.run().await;
    world.publish(&[order("probe")]).await;
    wait_settled(&run, "posted", 1).await;
    let mut redis = world.redis().await;
    let probe: String = redis::cmd("GET").arg("fis:ik:acme:probe").query_async(&mut redis).await.unwrap();
    let probe: Value = serde_json::from_str(&probe).unwrap();
    let hash = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
    let key = |status: &str, ledger: &Value| json!({"status": status, "payloadHash": hash, "createdAt": "2026-02-25T10:00:00Z", "ledger": ledger});
    let with_code = |mut key: Value, code: &Value| {
        assert!(code.is_string(), "a key without a code: {probe}");
        key["mac"] = code.clone();
        key.to_string()
    };
    let other_ledger = json!("7000000000000000000-5-00000001");
    let rows = [
        ("processing", key("PROCESSING", &probe["ledger"]).to_string()),
        ("failed", key("FAILED", &probe["ledger"]).to_string()),
        ("other-ledger", key("COMPLETED", &other_ledger).to_string()),
        ("other-hash", key("COMPLETED", &probe["ledger"]).to_string()),
        ("forged", key("COMPLETED", &probe["ledger"]).to_string()),
        ("forged-code", with_code(key("COMPLETED", &probe["ledger"]), &probe["mac"])),
        ("copied", probe.to_string()),
        ("no-ledger", json!({"status": "COMPLETED", "payloadHash": hash, "createdAt": "x"}).to_string()),
        ("rubbish", "rubbish".to_owned()),
    ];
    for (event, value) in &rows {
        // The hash of the event itself, so that only the state speaks against posting it.
        let own = own_hash(&order(event));
        let value = if *event == "other-hash" { value.clone() } else { value.replace(hash, &own) };
        let _: () =
            redis::cmd("SET").arg(format!("fis:ik:acme:{event}")).arg(value).query_async(&mut redis).await.unwrap();
    }
    world.publish(&rows.iter().map(|(event, _)| order(event)).collect::<Vec<_>>()).await;
    wait_settled(&run, "posted", 1 + rows.len() as u64).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

fn own_hash(message: &Message) -> String {
    use fis::domain::event::{RawMessage, decode};
    let header = |_: &str| None;
    let routing_key = &message.routing_key;
    let raw = RawMessage { body: &message.body, routing_key, content_type: None, header: &header };
    decode(raw, None).unwrap().payload_hash
}

/// This is what makes Redis worth having: whoever holds the tenant's head does not keep a duplicate waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_proven_key_settles_a_duplicate_without_asking_the_ledger() {
    let world = World::new("trusted_key").await;
    let mut run = world.run().await;
    world.publish(&[order("evt")]).await;
    wait_settled(&run, "posted", 1).await;
    let mut lock = world.pool.begin().await.unwrap();
    sqlx::query("select from fis_chain_head for update").execute(&mut *lock).await.unwrap();
    world.publish(&[order("evt")]).await;
    wait_settled(&run, "duplicate", 1).await;
    lock.rollback().await.unwrap();
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_redis_posts_nothing_twice() {
    let world = World::new("flushed").await;
    let mut run = world.run().await;
    let orders: Vec<Message> = (0..20).map(|n| order(&format!("evt-{n}"))).collect();
    world.publish(&orders).await;
    wait_settled(&run, "posted", 20).await;
    let mut redis = world.redis().await;
    let _: () = redis::cmd("FLUSHDB").query_async(&mut redis).await.unwrap();
    world.publish(&orders).await;
    wait_settled(&run, "duplicate", 20).await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 20);
    // The keys are back: the ledger's answer was written to them.
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_everything_is_posted_once() {
    let world = World::new("no_redis").await;
    // Nobody listens on port 1.
    let mut run = world.run_with(&[("FIS_REDIS_URL", "redis://127.0.0.1:1/1")]).await;
    let (status, body) = run.get("/readyz").await;
    let ready: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(status, 200, "without Redis work goes on");
    assert!(ready["parts"]["redis"].as_str().unwrap().starts_with("away"), "{body}");
    world.publish(&[order("evt"), rewritten(&order("evt")), order("other")]).await;
    world.quiet().await;
    world.publish(&[order("evt")]).await;
    wait_settled(&run, "duplicate", 2).await;
    run.terminate().await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 2);
    world.invariants_after(crate::support::invariants::Disturbed { redis: true }).await;
}

/// A batch without a single readable event has no key to claim. That is not a reason to leave Redis alone.
#[tokio::test(flavor = "multi_thread")]
async fn poison_alone_in_its_batch_does_not_put_redis_to_rest() {
    let world = World::new("poison_and_redis").await;
    let broken = Message::new("ecommerce.order.completed", "{").rejected("malformed_json");
    world.publish(&[broken.clone(), order("evt"), broken, order("other")]).await;
    let mut run = world.run_with(&[("FIS__INTAKE__BATCH_EVENTS_MAX", "1")]).await;
    wait_settled(&run, "posted", 2).await;
    let (_, metrics) = run.get("/metrics").await;
    let away = metrics.lines().find(|line| line.starts_with("fis_intake_redis_away_total"));
    assert!(away.is_none_or(|line| line.ends_with(" 0")), "{away:?}");
    world.rest(&mut run).await;
    world.invariants().await;
}

/// The same copy of PostgreSQL may be put back twice, and comes to the same position twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_was_restored_never_gets_a_name_again_that_it_had() {
    use fis::intake::ledger::LedgerEpoch;
    use fis::platform::{config, postgres::Postgres, redis::Redis};

    let world = World::new("names").await;
    let database = config::Database { url: world.database_url.as_str().into(), ..config::Database::default() };
    let postgres = Postgres::new(&database).unwrap();
    let store = Redis::new(&config::Redis { url: world.redis_url.as_str().into(), timeout_ms: 5000 }).unwrap();
    let first = LedgerEpoch::default().ledger(&postgres, &store).await.name().to_owned();
    assert_eq!(LedgerEpoch::default().ledger(&postgres, &store).await.name().to_owned(), first, "nothing has happened");
    let (epoch, _) = first.rsplit_once('-').unwrap();
    let mut redis = world.redis().await;
    let mut restored = async || {
        let (key, far) = (format!("fis:ledger:{epoch}"), i64::MAX);
        let _: i64 = redis::cmd("HSET").arg(key).arg("reached").arg(far).query_async(&mut redis).await.unwrap();
        LedgerEpoch::default().ledger(&postgres, &store).await.name().to_owned()
    };
    let names = [first.clone(), restored().await, restored().await];
    assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
}
