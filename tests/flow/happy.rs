//! One order, from its publisher to the finance team.

use deadpool_redis::redis;
use lapin::types::AMQPValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::events::order;
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_published_order_arrives_at_the_finance_team_and_every_store_agrees() {
    let world = World::new("one_order").await;
    let mut run = world.run().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut message = order("evt_987654321").header("traceparent", trace);
    message.properties = message.properties.with_message_id("publisher-1".into());
    world.publish(&[message]).await;

    let mut finance = world.finance().await;
    let event = finance.read(1).await[0].clone();
    assert_eq!(event.routing_key, "fis.journal.posted");
    let properties = &event.properties;
    assert_eq!(properties.content_type().as_ref().unwrap().as_str(), "application/cloudevents+json");
    assert_eq!(properties.delivery_mode(), &Some(2), "persistent");
    assert_eq!(properties.correlation_id().as_ref().unwrap().as_str(), "corr-evt_987654321");
    assert_eq!(properties.kind().as_ref().unwrap().as_str(), "fis.journal.posted");
    assert!(properties.timestamp().is_some());
    assert_eq!(event.header("x-fis-tenant"), Some(AMQPValue::LongString("acme".into())));
    assert_eq!(event.header("x-fis-sequence"), Some(AMQPValue::LongLongInt(1)));
    assert_eq!(event.header("traceparent"), Some(AMQPValue::LongString(trace.into())));

    let body = event.json();
    assert_eq!(body["specversion"], "1.0");
    assert_eq!(body["type"], "fis.journal.posted");
    assert_eq!(body["id"], Value::from(event.message_id()), "the message id is the event's");
    for member in ["source", "time", "subject", "datacontenttype"] {
        assert!(body[member].is_string(), "{member} in {body}");
    }
    // The canonical form, written by hand, so that a change of it is noticed here.
    let form = r#"{"eventType":"ecommerce.order.completed","payload":{"currency":"EUR","orderId":"evt_987654321","tax":"19.00","total":"119.00"},"tenantId":"acme"}"#;
    let payload_hash = format!("sha256:{}", hex::encode(Sha256::digest(form)));
    let data = &body["data"];
    let hash = data["hash"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    let line = |account: &str, side: &str, amount: &str| json!({"account": account, "side": side, "amount": amount, "currency": "EUR", "baseAmount": amount});
    assert_eq!(
        *data,
        json!({
            "tenantId": "acme", "entryId": "acme/1", "sequence": 1, "eventId": "evt_987654321",
            "eventType": "ecommerce.order.completed", "payloadHash": payload_hash,
            "accountingDate": "2026-02-25", "description": "Order evt_987654321",
            "lines": [line("1100", "debit", "119.00"), line("4000", "credit", "100.00"), line("2200", "credit", "19.00")],
            "rule": "order-completed", "ruleVersion": 1, "previousHash": "0".repeat(64), "hash": hash,
        })
    );

    world.rest(&mut run).await;
    check_key(&world, &payload_hash).await;
    check_tables(&world, &payload_hash, hash).await;
    world.invariants().await;
}

async fn check_key(world: &World, payload_hash: &str) {
    let mut redis = world.redis().await;
    let key = "fis:ik:acme:evt_987654321";
    let value: String = redis::cmd("GET").arg(key).query_async(&mut redis).await.unwrap();
    let value: Value = serde_json::from_str(&value).unwrap();
    assert_eq!(value["status"], "COMPLETED");
    assert_eq!(value["payloadHash"], payload_hash);
    assert_eq!(value["responseBody"]["entryId"], "acme/1");
    assert!(value["createdAt"].is_string());
    let seconds: u64 = redis::cmd("TTL").arg(key).query_async(&mut redis).await.unwrap();
    assert!((71 * 3600..=72 * 3600).contains(&seconds), "{seconds} s");
}

async fn check_tables(world: &World, payload_hash: &str, hash: &str) {
    let row: Value = sqlx::query_scalar::<_, String>(
        "select to_json(e)::text from (
             select tenant_id, seq, entry_id, event_id, event_type, payload_hash, accounting_date, description, rule_name,
                    rule_version, reverses_entry_id, previous_hash, hash, posted_at > now() - interval '1 minute' as fresh
               from fis_journal_entry) e",
    )
    .fetch_one(&world.pool)
    .await
    .map(|text| serde_json::from_str(&text).unwrap())
    .unwrap();
    assert_eq!(
        row,
        json!({
            "tenant_id": "acme", "seq": 1, "entry_id": "acme/1", "event_id": "evt_987654321",
            "event_type": "ecommerce.order.completed", "payload_hash": payload_hash, "accounting_date": "2026-02-25",
            "description": "Order evt_987654321", "rule_name": "order-completed", "rule_version": 1,
            "reverses_entry_id": null, "previous_hash": "0".repeat(64), "hash": hash, "fresh": true,
        })
    );
    let lines: Vec<String> = sqlx::query_scalar(
        "select concat_ws(' ', tenant_id, seq, line_no, account_code, side, amount, currency, base_amount)
           from fis_journal_line order by line_no",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap();
    assert_eq!(
        lines,
        [
            "acme 1 1 1100 debit 119.00 EUR 119.00",
            "acme 1 2 4000 credit 100.00 EUR 100.00",
            "acme 1 3 2200 credit 19.00 EUR 19.00"
        ]
    );
    let balances: Vec<String> = sqlx::query_scalar(
        "select concat_ws(' ', tenant_id, account_code, currency, debit, credit) from fis_account_balance order by account_code",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap();
    assert_eq!(balances, ["acme 1100 EUR 119.00 0", "acme 2200 EUR 0 19.00", "acme 4000 EUR 0 100.00"]);
    let log: Vec<String> = sqlx::query_scalar(
        "select concat_ws(' ', queue, message_id, correlation_id, idempotency_key, action, status, attempts,
                          coalesce(last_error, '-'), coalesce(next_retry_at::text, '-'), created_at is not null, updated_at is not null)
           from fis_job_log",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap();
    assert_eq!(
        log,
        ["fis.ingestion.queue publisher-1 corr-evt_987654321 evt_987654321 ecommerce.order.completed posted 1 - - t t"]
    );
}
