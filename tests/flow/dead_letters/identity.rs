//! Which letter a message is: the same event is one letter, another event another one, whoever writes it down and whatever its publisher
//! pretends.

use serde_json::{Value, json};

use super::{OPEN, PARKED, park, text};
use crate::support::broker::DLQ;
use crate::support::events::{LIVE, Message, books, payment};
use crate::support::raw::Raw;
use crate::support::tree::{entry, nested, tagged};
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
    world.fis(&["receipt", "--tenant", "acme", "ce-7"]).await.expect(1, &["rule_not_found"]);
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

/// RabbitMQ 3.x finds its own queue and reason in what a publisher wrote, and keeps the routing key that stands there; of two records it writes the first
/// and lapin reads the last; and over some records its dead-lettering dies, for all queues and for good. So fis never has it touch one.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_message_that_brings_a_record_of_deaths_is_one_letter_and_never_dead_lettered() {
    let world = World::new("forged_deaths").await;
    let mut run = world.run().await;
    let mut raw = Raw::open(&world).await;
    let death = |reason: &[u8], key: &[u8]| {
        let fields = [
            entry(b"count", &[&b"l"[..], &1u64.to_be_bytes()].concat()),
            entry(b"reason", &tagged(b'S', reason)),
            entry(b"queue", &tagged(b'S', b"fis.ingestion.queue")),
            entry(b"exchange", &tagged(b'S', b"fis.events.exchange")),
            entry(b"routing-keys", &tagged(b'A', &tagged(b'S', key))),
        ];
        entry(b"x-death", &tagged(b'A', &tagged(b'F', &fields.concat())))
    };
    let (one, other) = (death(b"rejected", b"another.key"), death(b"expired", b"a.third"));
    let deep = tagged(b'F', &entry(b"deep", &nested(100)));
    let forged = [
        one.clone(),
        [&other[..], &one].concat(),
        [&one[..], &other].concat(),
        [&entry(b"x-death", b"V")[..], &other].concat(),
        entry(b"x-death", &tagged(b'A', &deep)),
        entry(b"x-death", &deep),
    ];
    for (number, headers) in forged.iter().enumerate() {
        raw.publish(LIVE, b"a.b.c", b"m", headers, format!("{{{number}").as_bytes()).await;
    }
    let mut untyped = payment("untyped", "9999", "7.00").value();
    untyped.as_object_mut().unwrap().remove("eventType");
    // The type of the second one is its routing key: under the forged one it would be another event.
    let events = [payment("typed", "9999", "1.50").body, untyped.to_string().into_bytes()];
    for body in events {
        raw.publish(LIVE, b"billing.invoice.paid", b"m", &one, &body).await;
    }
    // The broker dead-letters in order: with this one all others would have come to the parking.
    raw.publish(LIVE, b"a.b.c", b"m", b"", b"{last").await;
    let parked = async || {
        let (_, metrics) = run.get("/metrics").await;
        let sum = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<i64>().ok());
        let lines = metrics.lines().filter(|line| line.starts_with("fis_parking_parked_total{"));
        lines.filter_map(sum).sum::<i64>()
    };
    wait_until(
        "parking has met the last one",
        async || if parked().await > 0 { Ok(()) } else { Err("none".to_owned()) },
    )
    .await;
    assert_eq!(parked().await, 1);
    let letters = "select string_agg(concat_ws(' ', reason, routing_key, amount, letters), ', ' order by reason, routing_key, amount)
                     from (select reason, routing_key, amount, count(*) as letters from fis_dead_letter group by 1, 2, 3) l";
    let expected = "malformed_json a.b.c 7, unknown_account billing.invoice.paid 1.50 1, unknown_account billing.invoice.paid 7.00 1";
    assert_eq!(text(&world, letters).await, expected);
    world.rest(&mut run).await;
    let feed = world.invariants().await;
    assert_eq!(feed.of("fis.event.rejected").len(), 9, "each rejection is told once");
}
