//! Life and death: doors for machines, stopping, two of them, and doing nothing at little cost.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::Connection as _;

use crate::support::broker::LANES;
use crate::support::events::{Message, order};
use crate::support::load::{QUICK_RETRIES, TENANTS, mix};
use crate::support::process::Run;
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

#[tokio::test(flavor = "multi_thread")]
async fn the_doors_answer_and_metrics_carry_the_promised_names() {
    let world = World::new("doors").await;
    let mut run = world.run().await;
    world.publish(&[order("evt"), Message::new("a.b.c", "{").rejected("malformed_json")]).await;
    world.quiet().await;
    let (status, body) = run.get("/healthz").await;
    assert_eq!((status, body.trim()), (200, "ok"));
    let (status, body) = run.get("/readyz").await;
    let ready: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &ready["ready"]), (200, &json!(true)));
    for part in ["postgres", "redis", "broker-in", "broker-out"] {
        assert_eq!(ready["parts"][part], "ok", "{body}");
    }
    let (status, metrics) = run.get("/metrics").await;
    assert_eq!(status, 200);
    for line in [
        r#"fis_intake_deliveries_total{lane="live",outcome="posted"} 1"#,
        r#"fis_intake_rejected_total{reason="malformed_json"} 1"#,
        r#"fis_outbox_published_total{kind="journal"} 1"#,
        "# TYPE fis_journal_post_seconds histogram",
        r#"fis_service_part_away{part="postgres"} 0"#,
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line} in\n{metrics}");
    }
    assert_eq!(run.get("/nothing").await.0, 404);
    let status = world.fis_with(&["status", "--json"], &[("FIS_HTTP_ADDR", &run.addr)]).await.expect(0, &[]).json();
    assert_eq!(status["breaker"], "closed");
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_named() {
    let world = World::new("port").await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    world.fis_with(&["run"], &[("FIS_HTTP_ADDR", &addr)]).await.expect(1, &[&addr, "http.addr"]);
    world.fis_with(&["run"], &[("FIS_HTTP_ADDR", "nonsense")]).await.expect(2, &["nonsense", "http.addr"]);
}

/// Stops while a publisher publishes and batches are under way.
async fn stopped_under_load(name: &str, signal: &str) {
    let world = World::with(name, Setup { tenants: TENANTS, ..Setup::default() }).await;
    // A small window, so that flushing the relay takes many of them.
    let mut run = world.run_with(&[&QUICK_RETRIES[..], &[("FIS__OUTBOX__WINDOW", "50")]].concat()).await;
    let messages = mix(name, 3000);
    let stop = async {
        wait_until("it is at work", async || {
            let posted = world.count("select count(*) from fis_journal_entry").await;
            if posted > 100 { Ok(()) } else { Err(format!("{posted} posted")) }
        })
        .await;
        let told = Instant::now();
        run.signal(signal);
        let status = run.exited(Duration::from_secs(20)).await;
        (status, told.elapsed())
    };
    let (_, (status, took)) = tokio::join!(world.publish_through_trouble(&messages, 20), stop);
    assert_eq!(status.code(), Some(0), "{status:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let posted = world.count("select count(*) from fis_journal_entry").await;
    let queued: u32 = {
        let mut queued = 0;
        for queue in LANES {
            queued += world.ready_count(queue).await;
        }
        queued
    };
    assert!(posted > 0 && queued > 0, "it was stopped in the middle: {posted} posted, {queued} queued");
    // Nothing was left half done: what is unsettled was never taken, and comes on the first delivery.
    assert_eq!(world.count("select count(*) from fis_outbox").await, 0, "the relay was flushed");
    let mut run = world.run_with(&QUICK_RETRIES).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_under_load_finishes_what_is_held_and_leaves_within_ten_seconds() {
    stopped_under_load("sigterm", "TERM").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigint_under_load_does_the_same() {
    stopped_under_load("sigint", "INT").await;
}

/// The relay is far behind when the signal comes: it still announces everything before it leaves.
#[tokio::test(flavor = "multi_thread")]
async fn stopping_flushes_the_relay() {
    let world = World::new("flush").await;
    let mut run = world.run().await;
    world.publish(&[order("a"), order("b"), order("c"), order("d"), order("e")]).await;
    world.rest(&mut run).await;
    // Entries to announce once more, as a resend would.
    world.sql("insert into fis_outbox (tenant_id, seq, lines) select 'acme', 1 + n % 5, 3 from generate_series(0, 1199) n").await;
    let mut run = world.run_with(&[("FIS__OUTBOX__WINDOW", "10")]).await;
    run.signal("TERM");
    wait_until("it has heard", async || {
        if run.log().contains("stopping on a signal") { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    assert!(world.count("select count(*) from fis_outbox").await > 0, "it was told in the middle of it");
    let status = run.exited(Duration::from_secs(11)).await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(world.count("select count(*) from fis_outbox").await, 0);
    let feed = world.invariants().await;
    assert_eq!(feed.messages.len(), 1205);
}

/// Somebody else holds the tenant's head, so that a batch cannot be finished.
async fn stuck(world: &World, run: &Run) -> sqlx::PgConnection {
    let mut lock = sqlx::PgConnection::connect(&world.database_url).await.unwrap();
    sqlx::raw_sql("begin; select from fis_chain_head for update").execute(&mut lock).await.unwrap();
    world.publish(&[order("evt")]).await;
    wait_until("the batch waits for the lock", async || {
        let waiting = world.count("select count(*) from pg_locks where not granted").await;
        if waiting > 0 { Ok(()) } else { Err(run.log()) }
    })
    .await;
    lock
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_leaves_at_once_and_loses_nothing() {
    let world = World::new("second_signal").await;
    let mut run = world.run().await;
    let lock = stuck(&world, &run).await;
    run.signal("TERM");
    wait_until("it has heard", async || {
        if run.log().contains("stopping on a signal") { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    assert!(run.is_running(), "it waits for its batch");
    let told = Instant::now();
    run.signal("TERM");
    let status = run.exited(Duration::from_secs(5)).await;
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    assert_eq!(status.code(), Some(1), "leaving work behind is not a clean stop: {status:?}");
    drop(lock);
    let mut run = world.run().await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_cannot_be_finished_does_not_keep_the_service_from_leaving_in_time() {
    let world = World::new("stuck").await;
    let mut run = world.run_with(&[("FIS__SERVICE__STOP_SECONDS", "2")]).await;
    let lock = stuck(&world, &run).await;
    let told = Instant::now();
    run.signal("TERM");
    let status = run.exited(Duration::from_secs(10)).await;
    assert!(told.elapsed() < Duration::from_secs(4), "{:?}", told.elapsed());
    assert_eq!(status.code(), Some(0));
    drop(lock);
    let mut run = world.run().await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_share_the_queue_and_post_each_event_once() {
    let world = World::with("two", Setup { tenants: TENANTS, ..Setup::default() }).await;
    let (mut one, mut two) = (world.spawn(&QUICK_RETRIES), world.spawn(&QUICK_RETRIES));
    one.ready().await;
    two.ready().await;
    world.publish_through_trouble(&mix("two", 2000), 200).await;
    world.quiet().await;
    let settled = async |run: &Run| {
        let (_, metrics) = run.get("/metrics").await;
        let lines = metrics.lines().filter(|line| line.starts_with("fis_intake_deliveries_total{"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    let (first, second) = (settled(&one).await, settled(&two).await);
    assert!(first > 0 && second > 0, "both worked: {first} and {second}");
    one.terminate().await;
    world.rest(&mut two).await;
    world.invariants().await;
}

/// The relay of the one that leaves, or dies, is taken over by the other.
#[tokio::test(flavor = "multi_thread")]
async fn when_the_relaying_instance_dies_the_other_one_relays() {
    let world = World::new("takeover").await;
    let mut one = world.run().await;
    let mut two = world.spawn(&[]);
    wait_until("the second instance consumes", async || {
        let (_, ready) = two.get("/readyz").await;
        let ready: Value = serde_json::from_str(&ready).unwrap_or_default();
        same(ready["parts"]["broker-in"].clone(), json!("ok"))
    })
    .await;
    assert!(one.log().contains("\"relaying\"") && !two.log().contains("\"relaying\""), "one relays");
    world.publish(&[order("before")]).await;
    world.finance().await.read(1).await;
    one.kill();
    world.publish(&[order("after")]).await;
    world.finance().await.read(1).await;
    world.rest(&mut two).await;
    world.invariants().await;
}

/// Somebody deletes the queue under the consumers and declares it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_deleted_and_declared_again_is_consumed_again() {
    let world = World::new("deleted_queue").await;
    let mut run = world.run().await;
    world.publish(&[order("before")]).await;
    world.quiet().await;
    world.management.delete(&world.management.object_path("queues", LANES[0])).await.unwrap();
    wait_until("the loss is noticed", async || {
        let (status, ready) = run.get("/readyz").await;
        if status == 503 && ready.contains("broker-in") { Ok(()) } else { Err(ready) }
    })
    .await;
    world.apply_topology().await;
    run.ready().await;
    world.publish(&[order("after")]).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// Measured in clock ticks and pages of this process, not in wall time. The bound is wide: the build is unoptimised, and busy neighbours make
/// every look at a server dearer. A task that turns in circles takes all of a core.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_service_rests_and_holds_little_memory() {
    const TICKS_PER_SECOND: u64 = 100; // USER_HZ, which is 100 on every Linux that Rust runs on
    const PERCENT: u64 = 5;
    const PAGE: u64 = 4096;
    let world = World::new("idle").await;
    let mut run = world.run().await;
    world.publish(&(0..200).map(|n| order(&format!("evt-{n}"))).collect::<Vec<_>>()).await;
    world.quiet().await;
    let (before, _) = run.usage();
    let began = Instant::now();
    // Here time itself is under test.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let (after, pages) = run.usage();
    let allowed = began.elapsed().as_secs() * TICKS_PER_SECOND * PERCENT / 100;
    assert!(after - before <= allowed, "{} ticks in {:?}, {allowed} are {PERCENT} %", after - before, began.elapsed());
    let mebibytes = pages * PAGE / 1024 / 1024;
    assert!(mebibytes < 60, "{mebibytes} MiB resident");
    world.rest(&mut run).await;
}
