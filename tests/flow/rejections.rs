//! What cannot be booked: it ends in `fis_dead_letter` with its reason and its own bytes, its publisher is told, and the event
//! behind it is posted.

use fis::domain::event::BODY_BYTES_MAX;
use serde_json::{Value, json};
use sqlx::Row;

use crate::support::broker::{DLQ, Reader};
use crate::support::events::{Expect, Message, envelope, order, order_of, payment};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

fn without(mut message: Value, member: &str) -> Message {
    message.as_object_mut().unwrap().remove(member);
    Message::json("ecommerce.order.completed", &message)
}

/// Bodies and the reasons for which they are refused.
fn poison() -> Vec<Message> {
    let mut large = order("large").value();
    large["payload"]["note"] = Value::from("x".repeat(300 * 1024));
    let mut not_utf8 = order("not-utf8").body;
    not_utf8.extend([0xc3, 0x28]);
    let key = "ecommerce.order.completed";
    vec![
        Message::new(key, r#"{"eventId": "broken", "tenantId": "acme", "payload": {"#).rejected("malformed_json"),
        Message::new(key, r#"{"eventId": "twice", "eventId": "twice", "tenantId": "acme", "payload": {}}"#)
            .rejected("malformed_json"),
        Message::new(key, "").rejected("malformed_json"),
        Message::new(key, "[]").rejected("bad_field"),
        Message::new(key, not_utf8).rejected("not_utf8"),
        Message::json(key, &large).rejected("too_large"),
        order_of("nobody", "unknown-tenant", "EUR", "119.00", "19.00").rejected("unknown_tenant"),
        without(order("no-id").value(), "eventId").rejected("missing_field"),
        without(order("no-tenant").value(), "tenantId").rejected("missing_field"),
        without(order("no-payload").value(), "payload").rejected("missing_field"),
        Message::json("warehouse.stock.moved", &envelope("acme", "no-rule", "warehouse.stock.moved", json!({})))
            .rejected("rule_not_found"),
        Message::json(key, &envelope("acme", "no-total", key, json!({"orderId": "1", "currency": "EUR", "tax": "1"})))
            .rejected("rule_failed"),
        payment("unknown-account", "9999", "1.00").rejected("unknown_account"),
        payment("closed-account", "7000", "1.00").rejected("account_closed"),
        payment("negative", "1100", "-1.00").rejected("bad_amount"),
        payment("too-fine", "1100", "1.001").rejected("bad_amount"),
        order_of("acme", "no-currency", "EURO", "119.00", "19.00").rejected("bad_currency"),
        order_of("acme", "not-zero", "EUR", "119.00", "-0.01").rejected("bad_amount"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_booked_is_kept_with_its_reason_and_the_event_behind_it_is_posted() {
    let world = World::new("rejections").await;
    let mut run = world.run().await;
    let poison = poison();
    let mut messages = poison.clone();
    messages.push(order("good"));
    world.publish(&messages).await;
    world.quiet().await;
    let parked = format!("fis_parking_parked_total{{recorded=\"yes\"}} {}", poison.len());
    wait_until("each went through the dead-letter queue", async || {
        let (_, metrics) = run.get("/metrics").await;
        if metrics.lines().any(|line| line == parked) { Ok(()) } else { Err(metrics) }
    })
    .await;
    world.rest(&mut run).await;

    let rows = sqlx::query("select id, routing_key, reason, detail, status, attempts, body from fis_dead_letter")
        .fetch_all(&world.pool)
        .await
        .unwrap();
    assert_eq!(rows.len(), poison.len());
    let feed = world.invariants().await;
    let told = feed.of("fis.event.rejected");
    assert_eq!(told.len(), poison.len());
    for message in &poison {
        let Expect::Rejected(reason) = message.expect else { unreachable!("all of it is poison") };
        // Of a body that no event could have, the beginning is kept.
        let kept = message.body.get(..BODY_BYTES_MAX).unwrap_or(&message.body);
        let row = rows.iter().find(|row| row.get::<Vec<u8>, _>("body") == kept).unwrap();
        let (id, detail): (String, String) = (row.get("id"), row.get("detail"));
        assert_eq!(row.get::<String, _>("reason"), reason, "{detail}");
        assert_eq!(row.get::<String, _>("routing_key"), message.routing_key);
        assert_eq!((row.get::<String, _>("status"), row.get::<i32, _>("attempts")), ("parked".to_owned(), 1));
        assert!(!detail.is_empty(), "{reason} explains itself");
        let data = told.iter().map(|told| told.data()).find(|data| data["deadLetterId"] == id).unwrap();
        assert_eq!((data["reason"].as_str(), data["detail"].as_str()), (Some(reason), Some(detail.as_str())));
        let sent: Value = serde_json::from_slice(&message.body).unwrap_or_default();
        let unreadable = ["malformed_json", "not_utf8", "too_large"].contains(&reason);
        if !unreadable && sent["eventId"].is_string() {
            assert_eq!(data["eventId"], sent["eventId"]);
        }
    }
    assert_eq!(world.ready_count(DLQ).await, 0, "the dead-letter queue is a transfer point, not a store");
    assert_eq!(world.count("select count(*) from fis_journal_entry where event_id = 'good'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_poison_twice_is_one_dead_letter_with_two_attempts() {
    let world = World::new("same_poison").await;
    let mut run = world.run().await;
    let bad = payment("bad", "9999", "1.00").rejected("unknown_account");
    world.publish(std::slice::from_ref(&bad)).await;
    world.quiet().await;
    world.publish(&[bad]).await;
    wait_until("the second attempt", async || {
        let attempts = world.count("select coalesce(max(attempts), 0)::bigint from fis_dead_letter").await;
        same(attempts, 2)
    })
    .await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 1);
    world.invariants().await;
}

/// A rejection is not a journal entry: the sequence has no gap where one was refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_takes_no_place_in_the_sequence() {
    let world = World::new("no_gap").await;
    let mut run = world.run().await;
    let messages =
        [order("first"), payment("bad", "9999", "1.00").rejected("unknown_account"), order("second"), order("third")];
    world.publish(&messages).await;
    world.rest(&mut run).await;
    let feed: Reader = world.invariants().await;
    let sequence: Vec<i64> =
        feed.of("fis.journal.posted").iter().map(|event| event.data()["sequence"].as_i64().unwrap()).collect();
    assert_eq!(sequence, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_is_told_once_per_rejection() {
    let world = World::new("told_once").await;
    let mut run = world.run().await;
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let bad = payment("bad", "9999", "1.00").rejected("unknown_account").header("traceparent", traceparent);
    world.publish(std::slice::from_ref(&bad)).await;
    world.rest(&mut run).await;
    let feed = world.invariants().await;
    let [told] = feed.of("fis.event.rejected")[..] else { panic!("{:?}", feed.messages) };
    let (event, data) = (told.json(), told.data());
    assert_eq!((&data["tenantId"], &data["eventId"]), (&json!("acme"), &json!("bad")));
    assert_eq!((&data["reason"], &event["subject"]), (&json!("unknown_account"), &data["deadLetterId"]));
    assert_eq!((&data["eventType"], &data["routingKey"]), (&json!(bad.routing_key), &json!(bad.routing_key)));
    assert_eq!(data["messageId"], Value::Null, "it has none");
    assert!(data["detail"].as_str().is_some_and(|detail| detail.contains("9999")), "{data}");
    assert_eq!(event["id"], told.message_id());
    let text = |name: &str| told.header(name).and_then(|value| value.as_long_string().map(ToString::to_string));
    assert_eq!((text("traceparent").as_deref(), text("x-fis-tenant").as_deref()), (Some(traceparent), Some("acme")));
    assert_eq!(told.properties.correlation_id().as_ref().map(|id| id.as_str()), Some("corr-bad"));

    // Rejected once more, it is told once more, as another message.
    let mut run = world.run().await;
    world.publish(&[bad]).await;
    let mut finance = world.finance().await;
    finance.read(2).await;
    world.rest(&mut run).await;
    finance.drain().await;
    let ids: Vec<String> = finance.of("fis.event.rejected").iter().map(|told| told.message_id()).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
}

/// What the broker gives up by itself never met the pipeline; its publisher is told all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_is_told_what_the_broker_gave_up() {
    let world = World::new("told_by_broker").await;
    let body = json!({"durable": true, "arguments": {
        "x-message-ttl": 1, "x-dead-letter-exchange": "fis.dlx.exchange", "x-dead-letter-routing-key": "fis.ingestion.dlq",
    }});
    world.management.put_json(&world.management.object_path("queues", "short.queue"), &body).await.unwrap();
    world.bind("fis.events.exchange", "short.queue", "gone.#").await;
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let envelope = envelope("acme", "given-up", "gone.order.completed", json!({}));
    let lost = Message::json("gone.order.completed", &envelope).header("traceparent", traceparent);
    // Its copy in the live lane has no rule, and is rejected before or after: one letter, two rejections.
    world.publish(&[lost]).await;
    let mut run = world.run().await;
    let mut finance = world.finance().await;
    let mut told: Vec<Value> = finance.read(2).await.iter().map(|told| told.data()).collect();
    world.rest(&mut run).await;
    told.sort_by_key(|data| data["reason"].to_string());
    let reasons: Vec<&Value> = told.iter().map(|data| &data["reason"]).collect();
    assert_eq!(reasons, ["delivery_limit", "rule_not_found"]);
    assert_eq!((&told[0]["eventId"], &told[0]["tenantId"]), (&json!("given-up"), &json!("acme")));
    assert_eq!(told[0]["deadLetterId"], told[1]["deadLetterId"]);
    for message in &finance.messages {
        assert!(message.header("traceparent").is_some());
    }
    world.invariants().await;
}

/// A body that nobody can read has no event id; its publisher finds its message all the same, also in its tenant's part of the feed.
#[tokio::test(flavor = "multi_thread")]
async fn the_publisher_of_a_broken_body_is_told_which_message_it_was() {
    let world = World::new("told_broken").await;
    world.declare_queue("acme.rejections", "fis.domain.exchange", "fis.event.rejected.acme").await;
    let mut run = world.run_with(&[("FIS__OUTBOX__TENANT_KEYS", "true")]).await;
    let broken = |id: &str, tenant: &str| {
        let mut broken = Message::new("ecommerce.order.completed", format!("{{{id}")).rejected("malformed_json");
        broken.properties = broken.properties.with_message_id(id.into());
        broken.header("x-fis-tenant", tenant)
    };
    let cloud = Message::new("shop.any.key", "{ce")
        .rejected("malformed_json")
        .header("cloudEvents:specversion", "1.0")
        .header("cloudEvents:id", "ce-1")
        .header("cloudEvents:type", "ecommerce.order.completed")
        .header("cloudEvents:tenantid", "acme");
    world.publish(&[broken("shop-17", "acme"), broken("shop-18", "globex"), cloud]).await;
    world.rest(&mut run).await;
    let mut own = world.reader("acme.rejections").await;
    own.drain().await;
    let told: Vec<Value> = own.messages.iter().map(|told| told.data()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    let data = told.iter().find(|data| data["messageId"] == "shop-17").unwrap();
    assert_eq!((&data["tenantId"], &data["eventId"]), (&json!("acme"), &Value::Null));
    let names = json!("ecommerce.order.completed");
    assert_eq!((&data["eventType"], &data["routingKey"]), (&names, &names));
    let data = told.iter().find(|data| data["eventId"] == "ce-1").unwrap();
    assert_eq!((&data["eventType"], &data["routingKey"]), (&names, &json!("shop.any.key")));
    assert_eq!(data["messageId"], Value::Null);
    world.invariants().await;
}
