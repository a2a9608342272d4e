//! Which letter a message is: the same event is one letter, another event another one, whoever writes it down and whatever its publisher
//! pretends.

use lapin::types::{AMQPValue, FieldArray, FieldTable};
use serde_json::{Value, json};

use super::{OPEN, PARKED, park, text};
use crate::support::broker::DLQ;
use crate::support::events::{Message, books, payment};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const KEY: &str = "shop.voucher.sold";

/// The books with a rule for vouchers.
fn with_vouchers() -> String {
    books("acme")
        + r#"
[[rules]]
name = "voucher-sold"
on = "shop.voucher.sold"
currency = "payload.currency"
description = "Voucher"
lines = [{ debit = "1000", amount = "payload.amount" }, { credit = "4000", amount = "payload.amount" }]
"#
}

/// Tenant, event, reason, money, attempts and state of every letter.
async fn letters(world: &World) -> Vec<String> {
    sqlx::query_scalar(
        "select concat_ws(' ', coalesce(tenant_id, '-'), split_part(event_id, ':', 1), reason, coalesce(amount || ' ' || currency, '-'),
                          attempts, status)
           from fis_dead_letter order by reason",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap()
}

/// Events and money of the day by outcome, as `fis tie-out` tells them; it must add up.
async fn tied_out(world: &World) -> Value {
    let day = text(world, "select min(received_on)::text from fis_received").await;
    let said = world.fis(&["tie-out", "--tenant", "acme", "--date", &day, "--json"]).await;
    said.expect(0, &[]).json()["outcomes"].take()
}

/// A structured CloudEvent without `specversion` is one by its content type alone. Its publisher forgets that, hears of it, and sends the
/// same bytes again.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_with_another_content_type_are_another_event_and_another_letter() {
    let world = World::new("content_type").await;
    let mut run = world.run().await;
    let body = json!({
        "id": "ce-7", "source": "/shop", "type": KEY, "time": "2026-02-25T10:00:00Z", "tenantid": "acme",
        "data": {"currency": "EUR", "amount": "9000.00"},
    });
    let forgotten = Message::json(KEY, &body);
    let mut typed = forgotten.clone();
    typed.properties = typed.properties.with_content_type("application/cloudevents+json".into());
    let mut spelled = forgotten.clone();
    spelled.properties = spelled.properties.with_content_type("application/cloudevents+json; charset=utf-8".into());
    park(&world, &[forgotten]).await;
    park(&world, &[typed]).await;
    world.publish(&[spelled]).await;
    wait_until("the other spelling is one more attempt, and parking has made no letter of its own", async || {
        same(world.count("select sum(attempts)::bigint from fis_dead_letter").await, 3)?;
        same(world.ready_count(DLQ).await, 0)
    })
    .await;
    let nobody = "- sha256 missing_field - 1 parked";
    assert_eq!(letters(&world).await, [nobody, "acme ce-7 rule_not_found 9000.00 EUR 2 parked"]);
    world.fis(&["receipt", "--tenant", "acme", "ce-7"]).await.expect(0, &["rule_not_found"]);
    let sums = tied_out(&world).await;
    assert_eq!(sums["parked"], json!({"events": 1, "money": {"EUR": "9000.00"}}));

    world.apply_books(&with_vouchers()).await;
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(1, &["1 of 2 dead letters resolved"]);
    let posted = "acme ce-7 rule_not_found 9000.00 EUR 2 resolved";
    assert_eq!(letters(&world).await, [nobody.replace(" 1 ", " 2 ").as_str(), posted]);
    world.fis(&["receipt", "--tenant", "acme", "ce-7"]).await.expect(0, &["posted as acme/1"]);
    let sums = tied_out(&world).await;
    assert_eq!((&sums["posted"]["events"], &sums["parked"]["events"]), (&json!(1), &json!(0)));
    assert_eq!(sums["posted"]["money"], json!({"EUR": "9000.00"}));
    world.published.lock().unwrap().clear();
    world.rest(&mut run).await;
    assert_eq!(world.count(OPEN).await, world.count(PARKED).await);
    world.invariants().await;
}

/// RabbitMQ 3.x finds its own queue and reason in what a publisher wrote, and keeps the routing key that stands there.
#[tokio::test(flavor = "multi_thread")]
async fn a_death_that_its_publisher_wrote_himself_makes_no_second_letter() {
    let world = World::new("forged_death").await;
    let mut run = world.run().await;
    let text_of = |text: &str| AMQPValue::LongString(text.into());
    let mut death = FieldTable::default();
    death.insert("queue".into(), text_of("fis.ingestion.queue"));
    death.insert("reason".into(), text_of("rejected"));
    death.insert("exchange".into(), text_of("fis.events.exchange"));
    death.insert("count".into(), AMQPValue::LongLongInt(1));
    death.insert("routing-keys".into(), AMQPValue::FieldArray(FieldArray::from(vec![text_of("another.routing.key")])));
    let forged = |message: Message| {
        let mut headers = message.properties.headers().clone().unwrap_or_default();
        headers.insert(
            "x-death".into(),
            AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::FieldTable(death.clone())])),
        );
        Message { properties: message.properties.with_headers(headers), ..message }
    };
    let mut untyped = payment("untyped", "9999", "7.00").value();
    untyped.as_object_mut().unwrap().remove("eventType");
    // The type of the second one is its routing key: under the forged one it would be another event.
    let messages = [payment("typed", "9999", "1.50"), Message::json("billing.invoice.paid", &untyped)];
    world.publish(&messages.map(|message| forged(message).rejected("unknown_account"))).await;
    world.rest(&mut run).await;
    let keys = "select string_agg(concat_ws(' ', event_id, routing_key, amount, attempts), ', ' order by event_id) from fis_dead_letter";
    let expected = "typed billing.invoice.paid 1.50 1, untyped billing.invoice.paid 7.00 1";
    assert_eq!(text(&world, keys).await, expected);
    let feed = world.invariants().await;
    assert_eq!(feed.of("fis.event.rejected").len(), 2, "each rejection is told once");
}
