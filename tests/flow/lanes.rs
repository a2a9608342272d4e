//! Three lanes, one ledger: who goes first, and what happens when several transactions post at once.

use std::time::Duration;

use deadpool_redis::redis;
use fis::platform::amqp::{AmqpError, Connection, Consumer, Limits, Prefetch, Receiver};
use fis::platform::config;
use lapin::options::{BasicGetOptions, BasicNackOptions};
use tokio_util::sync::CancellationToken;

use crate::support::broker::LANES;
use crate::support::events::{Message, order_of};
use crate::support::load::mix;
use crate::support::wait::{same, wait_until};
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
    let mut run = world.run_with(&[("FIS__INTAKE__PREFETCH", "5"), ("FIS__INTAKE__PREFETCH_MAX", "80")]).await;
    wait_until("the prefetch has grown", async || {
        let (_, metrics) = run.get("/metrics").await;
        let grown = metrics.contains("fis_intake_prefetch_events{lane=\"live\"} 80");
        if grown { Ok(()) } else { Err(metrics) }
    })
    .await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 3000);
    world.invariants().await;
}

/// The last batches before a restart may be small, when the load ends just then. Whoever has cancelled must begin anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_wish_for_another_prefetch_outlives_the_batches_that_come_before_it_is_granted() {
    let world = World::new("restart").await;
    world.publish(&orders("evt", 100, "fis.events.exchange")).await;
    // So much memory that it begins with its usual bound.
    let bytes = 128 * 1024 * 1024;
    let config =
        config::Intake { prefetch: 13, prefetch_max: 640, prefetch_bytes_max: bytes, ..config::Intake::default() };
    let limits = Limits { events_max: 3, bytes_max: usize::MAX, linger: Duration::from_secs(1) };
    let connection = Connection::open(&world.amqp(), "test").await.unwrap();
    let consumer = Consumer::open(&connection, LANES[0], 13).await.unwrap();
    let mut receiver = Receiver::new(consumer, limits).adapting(Prefetch::new(&config));
    let (settler, never) = (receiver.consumer().settler(), CancellationToken::new());
    let mut taken = 0;
    while !receiver.wants_restart() {
        let batch = receiver.next_batch(&never).await.unwrap().unwrap();
        taken += u32::try_from(batch.len()).unwrap();
        settler.settle(&batch, |_| false).await.unwrap();
    }
    // Four batches of three and one of one are on their way.
    wait_until("the broker has sent ahead", async || same(world.ready_count(LANES[0]).await, 100 - taken - 13)).await;
    receiver.consumer().cancel().await.unwrap();
    loop {
        match receiver.next_batch(&never).await {
            Ok(batch) => settler.settle(&batch.unwrap(), |_| false).await.unwrap(),
            Err(AmqpError::Cancelled { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(receiver.restart().await.unwrap(), 104);
    assert!(!receiver.next_batch(&never).await.unwrap().unwrap().is_empty(), "it consumes again");
    connection.close().await;
}

/// A delivery that may have ended the process before is alone under way: one that was only in its company is settled first,
/// and is not the first of the next session.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_came_several_times_has_no_company_on_its_way() {
    let world = World::new("alone").await;
    world.publish(&orders("evt", 3, "fis.events.exchange")).await;
    let connection = world.connect().await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    for _ in 0..4 {
        let mut last = None;
        for _ in 0..3 {
            let got = wait_until("a message", async || {
                let got = channel.basic_get(LANES[0].into(), BasicGetOptions::default()).await.unwrap();
                got.ok_or_else(|| "none".to_owned())
            });
            last = Some(got.await.delivery);
        }
        let options = BasicNackOptions { requeue: true, multiple: true };
        last.unwrap().nack(options).await.unwrap();
    }
    connection.close(200, "bye".into()).await.unwrap();

    let mut lock = world.pool.begin().await.unwrap();
    sqlx::query("select 1 from fis_chain_head for update").execute(&mut *lock).await.unwrap();
    let mut run = world.run().await;
    let mut redis = world.redis().await;
    let mut claimed = async || -> i64 {
        let keys = (0..3).map(|n| format!("fis:ik:acme:evt-{n}")).collect::<Vec<_>>();
        redis::cmd("EXISTS").arg(keys).query_async(&mut redis).await.unwrap()
    };
    wait_until("one is begun", async || if claimed().await > 0 { Ok(()) } else { Err("none".to_owned()) }).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(claimed().await, 1, "the others wait until it is settled");
    lock.rollback().await.unwrap();
    world.rest(&mut run).await;
    world.invariants().await;
}

/// RabbitMQ 3.10 takes the consumer along to the new queue, without a word to it, and withholds what it delivers.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_deleted_and_declared_again_at_once_is_heard_again() {
    let world = World::new("blind").await;
    let mut run = world.run().await;
    let rejected = |id: &str| Message::new("a.b.c", format!("{{ {id}")).rejected("malformed_json");
    world.publish(&orders("before", 20, "fis.events.exchange")).await;
    world.publish(&[rejected("before")]).await;
    world.quiet().await;
    for queue in [LANES[0], "fis.ingestion.dlq.queue"] {
        world.declare_again(queue).await;
    }
    world.publish(&orders("after", 5, "fis.events.exchange")).await;
    world.publish(&[rejected("after")]).await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 25);
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 2);
    world.invariants().await;
}
