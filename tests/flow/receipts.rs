//! `fis receipt`: what became of one event.

use serde_json::{Value, json};

use crate::support::events::{Message, books, cart, order, order_of, refund_of};
use crate::support::wait::{same, wait_until};
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
    let lines = posted["entry"]["lines"].as_array().unwrap();
    let told = lines.iter().map(|line| (line["account"].as_str(), line["side"].as_str(), line["amount"].as_str()));
    let expected = [("1100", "debit", "119.00"), ("4000", "credit", "100.00"), ("2200", "credit", "19.00")];
    assert_eq!(told.collect::<Vec<_>>(), expected.map(|(a, s, m)| (Some(a), Some(s), Some(m))));
    assert_eq!(posted["entry"]["amounts"], json!([{"amount": "119.00", "currency": "EUR"}]));
    assert_eq!((&posted["entry"]["rule"], &posted["entry"]["ruleVersion"]), (&json!("order-completed"), &json!(1)));
    assert_eq!(posted["timezone"], json!("Europe/Berlin"));
    let words = [
        "sale: posted as acme/1, 119.00 EUR\n",
        "Europe/Berlin (2",
        "UTC)\n",
        "order-completed of version 1",
        "Trade receivables ┆ 119.00 EUR ┆",
        &entry.1,
        "duplicate",
        "another message with this id was rejected",
    ];
    world.fis(&["receipt", "--tenant", "acme", "sale"]).await.expect(0, &words);

    let held = ask("held", 1).await;
    assert_eq!((&held["status"], &held["held"]["waitsFor"]), (&json!("held"), &json!("event:never")));
    let words = ["held until", "original_not_posted", "attempts         1"];
    world.fis(&["receipt", "--tenant", "acme", "held"]).await.expect(1, &words);

    let bad = ask("bad", 1).await;
    assert_eq!((&bad["status"], &bad["deadLetters"][0]["reason"]), (&json!("rejected"), &json!("bad_amount")));
    let id = bad["deadLetters"][0]["deadLetterId"].as_str().unwrap();
    world.fis(&["receipt", "--tenant", "acme", "bad"]).await.expect(1, &["rejected because bad_amount", id, "parked"]);

    assert_eq!(ask("nobody", 1).await["status"], json!("unknown"));
    world.fis(&["receipt", "--tenant", "acme", "nobody"]).await.expect(1, &["nobody: never seen for tenant acme"]);
    world.fis(&["receipt", "--tenant", "globex", "sale"]).await.expect(2, &["there is no tenant `globex`"]);

    // Posted, and the announcement has not left yet.
    world.publish(&[order("next")]).await;
    world.sql("insert into fis_outbox (tenant_id, seq, lines) values ('acme', 1, 3)").await;
    world.fis(&["receipt", "--tenant", "acme", "sale"]).await.expect(0, &["in the outbox"]);
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.invariants().await;
}

/// A publisher can tell an event that the books ignore from one that was lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_ignored_event_has_a_receipt_and_is_decided_anew_when_it_comes_again() {
    let world = World::new("receipt_ignored").await;
    let mut run = world.run().await;
    let ask =
        async |code: i32| world.fis(&["receipt", "--tenant", "acme", "cart", "--json"]).await.expect(code, &[]).json();
    let carts = async |events: i64| {
        let counted = "select coalesce(sum(events), 0)::bigint from fis_received where outcome = 'ignored'";
        wait_until("the cart is counted", async || same(world.count(counted).await, events)).await;
    };
    // Twice in one batch, and once more behind it.
    world.publish(&[cart("acme", "cart"), cart("acme", "cart")]).await;
    carts(2).await;
    world.publish(&[cart("acme", "cart")]).await;
    carts(3).await;
    let told = ask(0).await;
    assert_eq!(told["status"], json!("ignored"));
    assert_eq!((&told["ignored"]["rule"], &told["ignored"]["booksVersion"]), (&json!("carts"), &json!(1)));
    assert_eq!(world.count("select count(*) from fis_ignored").await, 1, "one event, one record");
    let day = told["ignored"]["receivedOn"].as_str().unwrap();
    let words = format!("cart: ignored by rule `carts` of version 1 on {day}, counted in the tie-out of that day");
    world.fis(&["receipt", "--tenant", "acme", "cart"]).await.expect(0, &[&words]);

    // Books without the rule that ignore what no rule matches say that.
    let rule = "[[rules]]\nname = \"carts\"\non = \"ecommerce.cart.*\"\nignore = true\n";
    let without = books("acme").replace(rule, "").replace("unmatched = \"reject\"", "unmatched = \"ignore\"");
    world.apply_books(&without).await;
    world.publish(&[cart("acme", "cart")]).await;
    carts(4).await;
    assert_eq!((&ask(0).await["ignored"]["rule"], &ask(0).await["ignored"]["booksVersion"]), (&Value::Null, &json!(2)));
    let words = "ignored by version 2 of the books, in which no rule matches it";
    world.fis(&["receipt", "--tenant", "acme", "cart"]).await.expect(0, &[words]);

    // Books that post it post it: an ignored event was never taken for a duplicate.
    let posting = "[[rules]]\nname = \"carts\"\non = \"ecommerce.cart.*\"\ncurrency = \"'EUR'\"\ndescription = \"Cart\"\n\
                   lines = [{ debit = \"1100\", amount = \"payload.items\" }, { credit = \"4000\", amount = \"payload.items\" }]\n";
    world.apply_books(&books("acme").replace(rule, posting)).await;
    world.publish(&[Message { expect: crate::support::events::Expect::Posted, ..cart("acme", "cart") }]).await;
    wait_until("it is posted", async || same(world.count("select count(*) from fis_journal_entry").await, 1)).await;
    assert_eq!(ask(0).await["status"], json!("posted"));
    run.terminate().await;
}

/// A record of what was ignored is kept for a month, and no longer: a million a day must not pile up.
#[tokio::test(flavor = "multi_thread")]
async fn an_ignored_event_is_forgotten_after_a_month() {
    let world = World::new("receipt_forgotten").await;
    world
        .sql(
            "insert into fis_ignored (tenant_id, event_id, rule_name, books_version, received_on, ignored_at)
             select 'acme', 'cart-' || age || '-' || n, 'carts', 1, (now() at time zone 'utc')::date - age, now()
               from unnest(array[29, 32]) as age, generate_series(1, 12000) as n",
        )
        .await;
    let mut run = world.run().await;
    let old = "select count(*) from fis_ignored where event_id like 'cart-32-%'";
    wait_until("the old ones are removed", async || same(world.count(old).await, 0)).await;
    run.terminate().await;
    assert_eq!(world.count("select count(*) from fis_ignored").await, 12000);
    world.fis(&["receipt", "--tenant", "acme", "cart-29-1"]).await.expect(0, &["ignored by rule `carts`"]);
    world.fis(&["receipt", "--tenant", "acme", "cart-32-1"]).await.expect(1, &["more than 30 days ago is forgotten"]);
}
