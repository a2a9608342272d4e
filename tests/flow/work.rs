//! The work of one event is bounded: a few large ones hold up neither another tenant nor the probe. The kernel's count of this process's time is
//! compared with itself, so that a busy or a slow machine does not matter.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};

use crate::support::events::{Expect, Message, books, envelope, order};
use crate::support::process::Run;
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

/// Each item bears its share of the total; and, for comparison, each item bears what it says.
const RULES: &str = r#"
[[rules]]
name = "shares"
on = "billing.costs.shared"
each = "payload.items"
currency = "payload.currency"
lines = [
  { debit  = "1100", amount = "round(item.amount / sum(payload.items[*].amount) * payload.total, 2)" },
  { credit = "4000", amount = "round(item.amount / sum(payload.items[*].amount) * payload.total, 2)" },
]

[[rules]]
name = "plain"
on = "billing.costs.plain"
each = "payload.items"
currency = "payload.currency"
lines = [
  { debit  = "1100", amount = "item.amount" },
  { credit = "4000", amount = "item.amount" },
]
"#;

/// About 40 KB.
const ITEMS: usize = 2_500;

fn costs(id: &str, event_type: &str) -> Message {
    let items = vec![json!({"amount": 1}); ITEMS];
    let payload = json!({"currency": "EUR", "total": ITEMS, "items": items});
    Message::json(event_type, &envelope("globex", id, event_type, payload)).expect(Expect::Posted)
}

/// A pay run behind so many members that nobody asks for.
fn pay(id: &str, unasked: usize) -> Message {
    let mut payload: Map<String, Value> = (0..unasked).map(|n| (format!("a{n}"), json!(n))).collect();
    payload.insert("currency".to_owned(), json!("EUR"));
    payload.insert("runId".to_owned(), json!(id));
    let slip = json!({"department": "10", "gross": "3000.00", "withheld": "900.00"});
    payload.insert("payslips".to_owned(), json!(vec![slip; 1_000]));
    let event = envelope("globex", id, "payroll.salary.disbursed", Value::Object(payload));
    Message::json("payroll.salary.disbursed", &event).expect(Expect::Posted)
}

/// Publishes these and an order of another tenant behind them, waits until all are posted, and asks all the while whether the process lives. The
/// clock ticks that it took.
async fn ticks(world: &World, run: &Run, messages: Vec<Message>, order_id: &str) -> u64 {
    let before = world.count("select count(*) from fis_journal_entry").await;
    let expected = before + i64::try_from(messages.len()).unwrap() + 1;
    let (ticks, _) = run.usage();
    let done = AtomicBool::new(false);
    let posted = async {
        world.publish(&messages).await;
        world.publish(&[order(order_id)]).await;
        wait_until("all are posted", async || {
            same(world.count("select count(*) from fis_journal_entry").await, expected)
        })
        .await;
        done.store(true, Ordering::SeqCst);
    };
    let alive = async {
        let mut asked = 0;
        while !done.load(Ordering::SeqCst) {
            let (status, said) = run.get("/healthz").await;
            assert_eq!((status, said.trim()), (200, "ok"));
            asked += 1;
        }
        asked
    };
    let ((), asked) = tokio::join!(posted, alive);
    assert!(asked > 0);
    run.usage().0 - ticks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_large_events_cost_what_their_lines_cost() {
    let world = World::with("work", Setup { tenants: &["acme"], ..Setup::default() }).await;
    world.apply_books(&format!("{}{RULES}", books("globex"))).await;
    let mut run = world.run().await;
    let six = |make: &dyn Fn(usize) -> Message| (0..6).map(make).collect::<Vec<_>>();
    // As many lines, by rules and events that ask for nothing large.
    let mut plain = six(&|n| costs(&format!("plain-{n}"), "billing.costs.plain"));
    plain.extend(six(&|n| pay(&format!("pay-{n}"), 0)));
    let plain = ticks(&world, &run, plain, "first").await;
    let mut large = six(&|n| costs(&format!("shares-{n}"), "billing.costs.shared"));
    large.extend(six(&|n| pay(&format!("hidden-{n}"), 10_000)));
    let large = ticks(&world, &run, large, "second").await;
    // Worked out anew for each line, a sum or a search costs dozens of times as much.
    assert!(large <= 6 * plain + 100, "{large} ticks, and {plain} for as many lines without a sum or a search");
    world.rest(&mut run).await;
    world.invariants().await;
}

/// All are there before the service is, so that one batch has them. What it writes in one transaction keeps everybody else waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_large_entries_is_posted_in_parts() {
    let world = World::with("parts", Setup { tenants: &["acme"], ..Setup::default() }).await;
    world.apply_books(&format!("{}{RULES}", books("globex"))).await;
    let messages: Vec<Message> = (0..8).map(|n| costs(&format!("plain-{n}"), "billing.costs.plain")).collect();
    world.publish(&messages).await;
    world.publish(&[order("behind")]).await;
    let mut run = world.run().await;
    wait_until("all are posted", async || same(world.count("select count(*) from fis_journal_entry").await, 9)).await;
    let most = "select max(lines) from (select count(*) as lines from fis_journal_line group by xmin::text) written";
    let most = world.count(most).await;
    assert!(most <= 20_000, "{most} lines in one transaction");
    world.rest(&mut run).await;
    world.invariants().await;
}

/// Compares every item with every other: there is no short way, and it is no entry.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_takes_too_many_steps_is_a_letter_that_says_where() {
    let world = World::new("too_many_steps").await;
    let rule = r#"
[[rules]]
name = "known-codes"
on = "billing.codes.checked"
each = "payload.items"
currency = "payload.currency"
lines = [
  { debit  = "1100", amount = "item.amount", when = "item.code in payload.items[*].parent" },
  { credit = "4000", amount = "item.amount" },
]
"#;
    world.apply_books(&format!("{}{rule}", books("acme"))).await;
    let mut run = world.run().await;
    let items: Vec<Value> = (0..4_000).map(|n| json!({"code": n, "parent": -1, "amount": 1})).collect();
    let payload = json!({"currency": "EUR", "items": items});
    let event = envelope("acme", "codes", "billing.codes.checked", payload);
    let event = Message::json("billing.codes.checked", &event).rejected("rule_failed");
    world.publish(&[event, order("behind")]).await;
    world.quiet().await;
    let letters = world.fis(&["dlq", "list", "--json"]).await.expect(0, &[]).json();
    let detail = letters["deadLetters"][0]["detail"].as_str().unwrap().to_owned();
    assert_eq!(
        detail,
        "rule `known-codes`: `item.code in payload.items[*].parent`: the rules take more than 500000 steps for this event"
    );
    world.rest(&mut run).await;
    world.invariants().await;
}
