//! Stored messages whose properties were damaged behind the service's back. In the properties of a binary CloudEvent stands whose event it is, and
//! which: read without them, its body would be another event of whoever is configured.

use serde_json::json;

use super::{ENTRIES, RESOLVED, bad, mended, park, text};
use crate::support::events::Message;
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

const DAMAGE: &str = r#"{"headers": {"cloudEvents:tenantid": "#;

/// A binary CloudEvent of acme.
fn cloud_event(id: &str, event_type: &str, payload: &serde_json::Value) -> Message {
    let attributes = [
        ("specversion", "1.0"),
        ("id", id),
        ("type", event_type),
        ("source", "/shop"),
        ("tenantid", "acme"),
        ("time", "2026-02-25T10:00:00Z"),
    ];
    let message = Message::json(event_type, payload);
    attributes.iter().fold(message, |message, (name, value)| message.header(&format!("cloudEvents:{name}"), value))
}

/// A world in which an event without a tenant belongs to globex, whose books take everything that those of acme refuse.
async fn world(name: &str) -> World {
    let world = World::with(name, Setup { tenants: &["acme"], ..Setup::default() }).await;
    world.apply_books(&mended().replacen("tenant = \"acme\"", "tenant = \"globex\"", 1)).await;
    world
}

const DEFAULT_TENANT: (&str, &str) = ("FIS__INTAKE__DEFAULT_TENANT", "globex");

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_whose_properties_cannot_be_read_fails_alone_and_is_booked_for_nobody_else() {
    let world = world("damaged_letter").await;
    let mut run = world.run_with(&[DEFAULT_TENANT]).await;
    let payload = json!({"account": "9999", "currency": "EUR", "amount": "1.50"});
    let damaged = cloud_event("whose", "billing.invoice.paid", &payload);
    park(&world, &bad("before", 1)).await;
    park(&world, std::slice::from_ref(&damaged)).await;
    park(&world, &bad("behind", 1)).await;
    world.apply_books(&mended()).await;
    let stored = text(&world, "select properties from fis_dead_letter where event_id = 'whose'").await;
    let damage = "update fis_dead_letter set properties = $1 where event_id = 'whose'";
    sqlx::query(damage).bind(DAMAGE).execute(&world.pool).await.unwrap();

    let id = text(&world, "select id from fis_dead_letter where event_id = 'whose'").await;
    let words =
        ["3 dead letters", "2  would post", "1  would fail again", "bad_field", "its stored properties cannot be read"];
    world.fis_with(&["dlq", "replay", "--all", "--dry-run"], &[DEFAULT_TENANT]).await.expect(1, &words);
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(1, &["2 of 3 dead letters resolved"]);
    assert_eq!(world.count("select count(*) from fis_journal_entry where tenant_id = 'globex'").await, 0);
    assert_eq!((world.count(ENTRIES).await, world.count(RESOLVED).await), (2, 2));
    let letter = "select concat_ws(' ', tenant_id, event_id, amount, currency, reason, status, properties) from fis_dead_letter where status = 'parked'";
    assert_eq!(text(&world, letter).await, format!("acme whose 1.50 EUR bad_field parked {DAMAGE}"));
    world.fis(&["dlq", "show", &id]).await.expect(0, &["its stored properties cannot be read", "cloudEvents:tenantid"]);
    let shown = world.fis(&["dlq", "show", &id, "--json"]).await.expect(0, &[]).json();
    assert_eq!(shown["properties"], json!(DAMAGE));
    world
        .fis(&["dlq", "edit", &id, "--set", "/amount=2.50", "--why", "trial", "--yes"])
        .await
        .expect(1, &["its stored properties"]);

    // It lacks nothing but its properties.
    let mend = "update fis_dead_letter set properties = $1 where event_id = 'whose'";
    sqlx::query(mend).bind(stored).execute(&world.pool).await.unwrap();
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(0, &["1 of 1 dead letter resolved"]);
    assert_eq!(world.count("select count(*) from fis_journal_entry where tenant_id = 'acme'").await, 3);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_event_whose_properties_cannot_be_read_becomes_a_letter_of_its_tenant() {
    let world = world("damaged_hold").await;
    let mut run = world.run_with(&[DEFAULT_TENANT]).await;
    let refund = json!({"orderEventId": "never", "currency": "EUR", "total": "119.00"});
    world.publish(&[cloud_event("refund", "ecommerce.order.refunded", &refund)]).await;
    wait_until("it is held", async || same(world.count("select count(*) from fis_held where amount = 119").await, 1))
        .await;
    world.published.lock().unwrap().clear();
    sqlx::query("update fis_held set properties = $1").bind(DAMAGE).execute(&world.pool).await.unwrap();
    world.fis(&["held", "release", "--tenant", "acme", "refund"]).await.expect(0, &[]);
    wait_until("it is a letter", async || same(world.count("select count(*) from fis_dead_letter").await, 1)).await;
    assert_eq!(world.count("select count(*) from fis_held").await, 0);
    let letter = "select concat_ws(' ', tenant_id, event_id, amount, currency, reason, detail) from fis_dead_letter";
    let said = text(&world, letter).await;
    assert!(said.starts_with("acme refund 119.00 EUR bad_field its stored properties cannot be read"), "{said}");
    let id = text(&world, "select id from fis_dead_letter").await;
    // What stood in the row is in the letter.
    world.fis(&["dlq", "show", &id]).await.expect(0, &["x-fis-damaged-properties", "cloudEvents:tenantid"]);
    world.fis(&["receipt", "--tenant", "acme", "refund"]).await.expect(1, &["bad_field"]);
    // Sent again, it is what it was.
    world.publish(&[cloud_event("refund", "ecommerce.order.refunded", &refund)]).await;
    wait_until("it is held again", async || same(world.count("select count(*) from fis_held").await, 1)).await;
    world.published.lock().unwrap().clear();
    world.rest(&mut run).await;
    world.invariants().await;
}
