//! The edges of the servers: what a broker returns, refuses or dead-letters by itself, and what PostgreSQL refuses.

use fis::platform::amqp::management::encode;
use futures::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicNackOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable};
use serde_json::json;

use crate::support::broker::{AUDIT, DLQ, FINANCE, LANES};
use crate::support::events::{BACKFILL, Expect, LIVE, Message, URGENT, order, payment};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

/// The stream is a reader's memory: attached at any offset, as often as it likes.
#[tokio::test(flavor = "multi_thread")]
async fn the_stream_tells_the_whole_journal_to_every_reader() {
    let world = World::new("stream").await;
    let mut run = world.run().await;
    let orders: Vec<Message> = (0..30).map(|n| order(&format!("evt-{n}"))).collect();
    world.publish(&orders).await;
    world.rest(&mut run).await;
    for (offset, expected) in [(AMQPValue::LongString("first".into()), 30), (AMQPValue::LongLongInt(20), 10)] {
        let connection = world.connect().await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.basic_qos(100, BasicQosOptions::default()).await.unwrap();
        let mut arguments = FieldTable::default();
        arguments.insert("x-stream-offset".into(), offset);
        let mut stream = channel
            .basic_consume("fis.journal.stream".into(), "".into(), BasicConsumeOptions::default(), arguments)
            .await
            .unwrap();
        let mut sequence = Vec::new();
        while sequence.len() < expected {
            let next = tokio::time::timeout(std::time::Duration::from_secs(20), stream.next());
            let delivery = next.await.expect("the stream has more").unwrap().unwrap();
            delivery.ack(BasicAckOptions::default()).await.unwrap();
            // RabbitMQ delivers whole chunks: what lies before the offset is skipped by the reader.
            let body: serde_json::Value = serde_json::from_slice(&delivery.data).unwrap();
            let number = body["data"]["sequence"].as_i64().unwrap();
            if number > 30 - i64::try_from(expected).unwrap() {
                sequence.push(number);
            }
        }
        let from = 31 - i64::try_from(expected).unwrap();
        assert_eq!(sequence, (from..=30).collect::<Vec<_>>());
    }
    world.invariants().await;
}

/// Nobody is bound to the feed: the announcement comes back, and stays in the outbox until somebody is.
#[tokio::test(flavor = "multi_thread")]
async fn an_announcement_that_comes_back_is_not_lost() {
    let world = World::new("returned").await;
    let mut run = world.run().await;
    let unbind = async |queue: &str| {
        let path = format!("bindings/{}/e/fis.domain.exchange/q/{queue}/fis.%23", encode(&world.vhost));
        world.management.delete(&path).await.unwrap();
    };
    for queue in ["fis.journal.stream", FINANCE, AUDIT] {
        unbind(queue).await;
    }
    world.publish(&[order("evt"), order("other")]).await;
    wait_until("the relay says that its messages come back", async || {
        let (status, ready) = run.get("/readyz").await;
        if status == 503 && ready.contains("came back") { Ok(()) } else { Err(ready) }
    })
    .await;
    wait_until("posting goes on, and both announcements wait", async || {
        let posted = world.count("select count(*) from fis_journal_entry").await;
        same((posted, world.count("select count(*) from fis_outbox").await), (2, 2))
    })
    .await;
    for queue in ["fis.journal.stream", FINANCE, AUDIT] {
        world.bind("fis.domain.exchange", queue, "fis.#").await;
    }
    run.ready().await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// The capacity guard: a full queue refuses the confirm, and drops nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_the_publisher_and_drops_nothing() {
    let world = World::new("full").await;
    let body = json!({"pattern": "^fis\\.ingestion\\.queue$", "apply-to": "queues", "definition": {"max-length": 5}});
    world.management.put_json(&world.management.object_path("policies", "small"), &body).await.unwrap();
    let line = |n: usize| {
        json!({"routingKey": "ecommerce.order.completed", "body": order(&format!("evt-{n}")).value()}).to_string()
    };
    let file = world.file("events.ndjson", (0..50).map(line).collect::<Vec<_>>().join("\n"));
    // The policy takes a moment to arrive at the queue.
    let said = wait_until("the queue is full", async || {
        let said = world.fis(&["publish", &file, "--json"]).await;
        if said.code == Some(1) { Ok(said) } else { Err(format!("{said:?}")) }
    })
    .await;
    let failed = said.json()["failed"].as_array().unwrap().clone();
    assert!(!failed.is_empty() && failed[0]["reason"].as_str().unwrap().contains("full"), "{failed:?}");
    world.management.delete(&world.management.object_path("policies", "small")).await.unwrap();
    wait_until("the queue takes messages again", async || {
        let said = world.fis(&["publish", &file]).await;
        if said.code == Some(0) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 50);
    world.invariants().await;
}

/// Takes a message and gives it back, so often.
async fn spend_deliveries(world: &World, times: usize) {
    let connection = world.connect().await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    for _ in 0..times {
        let got = wait_until("the message", async || {
            let got = channel.basic_get(LANES[0].into(), BasicGetOptions::default()).await.unwrap();
            got.ok_or_else(|| "none".to_owned())
        })
        .await;
        got.delivery.nack(BasicNackOptions { requeue: true, ..Default::default() }).await.unwrap();
    }
    connection.close(200, "bye".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_delivered_twenty_times_is_rejected_before_any_work_and_a_few_times_is_not() {
    let world = World::new("delivery_limit").await;
    world.publish(&[order("poisonous").rejected("delivery_limit")]).await;
    spend_deliveries(&world, 20).await;
    world.publish(&[order("healthy")]).await;
    let mut run = world.run().await;
    world.rest(&mut run).await;
    world.publish(&[order("unlucky")]).await;
    spend_deliveries(&world, 5).await;
    let mut run = world.run().await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// Somebody with another tool rejects our message; the broker moves it, and it is parked like any other.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_dead_letters_by_itself_is_parked_with_its_bytes() {
    let world = World::new("foreign_reject").await;
    let message = order("taken-away").expect(Expect::Any);
    world.publish(std::slice::from_ref(&message)).await;
    let connection = world.connect().await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let got = channel.basic_get(LANES[0].into(), BasicGetOptions::default()).await.unwrap().unwrap();
    got.delivery.nack(BasicNackOptions { requeue: false, ..Default::default() }).await.unwrap();
    let mut run = world.run().await;
    wait_until("it is parked", async || same(world.count("select count(*) from fis_dead_letter").await, 1)).await;
    let row: (String, String, String, String, Vec<u8>) =
        sqlx::query_as("select tenant_id, event_id, routing_key, lane, body from fis_dead_letter")
            .fetch_one(&world.pool)
            .await
            .unwrap();
    let [tenant, event, key, lane] = ["acme", "taken-away", "ecommerce.order.completed", "live"].map(str::to_owned);
    assert_eq!(row, (tenant, event, key, lane, message.body));
    world.rest(&mut run).await;
    assert_eq!(world.ready_count(DLQ).await, 0);
    world.invariants().await;
}

/// One event that PostgreSQL itself refuses, among a hundred that it takes.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_postgresql_refuses_is_isolated_and_its_neighbours_are_posted() {
    let world = World::new("refused_by_pg").await;
    world.sql("alter table fis_journal_entry add constraint test_refuses check (event_id not like 'refused%')").await;
    let messages: Vec<Message> = (0..100)
        .map(|n| match n {
            13 | 77 => order(&format!("refused-{n}")).rejected("database_refused"),
            n => order(&format!("evt-{n}")),
        })
        .collect();
    world.publish(&messages).await;
    let mut run = world.run().await;
    world.rest(&mut run).await;
    let details: Vec<String> =
        sqlx::query_scalar("select detail from fis_dead_letter").fetch_all(&world.pool).await.unwrap();
    assert!(details.iter().all(|detail| detail.contains("23514")), "the SQLSTATE is told: {details:?}");
    world.invariants().await;
}

/// A database that takes no writes is an outage, not a fault of the events.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_database_holds_the_deliveries() {
    let world = World::new("read_only").await;
    let mut run = world.run().await;
    let read_only = async |value: &str| {
        // From another database, which stays writable.
        let mut admin = <sqlx::PgConnection as sqlx::Connection>::connect(&world.servers.database).await.unwrap();
        let sql = format!(
            "alter database {0} set default_transaction_read_only = {value};
             select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'fis' and datname = '{0}'",
            world.name
        );
        sqlx::raw_sql(&sql).execute(&mut admin).await.unwrap();
    };
    read_only("on").await;
    let messages: Vec<Message> = (0..20).map(|n| order(&format!("evt-{n}"))).collect();
    world.publish(&messages).await;
    wait_until("it says that PostgreSQL takes nothing", async || {
        let (status, ready) = run.get("/readyz").await;
        if status == 503 && ready.contains("25006") { Ok(()) } else { Err(ready) }
    })
    .await;
    read_only("off").await;
    run.ready().await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 0);
    world.invariants().await;
}

/// A COMPLETED key is believed because the commit behind it is durable, whatever the server's default.
#[tokio::test(flavor = "multi_thread")]
async fn a_posting_commit_is_durable_whatever_the_servers_default() {
    let world = World::new("durable").await;
    let sql = format!("alter database {} set synchronous_commit = off", world.name);
    sqlx::raw_sql(&sql).execute(&world.pool).await.unwrap();
    world
        .sql(
            "create table test_seen (setting text);
             grant insert on test_seen to public;
             create function test_see() returns trigger language plpgsql as
                 $$ begin insert into test_seen values (current_setting('synchronous_commit')); return null; end $$;
             create trigger test_sees after insert on fis_journal_entry for each statement execute function test_see()",
        )
        .await;
    let mut run = world.run().await;
    world.publish(&[order("evt")]).await;
    world.rest(&mut run).await;
    let seen: Vec<String> =
        sqlx::query_scalar("select distinct setting from test_seen").fetch_all(&world.pool).await.unwrap();
    assert_eq!(seen, ["on"]);
    world.invariants().await;
}

/// The same event comes by three lanes at once.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_event_in_every_lane_is_posted_once() {
    let world = World::new("all_lanes").await;
    let messages: Vec<Message> = (0..50)
        .flat_map(|n| [LIVE, URGENT, BACKFILL].map(|exchange| order(&format!("evt-{n}")).on(exchange)))
        .collect();
    world.publish(&messages).await;
    let (mut one, mut two) = (world.spawn(&[]), world.spawn(&[]));
    one.ready().await;
    world.quiet().await;
    one.terminate().await;
    world.rest(&mut two).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 50);
    world.invariants().await;
}

/// Names and sizes at their limits.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_just_within_the_bounds_is_posted() {
    let world = World::new("bounds").await;
    let mut full = order("full").value();
    full["payload"]["note"] = json!("");
    let room = 256 * 1024 - full.to_string().len();
    full["payload"]["note"] = json!("x".repeat(room));
    let full = Message::json("ecommerce.order.completed", &full).expect(Expect::Posted);
    assert_eq!(full.body.len(), 256 * 1024);
    let mut over = full.clone();
    over.body.push(b' ');
    let named = |length: usize| {
        let mut body = order(&"i".repeat(length)).value();
        body["correlationId"] = json!("c");
        Message::json("ecommerce.order.completed", &body)
    };
    let bare = Message { properties: lapin::BasicProperties::default(), ..order("no properties at all") };
    let mut hurried = order("priority and expiry");
    hurried.properties = hurried.properties.with_priority(9).with_type("x".into()).with_app_id("y".into());
    let messages = [
        full,
        over.rejected("too_large"),
        named(255).expect(Expect::Posted),
        named(256).rejected("bad_field"),
        order("with: colon/slash ünïcode 🧾 and 'quotes\"").expect(Expect::Posted),
        order("").rejected("bad_field"),
        bare,
        hurried,
        payment("largest", "1100", "999999999999999.99"),
        payment("too large", "1100", "1000000000000000.00").rejected("bad_amount"),
        payment("smallest", "1100", "0.01"),
    ];
    let mut run = world.run().await;
    world.publish(&messages).await;
    world.rest(&mut run).await;
    world.invariants().await;
}
