//! `fis receipt`: what became of one event.

use serde_json::{Value, json};

use crate::support::events::{Message, cart, order, order_of, refund_of};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_tells_what_became_of_an_event() {
    let world = World::new("receipt").await;
    let mut run = world.run().await;
    let mut other: Value = order("sale").value();
    other["payload"]["total"] = json!("77.77");
    let conflict = Message::json("ecommerce.order.completed", &other).rejected("idempotency_conflict");
    world.publish(&[order("sale"), refund_of("acme", "held", "never"), cart("acme", "cart")]).await;
    world.quiet().await;
    world
        .publish(&[order("sale"), conflict, order_of("acme", "bad", "EUR", "1.001", "0").rejected("bad_amount")])
        .await;
    world.rest(&mut run).await;

    let ask = async |event: &str, code: i32| {
        world.fis(&["receipt", "--tenant", "acme", event, "--json"]).await.expect(code, &[]).json()
    };
    let entry: (String, String) =
        sqlx::query_as("select entry_id, hash from fis_journal_entry").fetch_one(&world.pool).await.unwrap();
    let posted = ask("sale", 0).await;
    assert_eq!(posted["status"], json!("posted"));
    let told = ["entryId", "hash", "sequence", "accountingDate", "announced"].map(|name| posted["entry"][name].clone());
    assert_eq!(told, [json!(entry.0), json!(entry.1), json!(1), json!("2026-02-25"), json!(true)]);
    assert_eq!(posted["deadLetters"][0]["reason"], json!("idempotency_conflict"));
    let words = ["posted as acme/1", &entry.1, "duplicate", "another message with this id was rejected"];
    world.fis(&["receipt", "--tenant", "acme", "sale"]).await.expect(0, &words);

    let held = ask("held", 0).await;
    assert_eq!((&held["status"], &held["held"]["waitsFor"]), (&json!("held"), &json!("event:never")));
    let words = ["held until", "original_not_posted", "attempts         1"];
    world.fis(&["receipt", "--tenant", "acme", "held"]).await.expect(0, &words);

    let bad = ask("bad", 0).await;
    assert_eq!((&bad["status"], &bad["deadLetters"][0]["reason"]), (&json!("rejected"), &json!("bad_amount")));
    let id = bad["deadLetters"][0]["deadLetterId"].as_str().unwrap();
    world.fis(&["receipt", "--tenant", "acme", "bad"]).await.expect(0, &["rejected because bad_amount", id, "parked"]);

    for event in ["cart", "nobody"] {
        assert_eq!(ask(event, 1).await["status"], json!("unknown"));
    }
    world.fis(&["receipt", "--tenant", "acme", "cart"]).await.expect(1, &["never seen, or ignored by a rule"]);
    world.fis(&["receipt", "--tenant", "globex", "sale"]).await.expect(2, &["there is no tenant `globex`"]);

    // Posted, and the announcement has not left yet.
    world.publish(&[order("next")]).await;
    world.sql("insert into fis_outbox (tenant_id, seq, lines) values ('acme', 1, 3)").await;
    world.fis(&["receipt", "--tenant", "acme", "sale"]).await.expect(0, &["in the outbox"]);
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.invariants().await;
}
