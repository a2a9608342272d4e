//! Looking at dead letters: filters, groups, one letter, exports; and nothing that a publisher wrote drives the terminal.

use serde_json::json;

use crate::support::events::{Message, envelope, order_of, payment};
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

async fn park(world: &World, messages: &[Message]) {
    world.publish(messages).await;
    let count = i64::try_from(messages.len()).unwrap();
    wait_until("they are parked", async || same(world.count("select count(*) from fis_dead_letter").await, count))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_groups_and_money_tell_the_same_story() {
    let world = World::new("looking").await;
    let mut run = world.run().await;
    park(
        &world,
        &[
            payment("a", "9999", "1.50").rejected("unknown_account"),
            payment("b", "9998", "2.50").rejected("unknown_account"),
            order_of("nobody", "c", "USD", "119.00", "19.00").rejected("unknown_tenant"),
            order_of("nobody", "d", "EUR", "1.00", "0.00").rejected("unknown_tenant"),
            Message::json("warehouse.stock.moved", &envelope("acme", "e", "warehouse.stock.moved", json!({})))
                .rejected("rule_not_found"),
        ],
    )
    .await;
    let total = async |args: &[&str]| {
        let said = world.fis(&[&["dlq", "list", "--json"], args].concat()).await.expect(0, &[]).json();
        said["total"].as_i64().unwrap()
    };
    assert_eq!(total(&[]).await, 5);
    for (args, expected) in [
        (&["--reason", "unknown_account"][..], 2),
        (&["--routing-key", "x' or '1'='1"], 0),
        (&["--tenant", "nobody", "--currency", "USD"], 1),
        (&["--routing-key", "warehouse.stock.moved"], 1),
        (&["--min-amount", "2.50"], 2),
        (&["--min-amount", "1.5", "--max-amount", "2.5"], 2),
        (&["--text", "IS NOT IN THE BOOKS"], 2),
        (&["--text", "%"], 0),
        (&["--newer-than", "1h"], 5),
        (&["--older-than", "1h"], 0),
        (&["--status", "resolved"], 0),
        (&["--status", "all"], 5),
    ] {
        assert_eq!(total(args).await, expected, "{args:?}");
    }
    let dearest = world.fis(&["dlq", "list", "--sort", "amount", "--limit", "1", "--json"]).await.json();
    assert_eq!(dearest["deadLetters"][0]["eventId"], "c");

    let groups = world.fis(&["dlq", "groups", "--json"]).await.expect(0, &[]).json();
    let groups = groups["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 3, "account numbers and event ids make no groups: {groups:?}");
    let accounts = groups.iter().find(|group| group["reason"] == "unknown_account").unwrap();
    assert_eq!(accounts["money"], json!([{"currency": "EUR", "letters": 2, "amount": "4.00"}]));
    assert_eq!(accounts["fingerprint"], "account `#` is not in the books of acme");
    assert_eq!(total(&["--group", accounts["group"].as_str().unwrap()]).await, 2);
    world
        .fis(&["dlq", "groups"])
        .await
        .expect(0, &["5 open dead letters in 3 groups", "1.00 EUR + 119.00 USD", "2 new since yesterday"]);

    let one = world.fis(&["dlq", "list", "--reason", "unknown_account", "--max-amount", "1.50", "--json"]).await.json();
    let id = one["deadLetters"][0]["id"].as_str().unwrap();
    world
        .fis(&["dlq", "show", id])
        .await
        .expect(0, &["at fault      9999", "\"account\": \"9999\"", "fis books apply FILE"]);
    world.fis(&["dlq", "show", "dl_none"]).await.expect(2, &["there is no dead letter"]);
    let lines = world.fis(&["dlq", "export"]).await.expect(0, &[]).stdout;
    assert_eq!(lines.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()).count(), 5);
    let csv =
        world.fis(&["dlq", "export", "--format", "csv", "--reason", "unknown_account"]).await.expect(0, &[]).stdout;
    assert_eq!(csv.lines().count(), 3);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_publisher_wrote_never_drives_the_terminal() {
    let world = World::new("hostile_letters").await;
    let mut run = world.run().await;
    let key = "ecommerce.order.completed";
    let long = format!(
        "{{\"eventId\": \"long\", \"tenantId\": \"nobody\", \"payload\": {{\"note\": \"{}\"}}}}",
        "x".repeat(255 * 1024)
    );
    let escape =
        json!({"eventId": "rtl \u{202e}drawer", "tenantId": "nobody", "payload": {"note": "\u{1b}[2J\u{7}\u{202e}"}});
    park(
        &world,
        &[
            Message::new(key, long).rejected("unknown_tenant"),
            Message::json(key, &escape).rejected("unknown_tenant"),
            Message::new(key, b"\x1b]0;owned\x07\xff\xfe".to_vec()).rejected("not_utf8"),
            Message::new(key, "{\"a\u{1b}[31m\": ").rejected("malformed_json"),
        ],
    )
    .await;
    let ids: Vec<String> = sqlx::query_scalar("select id from fis_dead_letter").fetch_all(&world.pool).await.unwrap();
    let mut outputs = Vec::new();
    for columns in ["80", "200"] {
        for args in [&["dlq", "list"][..], &["dlq", "groups"]] {
            outputs.push(world.fis_with(args, &[("COLUMNS", columns)]).await.expect(0, &[]).all());
        }
        for id in &ids {
            outputs.push(world.fis_with(&["dlq", "show", id], &[("COLUMNS", columns)]).await.expect(0, &[id]).all());
        }
    }
    for output in outputs {
        assert!(output.len() < 20_000, "{} bytes", output.len());
        let bad = output.chars().find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202a}'..='\u{202e}'));
        assert_eq!(bad, None, "{output}");
    }
    world.fis(&["dlq", "show", &ids[0], "--json"]).await.expect(0, &[]).json();
    world.rest(&mut run).await;
    world.invariants().await;
}

/// A sum of such amounts does not fit what reads it.
#[tokio::test(flavor = "multi_thread")]
async fn amounts_that_no_sum_can_hold_keep_nobody_from_looking() {
    let world = World::new("hostile_amounts").await;
    let mut run = world.run().await;
    let largest = "79228162514264337593543950335";
    let finest = "0.0000000000000000000000000001";
    let bad = [largest, largest, finest, "900000000000000.00"];
    let bad = bad.iter().enumerate().map(|(n, total)| order_of("nobody", &format!("h-{n}"), "EUR", total, "0"));
    world.publish(&bad.map(|message| message.rejected("unknown_tenant")).collect::<Vec<_>>()).await;
    wait_until("parked", async || same(world.count("select count(*) from fis_dead_letter").await, 4)).await;
    world.fis(&["dlq", "groups"]).await.expect(0, &["900,000,000,000,000.00 EUR", "3 without an amount"]);
    world.fis(&["dlq", "list", "--sort", "amount"]).await.expect(0, &["4 of 4"]);
    world.fis(&["dlq", "replay", "--all"]).await.expect(2, &["900,000,000,000,000.00 EUR"]);
    world.rest(&mut run).await;
    world.invariants().await;
}

/// Letters are grouped by what they have in common; what the books and fis say themselves is in common, also where it has digits.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_names_its_cause_with_the_numbers_of_books_and_messages() {
    let world = World::with("group_names", Setup { topology: false, ..Setup::default() }).await;
    for (detail, expected) in [
        ("`EURO` is not an ISO 4217 currency", "`EURO` is not an ISO 4217 currency"),
        ("account `1234` is not in the books of acme", "account `#` is not in the books of acme"),
        (
            "`occurredAt` is not an RFC 3339 time such as 2026-02-25T10:00:00Z",
            "`occurredAt` is not an RFC 3339 time such as 2026-02-25T10:00:00Z",
        ),
        (
            "rule `vat-19`: `payload.total > 100`: payload.lines[7].net is \"ten\", 3 is needed",
            "rule `vat-19`: `payload.total > 100`: payload.lines[#].net is \"…\", # is needed",
        ),
        (
            "rule `r1`: `payload.day` is neither a date nor an RFC 3339 time",
            "rule `r1`: `payload.day` is neither a date nor an RFC 3339 time",
        ),
        ("rule `r1` makes more than 10000 lines", "rule `#` makes more than # lines"),
    ] {
        let found: String =
            sqlx::query_scalar("select fis_fingerprint($1)").bind(detail).fetch_one(&world.pool).await.unwrap();
        assert_eq!(found, expected);
    }
}
