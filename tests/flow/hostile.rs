//! Messages that no library would send, and that the broker takes all the same. None may stop what comes behind it.

use lapin::types::{AMQPValue, FieldTable};

use crate::support::broker::{DLQ, LANES};
use crate::support::events::{BACKFILL, LIVE, URGENT, order, payment};
use crate::support::raw::Raw;
use crate::support::tree::{entry, nested, tagged};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn text_that_is_not_utf8_stops_neither_the_lane_nor_the_dead_letters() {
    let world = World::new("not_utf8").await;
    let mut run = world.run().await;
    let mut raw = Raw::open(&world).await;
    let body = br#"{"eventId":"x","tenantId":"acme","payload":{}}"#;
    raw.publish(LIVE, b"ecommerce.\xff\xfe.completed", b"m1", b"", body).await;
    let body = br#"{"eventId":"y","tenantId":"acme","payload":{}}"#;
    raw.publish(LIVE, &[0xff; 255], &[0xfe; 255], &entry(b"\xfd", b"V"), body).await;
    world.publish(&[order("behind")]).await;
    wait_until("the order behind them is posted", async || {
        same(world.count("select count(*) from fis_journal_entry where event_id = 'behind'").await, 1)
    })
    .await;
    wait_until("both are dead letters, and their queue is empty", async || {
        same(world.count("select count(*) from fis_dead_letter where reason = 'rule_not_found'").await, 2)?;
        same(world.ready_count(DLQ).await, 0)
    })
    .await;
    run.terminate().await;
}

/// The lanes' exchanges, in the order of their queues.
const EXCHANGES: [&str; 3] = [LIVE, URGENT, BACKFILL];
const KEY: &[u8] = b"ecommerce.order.completed";

/// Orders of all lanes.
async fn publish_orders(world: &World, when: &str) {
    let orders = EXCHANGES.map(|exchange| order(&format!("{when} {exchange}")).on(exchange));
    world.publish(&orders).await;
}

/// All orders are posted, each poisoned one is a letter for this reason with its body, and nothing is left in a queue.
async fn wait_for_the_end(world: &World, orders: i64, letters: i64, reason: &'static str) {
    wait_until("the orders around them are posted, and they are dead letters", async || {
        same(world.count("select count(*) from fis_journal_entry").await, orders)?;
        let sql = "select count(*) from fis_dead_letter where reason = $1 and body <> ''";
        let found: i64 = sqlx::query_scalar(sql).bind(reason).fetch_one(&world.pool).await.unwrap();
        same(found, letters)?;
        same(world.count("select count(*) from fis_dead_letter").await, letters)?;
        for queue in LANES.into_iter().chain([DLQ]) {
            same(world.ready_count(queue).await, 0)?;
        }
        Ok(())
    })
    .await;
}

/// A letter that was stored can be looked at, and comes out with its body.
async fn every_letter_can_be_read(world: &World) {
    let letters: Vec<(String, Vec<u8>)> =
        sqlx::query_as("select id, body from fis_dead_letter").fetch_all(&world.pool).await.unwrap();
    for (id, body) in letters {
        let id = id.as_str();
        world.fis(&["dlq", "show", id]).await.expect(0, &[id]);
        assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok(), "the body is as it came");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_nested_without_end_stop_no_lane_of_any_instance() {
    let world = World::new("nested").await;
    let mut runs = [world.run().await, world.run().await];
    publish_orders(&world, "before").await;
    let mut raw = Raw::open(&world).await;
    for exchange in EXCHANGES {
        let body = order(&format!("deep {exchange}")).body;
        let headers = [entry(b"x-fis-note", &tagged(b'S', b"kept")), entry(b"deep", &nested(10_000))].concat();
        raw.publish(exchange, KEY, b"m1", &headers, &body).await;
        // Also where the broker puts its own record of deaths: that one is no part of the event.
        let body = order(&format!("deaths {exchange}")).body;
        raw.publish(exchange, KEY, b"m2", &entry(b"x-death", &nested(10_000)), &body).await;
    }
    publish_orders(&world, "behind").await;
    wait_for_the_end(&world, 9, 3, "bad_field").await;
    every_letter_can_be_read(&world).await;
    let kept = "select count(*) from fis_dead_letter where properties like '%x-fis-note%' and properties not like '%\"deep\"%'";
    assert_eq!(world.count(kept).await, 3, "the other headers are there");
    for run in &mut runs {
        run.terminate().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn properties_that_fill_a_frame_stop_no_lane_even_when_the_broker_adds_to_them() {
    let world = World::new("full_frame").await;
    let mut raw = Raw::open(&world).await;
    for (exchange, queue) in EXCHANGES.into_iter().zip(LANES) {
        let fill =
            |beside: usize| entry(b"cloudEvents:fill", &tagged(b'S', &vec![b'h'; Raw::HEADER_BYTES_MAX - beside]));
        let beside = Raw::header(0, b"full", &fill(Raw::HEADER_BYTES_MAX)).len();
        let body = order(&format!("full {exchange}")).body;
        raw.publish(exchange, KEY, b"full", &fill(beside), &body).await;
        // Once delivered and given back, it comes with a count that does not fit any more.
        raw.give_back(queue).await;
    }
    publish_orders(&world, "behind").await;
    let mut runs = [world.run().await, world.run().await];
    publish_orders(&world, "later").await;
    wait_for_the_end(&world, 6, 3, "too_large").await;
    every_letter_can_be_read(&world).await;
    for run in &mut runs {
        run.terminate().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_lost_the_header_with_its_tenant_is_nobody_elses() {
    let world = World::new("lost_tenant").await;
    let mut run = world.run_with(&[("FIS__INTAKE__DEFAULT_TENANT", "acme")]).await;
    let mut body: serde_json::Value = serde_json::from_slice(&order("whose").body).unwrap();
    let body = body["payload"].take().to_string();
    let mut raw = Raw::open(&world).await;
    // Without its headers it would be an event in the dialect that takes its tenant from the configuration.
    let headers = [
        entry(b"cloudEvents:specversion", &tagged(b'S', b"1.0")),
        entry(b"cloudEvents:id", &tagged(b'S', b"whose")),
        entry(b"cloudEvents:type", &tagged(b'S', KEY)),
        entry(b"cloudEvents:source", &tagged(b'S', b"shop")),
        entry(b"cloudEvents:tenantid", &nested(10_000)),
        entry(b"x-fis-tenant", &nested(10_000)),
    ];
    raw.publish(LIVE, KEY, b"m1", &headers.concat(), body.as_bytes()).await;
    let note =
        [&headers[..4].concat()[..], &entry(b"x-fis-tenant", &tagged(b'S', &vec![b'a'; 131_000 - 200]))].concat();
    raw.publish(LIVE, KEY, b"m2", &note, body.as_bytes()).await;
    wait_until("both are letters of nobody", async || {
        same(world.count("select count(*) from fis_dead_letter where tenant_id is null").await, 2)?;
        same(world.ready_count(DLQ).await, 0)
    })
    .await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 0);
    assert_eq!(world.count("select count(*) from fis_held").await, 0);
    run.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_too_large_for_a_retry_are_refused_and_stop_nothing() {
    let world = World::new("headers").await;
    let mut run = world.run().await;
    let mut large = order("large");
    let mut headers = FieldTable::default();
    headers.insert("x-much".into(), AMQPValue::LongString("h".repeat(60_000).into()));
    large.properties = large.properties.with_headers(headers);
    world.publish(&[large.rejected("too_large"), order("behind")]).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_without_a_routing_key_is_one_letter() {
    let world = World::new("no_key").await;
    let mut run = world.run().await;
    let mut message = order("nameless");
    message.routing_key = String::new();
    message.body = b"{".to_vec();
    world.publish(&[message.rejected("malformed_json")]).await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publishers_own_delivery_count_and_attempts_are_not_believed() {
    let world = World::new("counts").await;
    let mut run = world.run().await;
    let mut message = order("counted");
    let mut headers = FieldTable::default();
    headers.insert("x-delivery-count".into(), AMQPValue::LongLongInt(500));
    headers.insert("x-fis-attempt".into(), AMQPValue::LongLongInt(4_294_967_295));
    message.properties = message.properties.with_headers(headers);
    world.publish(&[message]).await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 1);
    world.invariants().await;
}

/// A detail quotes the event, and the log quotes the detail.
#[tokio::test(flavor = "multi_thread")]
async fn an_events_text_forges_no_line_of_the_log_and_drives_no_terminal() {
    let world = World::new("forged_log").await;
    let text = "9999\n2026-11-18T00:00:00Z ERROR forged\u{202e}\u{2066}\u{9b}2J\u{1b}[31m\u{7f}";
    for format in ["human", "json"] {
        let mut run = world.run_with(&[("FIS__LOG__FORMAT", format)]).await;
        world.publish(&[payment(format, text, "1.50").rejected("unknown_account")]).await;
        let log = wait_until("the rejection is in the log", async || {
            let log = run.log();
            if log.contains("rejected event") { Ok(log) } else { Err(log) }
        })
        .await;
        let is_unfit =
            |c: &char| *c != '\n' && c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        assert_eq!(log.chars().find(is_unfit), None, "{format}: {log}");
        let forged: Vec<&str> = log.lines().filter(|line| line.contains("forged")).collect();
        assert!(matches!(forged.as_slice(), [line] if line.contains("rejected event")), "{format}: {forged:?}");
        if format == "json" {
            let line: serde_json::Value = serde_json::from_str(forged[0]).unwrap();
            assert!(line["message"].as_str().unwrap().contains(text), "to a machine it is the same text");
        }
        world.rest(&mut run).await;
    }
    world.invariants().await;
}

/// RabbitMQ 3.x reads the record of deaths when it adds to it, and its worker dies of what it did not write itself: nothing behind would ever reach the
/// dead-letter queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_deaths_that_is_none_stops_no_dead_letters_behind_it() {
    let world = World::new("odd_deaths").await;
    let mut run = world.run().await;
    let mut raw = Raw::open(&world).await;
    let text = tagged(b'S', b"died");
    let own =
        [entry(b"queue", &tagged(b'S', LANES[0].as_bytes())), entry(b"reason", &tagged(b'S', b"rejected"))].concat();
    let values = [
        text.clone(),
        tagged(b'A', &text),
        tagged(b'A', b"V"),
        tagged(b'A', &tagged(b'F', b"")),
        tagged(b'A', &tagged(b'F', &[&own[..], &entry(b"count", &text)].concat())),
        tagged(b'A', &[tagged(b'F', &own), nested(10_000)].concat()),
        nested(10_000),
    ];
    for (number, value) in values.iter().enumerate() {
        let message = payment(&format!("odd-{number}"), "9999", "1.50");
        raw.publish(LIVE, message.routing_key.as_bytes(), b"m", &entry(b"x-death", value), &message.body).await;
    }
    world.publish(&[payment("behind", "9999", "1.50").rejected("unknown_account")]).await;
    wait_until("all are letters, and the one behind them came by the dead-letter queue", async || {
        same(world.count("select count(*) from fis_dead_letter where reason = 'unknown_account'").await, 8)?;
        let (_, metrics) = run.get("/metrics").await;
        let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<i64>().ok());
        let lines = metrics.lines().filter(|line| line.starts_with("fis_parking_parked_total{"));
        same(lines.filter_map(count).sum(), 1)
    })
    .await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// The broker sorts the headers when it adds a death. Of these two names, which are read as one, another one would be the first then.
#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_not_utf8_make_no_second_letter() {
    let world = World::new("odd_names").await;
    let mut run = world.run().await;
    let mut raw = Raw::open(&world).await;
    let headers = [entry(&[0xfb], &tagged(b'F', &entry(b"x", b"V"))), entry(&[0xa9], &nested(40))].concat();
    let message = payment("odd", "9999", "1.50");
    raw.publish(LIVE, message.routing_key.as_bytes(), b"m", &headers, &message.body).await;
    wait_until("its copy came by the dead-letter queue", async || {
        let (_, metrics) = run.get("/metrics").await;
        let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<i64>().ok());
        let lines = metrics.lines().filter(|line| line.starts_with("fis_parking_parked_total{"));
        same(lines.filter_map(count).sum(), 1)
    })
    .await;
    let reasons: Vec<String> =
        sqlx::query_scalar("select reason from fis_dead_letter").fetch_all(&world.pool).await.unwrap();
    assert_eq!(reasons, ["unknown_account"]);
    world.rest(&mut run).await;
}
