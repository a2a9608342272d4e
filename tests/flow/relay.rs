//! The relay beside trouble: a tenant, a road or an exchange that is stuck holds up nobody else, and loses nothing.

use std::time::Duration;

use fis::platform::amqp::management::encode;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;

use crate::support::broker::{AUDIT, FINANCE};
use crate::support::events::{order, order_of};
use crate::support::process::Run;
use crate::support::wait::{same, wait_until, wait_within};
use crate::support::world::{Setup, World};

const TENANTS: &[&str] = &["acme", "globex"];

/// More rows of one tenant than a window holds cannot leave; the other tenant's announcements still do, and soon.
#[tokio::test(flavor = "multi_thread")]
async fn one_stuck_tenant_never_blocks_another() {
    let world = World::with("stuck_tenant", Setup { tenants: TENANTS, ..Setup::default() }).await;
    world
        .sql("insert into fis_outbox (tenant_id, seq, lines) select 'acme', 1000000 + n, 2 from generate_series(1, 3000) n")
        .await;
    let mut run = world.spawn(&[]);
    wait_until("it says which messages cannot be made", async || {
        let (status, ready) = run.get("/readyz").await;
        if status == 503 && ready.contains("cannot be made") { Ok(()) } else { Err(ready) }
    })
    .await;
    world.publish(&[order_of("globex", "evt", "EUR", "119.00", "19.00")]).await;
    let mut feed = world.finance().await;
    assert_eq!(feed.read(1).await[0].data()["tenantId"], "globex");
    let (_, metrics) = run.get("/metrics").await;
    assert!(metrics.contains(r#"fis_outbox_tenants_waiting 1"#), "{metrics}");
    assert_eq!(world.count("select count(*) from fis_outbox where tenant_id = 'acme'").await, 3000, "nothing is lost");
    // Mended by hand, for want of the entries: it takes note.
    world.sql("delete from fis_outbox where tenant_id = 'acme'").await;
    world.publish(&[order("later")]).await;
    feed.read(2).await;
    run.ready().await;
    run.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_deleted_under_the_relay_loses_nothing_and_is_healed_by_applying_the_topology() {
    let world = World::new("deleted_exchange").await;
    let mut run = world.run().await;
    world.publish(&[order("before")]).await;
    world.finance().await.read(1).await;
    world.management.delete(&world.management.object_path("exchanges", "fis.domain.exchange")).await.unwrap();
    world.publish(&(0..200).map(|n| order(&format!("evt-{n}"))).collect::<Vec<_>>()).await;
    wait_until("it says what is missing, and the rows wait", async || {
        let (status, ready) = run.get("/readyz").await;
        let left = world.announcements_left().await;
        if status == 503 && ready.contains("fis.domain.exchange") && left == 200 { Ok(()) } else { Err(ready) }
    })
    .await;
    world.fis(&["topology", "apply"]).await.expect(0, &[]);
    for queue in [FINANCE, AUDIT] {
        world.bind("fis.domain.exchange", queue, "fis.#").await;
    }
    world.all_announced(Duration::from_secs(30)).await;
    run.ready().await;
    run.terminate().await;
    // The stream is bound first and may take some alone: it, not the queues that were bound later, has all of them.
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 201);
}

/// The broker shows who relays, and the one that stands by asks without a trace in the broker's log.
#[tokio::test(flavor = "multi_thread")]
async fn the_one_that_stands_by_is_ready_and_takes_over_at_once_when_the_owner_leaves() {
    let world = World::new("stand_by").await;
    let mut one = world.run().await;
    let mut two = world.run().await;
    let owner = format!("queues/{}/fis.relay.owner", encode(&world.vhost));
    let seen: serde_json::Value = world.management.get_json(&owner).await.unwrap();
    assert_eq!((&seen["exclusive"], &seen["durable"]), (&true.into(), &false.into()), "{seen}");
    assert!(!two.log().contains("\"relaying\""));
    one.terminate().await;
    wait_within("the other relays", Duration::from_secs(10), async || {
        same(two.log().matches("\"relaying\"").count(), 1)
    })
    .await;
    let refused = two.log().matches("RESOURCE_LOCKED").count();
    assert_eq!(refused, 0);
    world.publish(&[order("after")]).await;
    world.rest(&mut two).await;
    world.invariants().await;
}

/// A channel of RabbitMQ 3.10 may refuse for as long as a dead node is away, though the queue has long had another leader
/// (`tests/faults/cluster.rs` meets that now and then): what is tried again must go by another channel.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_refusal_the_relay_goes_on_with_a_new_channel() {
    let world = World::new("new_channel").await;
    let mut run = world.run().await;
    let policy = world.fill_up(FINANCE).await;
    let mut refused = 0;
    wait_until("the relay is refused", async || {
        refused += 1;
        world.publish(&[order(&format!("evt-{refused}"))]).await;
        let (_, ready) = run.get("/readyz").await;
        if ready.contains("refused a message") { Ok(()) } else { Err(ready) }
    })
    .await;
    world.until_a_channel_is_renewed("fis relay").await;
    world.management.delete(&policy).await.unwrap();
    run.ready().await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// Runs while the owner's queue is somebody's who does not relay, until that is told.
async fn told_that_nobody_relays(world: &World) -> Run {
    let run = world.run().await;
    world.publish(&[order("evt")]).await;
    wait_within("it says that nobody relays", Duration::from_secs(90), async || {
        let (status, body) = run.get("/readyz").await;
        if status == 503 && body.contains("nobody relays") { Ok(()) } else { Err(body) }
    })
    .await;
    assert_eq!(run.log().matches("nobody relays").count(), 1, "one warning");
    run
}

async fn relays_again(world: &World, mut run: Run) {
    run.ready().await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_a_stranger_keeps_from_leaving_is_told() {
    let world = World::new("stranger").await;
    let stranger = world.connect().await.unwrap();
    let channel = stranger.create_channel().await.unwrap();
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare("fis.relay.owner".into(), options, FieldTable::default()).await.unwrap();
    let run = told_that_nobody_relays(&world).await;
    stranger.close(200, "bye".into()).await.unwrap();
    relays_again(&world, run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_a_durable_queue_keeps_from_leaving_is_told() {
    let world = World::new("stray_owner").await;
    let stray = world.management.object_path("queues", "fis.relay.owner");
    world.management.put_json(&stray, &serde_json::json!({"durable": true})).await.unwrap();
    let run = told_that_nobody_relays(&world).await;
    world.management.delete(&stray).await.unwrap();
    relays_again(&world, run).await;
}
