//! A tenant's limit: no more is posted than it allows, it is told as a metric, and what exceeds it waits in the broker.

use super::{OWN, orders, tenants, with_own_queue};
use crate::support::wait::wait_within;
use crate::support::world::{Setup, World};

/// The database's own times say what was posted when. Generous by a burst, by what the broker had sent ahead, and by a second; without a limit
/// it would be posted at once.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_posted_than_the_limit_allows() {
    const LIMIT: i64 = 100;
    let world = with_own_queue("limit").await;
    world.publish(&orders("acme", "evt", 1500)).await;
    let mut run = world.run_with(&tenants("acme=100")).await;
    let posted = "select count(*) from fis_journal_entry";
    wait_within("half of it is posted", std::time::Duration::from_secs(60), async || {
        let count = world.count(posted).await;
        if count >= 700 { Ok(()) } else { Err(format!("{count} are posted")) }
    })
    .await;
    let (_, metrics) = run.get("/metrics").await;
    run.terminate().await;
    let count = world.count(posted).await;
    let sql = "select ceil(extract(epoch from max(posted_at) - min(posted_at)))::bigint from fis_journal_entry";
    let seconds = world.count(sql).await;
    assert!(count <= LIMIT * (seconds + 3), "{count} events in {seconds} s");
    assert!(metrics.contains("fis_intake_limit_events{tenant=\"acme\"} 100"), "{metrics}");
    let waited =
        metrics.lines().find_map(|line| line.strip_prefix("fis_intake_limited_seconds_total{tenant=\"acme\"} "));
    assert!(waited.is_some_and(|seconds| seconds.parse::<u64>().unwrap() > 0), "{waited:?}");

    let mut run = world.run_with(&tenants("acme")).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// The broker waits thirty minutes for an answer about a delivery; whoever takes one event a second must not hold a thousand.
#[tokio::test(flavor = "multi_thread")]
async fn a_limited_queues_events_wait_in_the_broker_and_not_in_our_hands() {
    let world = with_own_queue("hands").await;
    world.publish(&orders("acme", "evt", 200)).await;
    let mut run = world.run_with(&tenants("acme=2")).await;
    let posted = "select count(*) from fis_journal_entry";
    wait_within("some are posted", std::time::Duration::from_secs(30), async || {
        let count = world.count(posted).await;
        if count >= 8 { Ok(()) } else { Err(format!("{count} are posted")) }
    })
    .await;
    let ready = i64::from(world.ready_count(OWN).await);
    let held = 200 - ready - world.count(posted).await;
    assert!(held <= 2, "{held} deliveries are held");
    run.terminate().await;
    let mut run = world.run_with(&tenants("acme")).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_setting_stops_the_start_with_its_name() {
    let world = World::with("own", Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    for (setting, words) in [("acme acme", "named twice"), ("acme=much", "limit `much`"), ("a/b", "`a/b`")] {
        for command in [&["run"][..], &["topology", "apply"], &["topology", "check"]] {
            world.fis_with(command, &tenants(setting)).await.expect(2, &["intake.tenant_queues", words]);
        }
    }
}
