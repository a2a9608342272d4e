//! The commands for people and scripts.

use serde_json::{Value, json};

use crate::support::broker::{DLQ, LANES};
use crate::support::events::{Expect, Message, books, cancellation, cart, order, payment, refund_of};
use crate::support::world::{Setup, World};

fn line(key: &str, message: &Message, more: Value) -> String {
    let mut line = json!({"routingKey": key, "body": message.value()});
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    line.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_publishes_nothing_and_is_named() {
    let world = World::new("publish_bad").await;
    let good = line("ecommerce.order.completed", &order("good"), json!({}));
    let rows = [
        ("{\"routingKey\": \"a.b.c\"}", "body"),
        ("{\"routingKey\": \"a.b.c\", \"body\": {}, \"lan\": \"live\"}", "lan"),
        ("{\"routingKey\": \"a.b.c\", \"body\": {}, \"lane\": \"fast\"}", "fast"),
        ("{\"routingKey\": \"a.b.c\", \"body\": {}, \"headers\": {\"x\": []}}", "header"),
        ("not json", "line 3"),
    ];
    for (bad, word) in rows {
        let file = world.file("bad.ndjson", format!("{good}\n\n{bad}\n{good}\n"));
        world.fis(&["publish", &file]).await.expect(1, &["line 3 is not valid: ", word, ". Nothing was published."]);
    }
    let long = json!({"routingKey": "x".repeat(256), "body": {}}).to_string();
    let file = world.file("bad.ndjson", format!("{good}\n\n{long}\n"));
    world.fis(&["publish", &file]).await.expect(1, &["line 3 is not valid: ", ". Nothing was published."]);
    world.fis(&["publish", "/nowhere.ndjson"]).await.expect(1, &["/nowhere.ndjson"]);
    for queue in LANES {
        assert_eq!(world.ready_count(queue).await, 0, "{queue}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_headers_and_exact_bodies_arrive_from_a_file() {
    let world = World::new("publish").await;
    let key = "ecommerce.order.completed";
    let mut raw = order("no-tenant").value();
    raw = json!({"event_id": "no-tenant", "payload": raw["payload"]});
    let lines = [
        line(key, &order("live"), json!({})),
        line(key, &order("urgent"), json!({"lane": "urgent"})),
        line(key, &order("backfill"), json!({"lane": "backfill"})),
        json!({"routingKey": key, "body": raw, "headers": {"x-fis-tenant": "acme", "x-number": 7}}).to_string(),
        // Digits that a float would lose.
        r#"{"routingKey":"ecommerce.order.completed","body":{"eventId":"exact","tenantId":"acme","payload":{"orderId":"1","currency":"EUR","total":90071992547409.93,"tax":0}}}"#.to_owned(),
    ];
    let file = world.file("events.ndjson", lines.join("\n"));
    world.fis(&["publish", &file]).await.expect(0, &["5 events published and confirmed"]);
    world.fis(&["publish", &file, "--json"]).await.expect(0, &[]);
    assert_eq!(world.ready_count(LANES[0]).await, 6);
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    let lanes: Vec<String> =
        sqlx::query_scalar("select event_id || ' ' || lane from fis_journal_entry order by event_id")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    assert_eq!(lanes, ["backfill backfill", "exact live", "live live", "no-tenant live", "urgent urgent"]);
    let exact: String = sqlx::query_scalar(
        "select l.amount::text from fis_journal_line l join fis_journal_entry e using (tenant_id, seq)
          where event_id = 'exact' and line_no = 1",
    )
    .fetch_one(&world.pool)
    .await
    .unwrap();
    assert_eq!(exact, "90071992547409.93");
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_where_no_queue_is_bound_is_told_as_a_failure() {
    let world = World::with("publish_nowhere", Setup { topology: false, ..Setup::default() }).await;
    let path = world.management.object_path("exchanges", "fis.events.exchange");
    world.management.put_json(&path, &json!({"type": "topic", "durable": true})).await.unwrap();
    let file = world.file("events.ndjson", line("a.b.c", &order("lost"), json!({})));
    world.fis(&["publish", &file]).await.expect(1, &["line 1", "fis topology apply"]);
    let json = world.fis(&["publish", &file, "--json"]).await.expect(1, &[]).json();
    assert_eq!((&json["confirmed"], &json["failed"][0]["line"]), (&json!(0), &json!(1)), "{json}");
    // Of an exchange that is missing altogether the broker says so once, for all.
    let words = [
        "0 of 1 events confirmed: exchange fis.urgent.exchange does not exist. Run `fis topology apply`, then publish again",
        "this cannot post twice.",
    ];
    let file = world.file("events.ndjson", line("a.b.c", &order("lost"), json!({"lane": "urgent"})));
    world.fis(&["publish", &file]).await.expect(1, &words);
}

/// A publisher who waits hears what became of each event, by the line of its file.
#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_who_waits_hears_the_verdict_on_each_event() {
    let world = World::new("publish_wait").await;
    let key = "ecommerce.order.completed";
    let good = world.file("good.ndjson", line(key, &order("sale"), json!({})));
    let late = world.fis(&["publish", &good, "--wait", "--deadline", "0"]).await;
    late.expect(1, &["1 event published and confirmed", "line 1: sale not decided before the deadline"]);
    let mut run = world.run().await;
    let mut other = order("sale").value();
    other["payload"]["total"] = json!("77.77");
    let conflict = json!({"routingKey": key, "body": other}).to_string();
    let unreadable = json!({"routingKey": key, "body": "no event"}).to_string();
    let lines = [
        line(key, &order("next"), json!({})),
        line(key, &order("next"), json!({})),
        line(key, &order("sale"), json!({})),
        line("ecommerce.cart.updated", &cart("acme", "a-cart"), json!({})),
        line("ecommerce.order.refunded", &refund_of("acme", "back", "never"), json!({})),
        conflict.clone(),
        conflict,
        unreadable,
    ];
    let file = world.file("events.ndjson", lines.join("\n"));
    let said = world.fis(&["publish", &file, "--wait", "--json"]).await.expect(1, &[]).json();
    let told: Vec<_> =
        said["verdicts"].as_array().unwrap().iter().map(|told| told["verdict"].as_str().unwrap()).collect();
    let expected = ["posted", "duplicate", "duplicate", "ignored", "held", "rejected", "rejected", "rejected"];
    assert_eq!(told, expected, "{said}");
    assert_eq!((&said["confirmed"], &said["verdicts"][0]["entryId"]), (&json!(8), &json!("acme/2")));
    assert_eq!(said["verdicts"][5]["reason"], json!("idempotency_conflict"));
    assert_eq!(said["verdicts"][7]["reason"], json!("bad_field"));
    let letter = said["verdicts"][7]["deadLetterId"].as_str().unwrap();
    world.fis(&["dlq", "show", letter]).await.expect(0, &["bad_field"]);
    // Again: the verdicts are those on these messages, not what is known of earlier ones.
    let said = world.fis(&["publish", &file, "--wait"]).await;
    let words = [
        "line 1: next duplicate of acme/2, nothing changed\n",
        "line 4: a-cart ignored by rule `carts` of version 1\n",
        "line 5: back held, original_not_posted: ",
        "line 6: sale rejected, idempotency_conflict: ",
        &format!("(dead letter {letter})"),
    ];
    said.expect(1, &words);
    assert_eq!(world.count("select max(attempts)::bigint from fis_dead_letter").await, 4);
    world.fis(&["publish", &good, "--wait"]).await.expect(0, &["line 1: sale duplicate of acme/1"]);
    world.fis(&["publish", &good, "--deadline", "5"]).await.expect(2, &["--wait"]);
    run.terminate().await;
    // With nobody there to decide, the verdicts of yesterday are not today's.
    let file = world.file("again.ndjson", [lines[3].clone(), lines[5].clone(), lines[7].clone()].join("\n"));
    let words = ["line 1: a-cart not decided", "line 2: sale not decided", "line 3: (no event id) not decided"];
    world.fis(&["publish", &file, "--wait", "--deadline", "0"]).await.expect(1, &words);
}

/// One of each: ready, held, dead, posted. Then everything is drained.
#[tokio::test(flavor = "multi_thread")]
async fn status_dlq_list_and_once_agree_about_a_day() {
    let world = World::new("status").await;
    let bad = payment("bad", "9999", "12.34").rejected("unknown_account");
    world
        .publish(&[
            order("good"),
            bad,
            Message::new("a.b.c", "{").rejected("malformed_json"),
            cancellation("early", "never").expect(Expect::Held),
        ])
        .await;
    // Nobody takes events while it is asked: exit 1.
    let before = world.fis(&["status", "--json"]).await.expect(1, &[]).json();
    assert_eq!(before["queues"][LANES[0]]["ready"], 4, "{before}");
    world.fis(&["run", "--once"]).await.expect(0, &[]);

    let status = world.fis(&["status", "--json"]).await.expect(1, &[]).json();
    for queue in LANES.into_iter().chain([DLQ]) {
        assert_eq!(status["queues"][queue]["ready"], 0, "{status}");
        assert!(status["queues"][queue].as_object().unwrap().contains_key("unacked"), "{status}");
    }
    assert_eq!(status["outbox"], json!({"pending": 0, "oldestSeconds": 0}));
    assert_eq!(status["deadLetters"]["open"], 2);
    assert_eq!(status["deadLetters"]["byReason"], json!({"malformed_json": 1, "unknown_account": 1}));
    assert_eq!(status["held"], 1);
    assert!(status["breaker"].is_string(), "{status}");
    world.fis(&["status"]).await.expect(1, &["unknown_account", "held"]);

    let list = world.fis(&["dlq", "list", "--json"]).await.expect(0, &[]).json();
    assert_eq!(list["total"], 2);
    let letters = list["deadLetters"].as_array().unwrap();
    let names: Vec<&String> = letters[0].as_object().unwrap().keys().collect();
    for name in [
        "id",
        "tenantId",
        "eventId",
        "routingKey",
        "reason",
        "detail",
        "status",
        "attempts",
        "firstSeenAt",
        "amount",
        "currency",
    ] {
        assert!(names.iter().any(|known| *known == name), "{name} in {names:?}");
    }
    let bad = letters.iter().find(|letter| letter["reason"] == "unknown_account").unwrap();
    assert_eq!(
        (&bad["tenantId"], &bad["eventId"], &bad["amount"], &bad["currency"], &bad["status"], &bad["attempts"]),
        (&json!("acme"), &json!("bad"), &json!("12.34"), &json!("EUR"), &json!("parked"), &json!(1))
    );
    let count = async |args: &[&str]| {
        let said = world.fis(&[&["dlq", "list", "--json"], args].concat()).await.expect(0, &[]).json();
        (said["deadLetters"].as_array().unwrap().len(), said["total"].as_u64().unwrap())
    };
    assert_eq!(count(&["--reason", "malformed_json"]).await, (1, 1));
    assert_eq!(count(&["--tenant", "acme"]).await, (1, 1));
    assert_eq!(count(&["--routing-key", "a.b.c"]).await, (1, 1));
    assert_eq!(count(&["--limit", "1"]).await, (1, 2));
    assert_eq!(count(&["--limit", "1", "--offset", "1"]).await, (1, 2));
    assert_eq!(count(&["--offset", "2"]).await, (0, 2));
    assert_eq!(count(&["--before", "2020-01-01T00:00:00Z"]).await, (0, 0));
    assert_eq!(count(&["--after", "2020-01-01T00:00:00Z"]).await, (2, 2));
    world.fis(&["dlq", "list", "--limit", "-1"]).await.expect(2, &[]);
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn once_drains_a_full_queue_relays_it_and_leaves() {
    let world = World::with("once", Setup { tenants: &["acme", "globex"], ..Setup::default() }).await;
    let orders: Vec<Message> = (0..600).map(|n| order(&format!("evt-{n}"))).collect();
    world.publish(&orders).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    let feed = world.invariants().await;
    assert_eq!(feed.messages.len(), 600, "relayed once each");
    // Nothing is there: it ends at once.
    world.fis(&["run", "--once"]).await.expect(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomers_road_from_nothing_to_a_posted_order_works_by_commands_alone() {
    let setup = Setup { migrated: false, topology: false, tenants: &[], ..Setup::default() };
    let world = World::with("newcomer", setup).await;
    world.migrate().await.expect(0, &[]);
    world.fis(&["topology", "apply"]).await.expect(0, &["fis.ingestion.queue"]);
    world.fis(&["topology", "check"]).await.expect(0, &[]);
    let file = world.file("acme.toml", books("acme"));
    world.fis(&["books", "apply", &file, "--yes"]).await.expect(0, &[]);
    world.declare_readers().await;
    let file = world.file("events.ndjson", line("ecommerce.order.completed", &order("evt"), json!({})));
    world.fis(&["publish", &file]).await.expect(0, &[]);
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.fis(&["verify"]).await.expect(0, &["acme", "1", "verified"]);
    assert_eq!(world.finance().await.read(1).await[0].data()["sequence"], 1);
}
