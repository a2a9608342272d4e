//! Three lanes, one ledger: who goes first, and what happens when several transactions post at once.

use crate::support::events::{Message, order_of};
use crate::support::load::mix;
use crate::support::wait::wait_until;
use crate::support::world::{Setup, World};

fn orders(prefix: &str, count: usize, exchange: &'static str) -> Vec<Message> {
    let order = |n| order_of("acme", &format!("{prefix}-{n}"), "EUR", "119.00", "19.00").on(exchange);
    (0..count).map(order).collect()
}

/// All of it waits before the service starts; what is compared is the order in the ledger, not the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_goes_behind_live_traffic_and_urgent_events_go_first() {
    let world = World::new("lanes").await;
    world.publish(&orders("backfill", 6000, "fis.backfill.exchange")).await;
    world.publish(&orders("live", 300, "fis.events.exchange")).await;
    world.publish(&orders("urgent", 300, "fis.urgent.exchange")).await;
    let mut run = world.run().await;
    world.rest(&mut run).await;
    let before = world
        .count(
            "select count(*) from fis_journal_entry
              where lane = 'backfill' and seq < (select max(seq) from fis_journal_entry where lane in ('live', 'urgent'))",
        )
        .await;
    // A batch of the backfill may be under way when the others come, and by their weights they leave it a place or two.
    assert!(before <= 2500, "{before} of 6000 back-filled events were posted before the last live one");
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_posters_share_the_tenants_and_the_books_are_right() {
    let tenants = &["acme", "globex", "initech"];
    let world = World::with("posters", Setup { tenants, ..Setup::default() }).await;
    let mut messages = mix("posters", 900);
    for tenant in tenants {
        messages.extend((0..100).map(|n| order_of(tenant, &format!("extra-{n}"), "EUR", "11.90", "1.90")));
    }
    world.publish(&messages).await;
    let mut run =
        world.run_with(&[&crate::support::load::QUICK_RETRIES[..], &[("FIS__INTAKE__POSTERS", "3")]].concat()).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// The prefetch follows the load, and consuming begins anew meanwhile: nothing is lost or doubled by that.
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_raises_its_prefetch_under_load_loses_and_doubles_nothing() {
    let world = World::new("prefetch").await;
    world.publish(&orders("evt", 3000, "fis.events.exchange")).await;
    let mut run = world.run_with(&[("FIS__INTAKE__PREFETCH", "10"), ("FIS__INTAKE__PREFETCH_MAX", "640")]).await;
    wait_until("the prefetch has grown", async || {
        let (_, metrics) = run.get("/metrics").await;
        let grown = metrics.contains("fis_intake_prefetch_events{lane=\"live\"} 640");
        if grown { Ok(()) } else { Err(metrics) }
    })
    .await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 3000);
    world.invariants().await;
}
