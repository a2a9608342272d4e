//! The five ways of writing an event down, the three ways of naming its tenant, and every road into the queue.

use serde_json::{Value, json};

use crate::support::events::{BACKFILL, Expect, Message, URGENT, envelope, order};
use crate::support::world::World;

const KEY: &str = "ecommerce.order.completed";

fn payload(order: &str) -> Value {
    json!({"orderId": order, "currency": "EUR", "total": "119.00", "tax": "19.00"})
}

fn posted(message: Message) -> Message {
    message.expect(Expect::Posted)
}

/// Event id, type, correlation id and accounting date of everything posted.
async fn entries(world: &World) -> Vec<String> {
    sqlx::query_scalar(
        "select concat_ws(' ', tenant_id, event_id, event_type, coalesce(correlation_id, '-'), accounting_date)
           from fis_journal_entry order by event_id",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_dialect_is_understood() {
    let world = World::new("dialects").await;
    let snake = json!({
        "event_id": "2-snake", "tenant_id": "acme", "timestamp": "2026-02-25T10:00:00Z", "correlation_id": "c2",
        "payload": payload("2"),
    });
    let job = |id: &str, action: &str, key: Option<&str>| {
        json!({
            "id": id, "action": action, "correlation_id": "c3", "idempotency_key": key, "tenant_id": "acme",
            "created_at": "2026-02-25T10:00:00Z", "attempts": 0, "max_attempts": 3, "payload": payload("3"),
        })
    };
    let cloud = json!({
        "specversion": "1.0", "id": "4-structured", "source": "/shop", "type": KEY, "time": "2026-02-25T10:00:00Z",
        "tenantid": "acme", "correlationid": "c4", "data": payload("4"),
    });
    let mut structured = Message::json("shop", &cloud);
    structured.properties = structured.properties.with_content_type("application/cloudevents+json".into());
    let binary = |prefix: &str, id: &str| {
        let attributes =
            [("specversion", "1.0"), ("id", id), ("type", KEY), ("tenantid", "acme"), ("time", "2026-02-25T10:00:00Z")];
        let message = Message::json("shop", &payload("4"));
        attributes.iter().fold(message, |message, (name, value)| message.header(&format!("{prefix}{name}"), value))
    };
    let messages = [
        Message::json(KEY, &envelope("acme", "1-canonical", KEY, payload("1"))),
        Message::json(KEY, &snake),
        Message::json("jobs", &job("a-job", KEY, Some("3-key"))),
        Message::json("jobs", &job("3-own-id", KEY, None)),
        // One word is no event type; the routing key says more.
        Message::json(KEY, &job("3-short-action", "create", None)),
        structured,
        binary("cloudEvents:", "4-binary"),
        binary("cloudEvents_", "4-underscore"),
        Message::json(KEY, &payload("5")).header("x-fis-tenant", "acme"),
    ];
    let mut run = world.run().await;
    world.publish(&messages.map(posted)).await;
    world.rest(&mut run).await;
    let raw = format!("sha256:{}", hex::encode(<sha2::Sha256 as sha2::Digest>::digest(payload("5").to_string())));
    // Without a time of its own an event is dated on the day it was received, in the tenant's zone.
    let today = chrono::Utc::now().with_timezone(&chrono_tz::Europe::Berlin).date_naive();
    assert_eq!(
        entries(&world).await,
        [
            format!("acme 1-canonical {KEY} corr-1-canonical 2026-02-25"),
            format!("acme 2-snake {KEY} c2 2026-02-25"),
            format!("acme 3-key {KEY} c3 2026-02-25"),
            format!("acme 3-own-id {KEY} c3 2026-02-25"),
            format!("acme 3-short-action {KEY} c3 2026-02-25"),
            format!("acme 4-binary {KEY} - 2026-02-25"),
            format!("acme 4-structured {KEY} c4 2026-02-25"),
            format!("acme 4-underscore {KEY} - 2026-02-25"),
            format!("acme {raw} {KEY} - {today}"),
        ]
    );
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tenant_comes_from_the_body_else_the_header_else_the_configuration() {
    let setup = crate::support::world::Setup { tenants: &["acme", "globex"], ..Default::default() };
    let world = World::with("tenants", setup).await;
    let mut run = world.run_with(&[("FIS__INTAKE__DEFAULT_TENANT", "acme")]).await;
    let snake = |id: &str, tenant: Option<&str>| {
        let body =
            json!({"event_id": id, "tenant_id": tenant, "timestamp": "2026-02-25T10:00:00Z", "payload": payload(id)});
        posted(Message::json(KEY, &body))
    };
    let mut canonical = envelope("acme", "canonical", KEY, payload("c"));
    canonical.as_object_mut().unwrap().remove("tenantId");
    world
        .publish(&[
            snake("body", Some("globex")).header("x-fis-tenant", "acme"),
            snake("header", None).header("x-fis-tenant", "globex"),
            snake("configured", None),
            // The canonical form names its tenant itself.
            Message::json(KEY, &canonical).header("x-fis-tenant", "acme").rejected("missing_field"),
        ])
        .await;
    world.rest(&mut run).await;
    let tenants: Vec<String> =
        sqlx::query_scalar("select event_id || ' ' || tenant_id from fis_journal_entry order by event_id")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    assert_eq!(tenants, ["body globex", "configured acme", "header globex"]);
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_routing_key_of_any_word_count_and_every_lane_arrives() {
    let world = World::new("keys_and_lanes").await;
    let mut run = world.run().await;
    let short = |key: &str| {
        let mut body = envelope("acme", key, key, json!({"amount": "5.00"}));
        body.as_object_mut().unwrap().remove("eventType");
        posted(Message::json(key, &body))
    };
    world
        .publish(&[
            short("short"),
            short("short.two"),
            short("short.of.three"),
            short("short.of.four.words"),
            order("urgent").on(URGENT),
            order("live"),
            order("backfill").on(BACKFILL),
        ])
        .await;
    world.rest(&mut run).await;
    let lanes: Vec<String> =
        sqlx::query_scalar("select event_id || ' ' || lane from fis_journal_entry order by event_id")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    assert_eq!(
        lanes,
        [
            "backfill backfill",
            "live live",
            "short live",
            "short.of.four.words live",
            "short.of.three live",
            "short.two live",
            "urgent urgent"
        ]
    );
    world.invariants().await;
}

/// Amounts are exact on their whole way: no binary float, no lost zero, no lost digit.
#[tokio::test(flavor = "multi_thread")]
async fn amounts_are_exact_whether_written_as_numbers_or_as_strings() {
    let world = World::new("exact").await;
    let mut run = world.run().await;
    let body = |id: &str, total: &str| {
        let text = format!(
            r#"{{"eventId":"{id}","tenantId":"acme","occurredAt":"2026-02-25T10:00:00Z","payload":{{"orderId":"1","currency":"EUR","total":{total},"tax":0}}}}"#
        );
        posted(Message::new(KEY, text))
    };
    world
        .publish(&[
            body("a", "0.1"),
            body("b", "0.2"),
            body("c", "\"90071992547409.93\""),
            body("d", "90071992547409.91"),
            body("e", "1.10e1"),
        ])
        .await;
    world.rest(&mut run).await;
    let total: String =
        sqlx::query_scalar("select trim_scale(debit)::text from fis_account_balance where account_code = '1100'")
            .fetch_one(&world.pool)
            .await
            .unwrap();
    assert_eq!(total, "180143985094831.14");
    world.invariants().await;
}
