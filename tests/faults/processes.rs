//! The process dies at any moment, and its connections are cut under it.

use std::time::Duration;

use fis::platform::amqp::management::encode;
use serde_json::Value;

use crate::support::load::{QUICK_RETRIES, TENANTS, mix};
use crate::support::wait::{wait_until, wait_within};
use crate::support::world::{Setup, World};

async fn two_tenants(name: &str) -> World {
    World::with(name, Setup { tenants: TENANTS, ..Setup::default() }).await
}

async fn posted(world: &World) -> i64 {
    world.count("select count(*) from fis_journal_entry").await
}

/// Waits until the ledger has grown by so much, so that the next blow falls into the work.
async fn wait_grown(world: &World, from: i64, by: i64) {
    wait_until("the ledger grows", async || {
        let now = posted(world).await;
        if now >= from + by { Ok(()) } else { Err(format!("{now} entries, {from} before")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_again_and_again_it_loses_and_doubles_nothing() {
    let world = two_tenants("killed").await;
    let messages = mix("killed", 3000);
    let killing = async {
        let mut run = world.run_with(&QUICK_RETRIES).await;
        for _ in 0..5 {
            wait_grown(&world, posted(&world).await, 50).await;
            // A moment of its own within the work, chosen at random.
            tokio::time::sleep(Duration::from_micros(fastrand::u64(..50_000))).await;
            run.kill();
            run = world.run_with(&QUICK_RETRIES).await;
        }
        run
    };
    let ((), mut run) = tokio::join!(world.publish_through_trouble(&messages, 100), killing);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_closed_by_the_broker_under_load_cost_nothing() {
    let world = two_tenants("closed").await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    let cutting = async {
        for _ in 0..3 {
            wait_grown(&world, posted(&world).await, 30).await;
            close_connections(&world).await;
        }
    };
    Box::pin(world.publish_during(|number| mix(&format!("closed-{number}"), 100), cutting)).await;
    assert!(run.log().matches("the intake lost its session").count() >= 2, "it was hit: {}", run.log());
    run.ready().await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// Closes every connection into the world's virtual host, the publisher's too.
async fn close_connections(world: &World) {
    let path = world.management.list_path("vhosts") + "/connections";
    let closed = wait_within("the broker knows the connections", Duration::from_secs(20), async || {
        let listed: Vec<Value> = world.management.get_json(&path).await.map_err(|error| error.to_string())?;
        let fis = listed.iter().filter(|one| {
            let name = one["client_properties"]["connection_name"].as_str().unwrap_or_default();
            name.starts_with("fis ")
        });
        if fis.count() == 0 { Err(format!("{} connections, none of fis", listed.len())) } else { Ok(listed) }
    })
    .await;
    for connection in closed {
        let name = connection["name"].as_str().unwrap();
        // It may have gone by itself in the meantime.
        let _ = world.management.delete(&format!("connections/{}", encode(name))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_ended_by_postgresql_under_load_cost_nothing() {
    let world = two_tenants("terminated").await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    let messages = mix("terminated", 1500);
    let terminating = async {
        for _ in 0..5 {
            wait_grown(&world, posted(&world).await, 30).await;
            let ended = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                          where application_name = 'fis' and datname = current_database()";
            assert!(world.count(ended).await > 0);
        }
    };
    tokio::join!(world.publish_through_trouble(&messages, 50), terminating);
    run.ready().await;
    world.rest(&mut run).await;
    let letters = "select count(*) from fis_dead_letter where reason in ('database_refused', 'delivery_limit')";
    assert_eq!(world.count(letters).await, 0, "an outage is not the event's fault");
    world.invariants().await;
}

/// A crash loop: every event is delivered again and again, and none of the healthy ones pays for it.
#[cfg(feature = "failpoints")]
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loop_sends_no_healthy_event_to_the_dead_letters() {
    let world = two_tenants("crash_loop").await;
    let messages: Vec<_> = (0..100).map(|n| crate::support::events::order(&format!("evt-{n}"))).collect();
    world.publish(&messages).await;
    for _ in 0..6 {
        let mut doomed = world.spawn(&[("FIS_FAILPOINT", "before_commit")]);
        doomed.exited(Duration::from_secs(30)).await;
        assert!(doomed.aborted());
    }
    let mut run = world.run().await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 0);
    world.invariants().await;
}
