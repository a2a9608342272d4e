//! PostgreSQL forgets: an older copy of its files is put back while Redis and the broker remember.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use deadpool_redis::redis;

use crate::servers::{act, dev, servers, world};
use crate::support::broker::Received;
use crate::support::events::order_of;
use crate::support::load::QUICK_RETRIES;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

async fn wait_entries(world: &World, count: i64) {
    wait_until("the ledger has them", async || {
        let entries = sqlx::query_scalar("select count(*) from fis_journal_entry").fetch_one(&world.pool).await;
        same(entries.unwrap_or(-1), count)
    })
    .await;
}

fn copy(world: &World, from: &str, to: &str) {
    let dir = world.servers.dev_dir.as_deref().unwrap();
    let (from, to) = (dir.join(from), dir.join(to));
    assert!(Command::new("rm").arg("-rf").arg(&to).status().unwrap().success());
    assert!(Command::new("cp").arg("-a").arg(&from).arg(&to).status().unwrap().success());
}

/// System identifier, database and timeline are the same as before: only the position in the write-ahead log tells.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_restored_postgresql_has_forgotten_is_posted_again_though_redis_remembers_it() {
    let (_turn, servers) = servers().await;
    let world = world("restored", &servers).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    world.publish(&[order_of("acme", "evt-1", "EUR", "119.00", "19.00")]).await;
    wait_entries(&world, 1).await;
    act(&servers, "postgres", "stop").await;
    copy(&world, "postgres", "postgres.copy");
    act(&servers, "postgres", "start").await;
    run.ready().await;
    let forgotten = order_of("acme", "evt-2", "EUR", "119.00", "19.00");
    world.publish(std::slice::from_ref(&forgotten)).await;
    wait_entries(&world, 2).await;

    // Redis has both as COMPLETED. The copy comes back; the publisher sends the forgotten one again.
    act(&servers, "postgres", "stop").await;
    copy(&world, "postgres.copy", "postgres");
    act(&servers, "postgres", "start").await;
    run.ready().await;
    wait_entries(&world, 1).await;
    world.publish(&[forgotten]).await;
    wait_entries(&world, 2).await;
    run.terminate().await;
    world.fis(&["verify"]).await.expect(0, &[]);
}

/// A batch that was begun before is posted into the restored ledger. What it then tells Redis must not hide the restoring.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_in_hand_does_not_vouch_for_what_a_restored_postgresql_has_forgotten() {
    let (_turn, servers) = servers().await;
    let world = world("restored_in_hand", &servers).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    let [first, forgotten, in_hand] =
        ["evt-1", "evt-2", "evt-3"].map(|id| order_of("acme", id, "EUR", "119.00", "19.00"));
    world.publish(&[first]).await;
    wait_entries(&world, 1).await;
    act(&servers, "postgres", "stop").await;
    copy(&world, "postgres", "postgres.copy");
    act(&servers, "postgres", "start").await;
    run.ready().await;
    world.publish(std::slice::from_ref(&forgotten)).await;
    wait_entries(&world, 2).await;
    wait_key(&world, "fis:ik:acme:evt-2", "COMPLETED").await;

    // The third is claimed, and waits for the head when PostgreSQL goes.
    let mut lock = world.pool.begin().await.unwrap();
    sqlx::query("select 1 from fis_chain_head where tenant_id = 'acme' for update").execute(&mut *lock).await.unwrap();
    world.publish(&[in_hand]).await;
    wait_key(&world, "fis:ik:acme:evt-3", "PROCESSING").await;
    act(&servers, "postgres", "stop").await;
    drop(lock);
    copy(&world, "postgres.copy", "postgres");
    act(&servers, "postgres", "start").await;
    run.ready().await;
    wait_entries(&world, 2).await;
    wait_key(&world, "fis:ik:acme:evt-3", "COMPLETED").await;

    world.publish(&[forgotten]).await;
    wait_entries(&world, 3).await;
    run.terminate().await;
    world.fis(&["verify"]).await.expect(0, &[]);
}

/// The relay has messages in the air, and their confirms wait behind an alarm of the broker, when an older copy of PostgreSQL comes back:
/// the rows that were sent are gone, and new ones bear their ids. A confirm that arrives then speaks of none of them.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_restored_postgresql_announces_is_not_taken_for_what_was_in_the_air() {
    const ROWS: i64 = 200;
    let (_turn, servers) = servers().await;
    let world = world("restored_in_the_air", &servers).await;
    let memory = async |limit| dev(&servers, &["rabbitmqctl", "set_vm_memory_high_watermark", "absolute", limit]).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    act(&servers, "postgres", "stop").await;
    copy(&world, "postgres", "postgres.copy");
    act(&servers, "postgres", "start").await;
    run.ready().await;
    memory("1").await;
    world.fill(&["acme"], ROWS).await;
    wait_until("the relay is told of the alarm", async || {
        let log = run.log();
        if log.contains("raised an alarm") { Ok(()) } else { Err(log) }
    })
    .await;

    act(&servers, "postgres", "stop").await;
    copy(&world, "postgres.copy", "postgres");
    act(&servers, "postgres", "start").await;
    world.fill(&["globex"], ROWS).await;
    // What `dev` gives its private broker.
    memory("2GB").await;
    run.ready().await;
    world.all_announced(Duration::from_secs(60)).await;
    run.terminate().await;
    let mut reader = world.finance().await;
    reader.drain().await;
    let announced: BTreeSet<String> = reader.messages.iter().map(Received::message_id).collect();
    let of = |tenant: &str| announced.iter().filter(|id| id.starts_with(tenant)).count();
    assert_ne!(of("acme/"), 0, "something was in the air");
    assert_eq!(of("globex/"), usize::try_from(ROWS).unwrap());
}

async fn wait_key(world: &World, key: &str, status: &str) {
    let mut redis = world.redis().await;
    wait_until(&format!("{key} says {status}"), async || {
        let value: Option<String> = redis::cmd("GET").arg(key).query_async(&mut redis).await.unwrap();
        let value = value.unwrap_or_default();
        if value.contains(status) { Ok(()) } else { Err(value) }
    })
    .await;
}
