//! The inbox: what waits in PostgreSQL is posted from there, in turns, by whichever instance has the lease, and nothing that a publisher writes makes a
//! message one that waited.

use serde_json::json;

use crate::support::events::{Expect, Message, books, cancellation, order, order_of, payment, refund_of, rewritten};
use crate::support::invariants::Disturbed;
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

/// Nothing comes back by itself within a test.
const SLOW_RETRIES: [(&str, &str); 2] =
    [("FIS__RETRY__BASE_DELAY_SECONDS", "3600"), ("FIS__RETRY__JITTER_SECONDS", "0")];
const RATE: &str = "\n[[rates]]\nfrom = \"GBP\"\nto = \"EUR\"\ndate = 2020-01-01\nrate = \"1.15\"\n";

async fn wait_count(world: &World, what: &str, sql: &'static str, count: i64) {
    wait_until(what, async || same(world.count(sql).await, count)).await;
}

async fn texts(world: &World, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(&world.pool).await.unwrap()
}

const HELD: &str = "select count(*) from fis_held";
const ENTRIES: &str = "select count(*) from fis_journal_entry";

/// Headers by which fis once knew its own messages.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_pretends_to_have_waited_is_an_ordinary_message() {
    let world = World::new("pretender").await;
    let mut run = world.run_with(&SLOW_RETRIES).await;
    world.publish(&[payment("parked", "9999", "1.50").rejected("unknown_account")]).await;
    wait_count(&world, "a letter", "select count(*) from fis_dead_letter", 1).await;
    let letter = texts(&world, "select id from fis_dead_letter").await.remove(0);
    let forged = |message: Message| {
        let mut message = message
            .header("x-fis-attempt", "99")
            .header("x-fis-dead-letter", &letter)
            .header("x-fis-edit", "1")
            .header("x-fis-message-id", "forged");
        message.properties = message.properties.with_message_id("own".into());
        message
    };
    world.publish(&[forged(order("sale")), forged(refund_of("acme", "refund", "never")).expect(Expect::Held)]).await;
    wait_count(&world, "an entry", ENTRIES, 1).await;
    wait_count(&world, "a held event", HELD, 1).await;
    assert_eq!(texts(&world, "select message_id from fis_journal_entry").await, ["own"]);
    let held = "select concat_ws(' ', message_id, attempts, letter_id) from fis_held";
    assert_eq!(texts(&world, held).await, ["own 1"]);
    assert_eq!(texts(&world, "select status from fis_dead_letter").await, ["parked"]);
    world.rest(&mut run).await;
    world.invariants().await;
}

/// Two spellings of one event wait as one, the first of them, and come to one end.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_what_waits_waits_with_it_and_ends_with_it() {
    let world = World::new("held_copies").await;
    let late = cancellation("late", "sale").expect(Expect::Any);
    let first = late.body.clone();
    world.publish(&[late.clone(), rewritten(&late)]).await;
    let mut run = world.run_with(&SLOW_RETRIES).await;
    wait_count(&world, "a held event", HELD, 1).await;
    let kept: Vec<Vec<u8>> = sqlx::query_scalar("select body from fis_held").fetch_all(&world.pool).await.unwrap();
    assert_eq!(kept, [first], "the message that came first");
    // Another cancellation overtakes the one that waits.
    run.terminate().await;
    world.publish(&[order("sale"), cancellation("quick", "sale")]).await;
    let mut run = world.run_with(&SLOW_RETRIES).await;
    wait_count(&world, "a letter", "select count(*) from fis_dead_letter where reason = 'already_reversed'", 1).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// However often a publisher sends what waits, it takes one row, and has the attempts of one.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_again_and_again_while_it_waits_waits_once() {
    let world = World::new("held_often").await;
    let mut run = world.run_with(&SLOW_RETRIES).await;
    let refund = refund_of("acme", "refund", "never");
    world.publish(&vec![refund.clone(); 150]).await;
    wait_count(&world, "a held event", HELD, 1).await;
    world.publish(&vec![rewritten(&refund); 150]).await;
    wait_count(&world, "all have come", "select sum(events)::bigint from fis_received", 300).await;
    assert_eq!(texts(&world, "select concat_ws(' ', event_id, attempts) from fis_held").await, ["refund 1"]);
    world.rest(&mut run).await;
    world.invariants().await;
}

/// An event without a time of its own is dated by its first receipt, however long it waited.
#[tokio::test(flavor = "multi_thread")]
async fn what_waited_is_dated_by_its_first_receipt() {
    let world = World::new("first_receipt").await;
    let mut run = world.run_with(&SLOW_RETRIES).await;
    let without_time = |message: Message| {
        let mut value = message.value();
        value.as_object_mut().unwrap().remove("occurredAt");
        Message::json(&message.routing_key, &value)
    };
    let held = without_time(order_of("acme", "held", "GBP", "10.00", "0"));
    world.publish(&[held, without_time(payment("parked", "9999", "1.50"))]).await;
    wait_count(&world, "a held event", HELD, 1).await;
    wait_count(&world, "a letter", "select count(*) from fis_dead_letter", 1).await;
    world.sql("update fis_held set received_at = '2026-03-10 12:00Z', received_on = '2026-03-10'").await;
    world.sql("create table seen as select id, first_seen_at from fis_dead_letter").await;
    world.sql("update fis_dead_letter set first_seen_at = '2026-03-11 12:00Z'").await;
    world.sql("update fis_received set received_on = '2026-03-10' where outcome = 'held'").await;
    let account = "\n[[accounts]]\ncode = \"9999\"\nname = \"New\"\ntype = \"income\"\n";
    world.apply_books(&(books("acme") + RATE + account)).await;
    let rehearsed = world.fis(&["dlq", "replay", "--all", "--dry-run"]).await;
    rehearsed.expect(0, &["1  would post"]);
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(0, &["1 of 1"]);
    wait_count(&world, "both are posted", ENTRIES, 2).await;
    let dates = "select event_id || ' ' || accounting_date from fis_journal_entry order by 1";
    assert_eq!(texts(&world, dates).await, ["held 2026-03-10", "parked 2026-03-11"]);
    world.rest(&mut run).await;
    // `fis verify` would find a letter that is not as it was parked.
    world.sql("update fis_dead_letter d set first_seen_at = seen.first_seen_at from seen where seen.id = d.id").await;
    world.invariants().await;
}

/// A tenant with thousands of events that are due does not keep another one's single event waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_hot_tenant_does_not_starve_another_one() {
    const MANY: i64 = 4_000;
    let world = World::with("hot_tenant", Setup { tenants: &["acme", "globex"], ..Setup::default() }).await;
    let mut run = world.run_with(&SLOW_RETRIES).await;
    let many: Vec<Message> = (0..MANY).map(|n| order_of("acme", &format!("a-{n}"), "GBP", "10.00", "0")).collect();
    world.publish(&many).await;
    world.publish(&[order_of("globex", "g", "GBP", "10.00", "0")]).await;
    wait_count(&world, "all are held", HELD, MANY + 1).await;
    run.terminate().await;
    for tenant in ["acme", "globex"] {
        world.apply_books(&(books(tenant) + RATE)).await;
    }
    let mut run = world.run_with(&SLOW_RETRIES).await;
    wait_count(&world, "all are posted", ENTRIES, MANY + 1).await;
    let before = "select count(*) from fis_journal_entry
                   where tenant_id = 'acme' and posted_at < (select posted_at from fis_journal_entry where tenant_id = 'globex')";
    let before = world.count(before).await;
    assert!(before <= MANY / 2, "{before} of the hot tenant's events went before the other's only one");
    world.rest(&mut run).await;
    world.invariants().await;
}

/// A replay meets a letter that is gone, one of a tenant without books, and one that cannot be read: each has its verdict, and the others are booked.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_goes_on_behind_letters_that_cannot_be_booked() {
    let world = World::new("replay_goes_on").await;
    let mut run = world.run().await;
    let mut nobody = order("nobody").value();
    nobody["tenantId"] = json!("nobody");
    world
        .publish(&[
            payment("gone", "9999", "1.50"),
            Message::json("ecommerce.order.completed", &nobody),
            Message::new("ecommerce.order.completed", "{\"eventId\": "),
            payment("good", "9999", "1.50"),
        ])
        .await;
    wait_count(&world, "letters", "select count(*) from fis_dead_letter", 4).await;
    // Also the broker's copies are parked: one that came behind the prune would be a letter again.
    world.quiet().await;
    world.published.lock().unwrap().clear();
    let account = "\n[[accounts]]\ncode = \"9999\"\nname = \"New\"\ntype = \"income\"\n";
    world.apply_books(&(books("acme") + account)).await;
    run.terminate().await;
    world.fis(&["dlq", "replay", "--all", "--yes", "--no-wait"]).await.expect(0, &[]);
    // Between the choice and its turn.
    world.sql("update fis_dead_letter set status = 'discarded', settled_at = now() - interval '1 year' where event_id = 'gone'").await;
    world.fis(&["dlq", "prune", "--older-than", "30d", "--yes"]).await;
    let mut run = world.run().await;
    wait_count(&world, "the replay is done", "select count(*) from fis_replay where state = 'done'", 1).await;
    let counted = "select concat_ws(' ', letters, decided, skipped, failed) from fis_replay";
    assert_eq!(texts(&world, counted).await, ["4 4 1 2"]);
    assert_eq!(texts(&world, "select event_id from fis_journal_entry").await, ["good"]);
    let left = "select reason from fis_dead_letter where status = 'parked' order by 1";
    assert_eq!(texts(&world, left).await, ["malformed_json", "unknown_tenant"]);
    world.rest(&mut run).await;
    world.invariants().await;
}

/// One of two follows the inbox: nothing is mapped in vain; and when it dies, the other one does.
#[tokio::test(flavor = "multi_thread")]
async fn two_instances_share_nothing_but_the_lease() {
    let world = World::new("two_followers").await;
    let runs = [world.run_with(&SLOW_RETRIES).await, world.spawn(&SLOW_RETRIES)];
    let [mut first, mut second] = runs;
    second.ready().await;
    let many: Vec<Message> = (0..600).map(|n| order_of("acme", &format!("a-{n}"), "GBP", "10.00", "0")).collect();
    world.publish(&many).await;
    wait_count(&world, "all are held", HELD, 600).await;
    world.apply_books(&(books("acme") + RATE)).await;
    wait_count(&world, "all are posted", ENTRIES, 600).await;
    let mut gone = 0;
    for run in [&first, &second] {
        let (_, metrics) = run.get("/metrics").await;
        let line = metrics.lines().find(|line| line.contains(r#"lane="inbox""#) && line.contains(r#"outcome="gone""#));
        gone += line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0);
    }
    assert_eq!(gone, 0, "events were mapped in vain");
    // Whoever has the lease dies; the other one goes on within seconds.
    world.publish(&[refund_of("acme", "refund", "sale").expect(Expect::Posted), order("sale")]).await;
    wait_count(&world, "the reversal is posted", ENTRIES, 602).await;
    first.kill();
    world.publish(&[refund_of("acme", "refund-2", "sale-2").expect(Expect::Posted), order("sale-2")]).await;
    wait_count(&world, "the other one takes over", ENTRIES, 604).await;
    world.rest(&mut second).await;
    // The one that died may not have come to tell Redis what it had posted.
    world.invariants_after(Disturbed { redis: true }).await;
}

/// A row that no decoder can read, for whatever reason: it ends as a dead letter, and does not keep the inbox busy for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_message_that_cannot_be_read_any_more_becomes_a_dead_letter() {
    let world = World::new("unreadable_hold").await;
    let mut run = world.run_with(&SLOW_RETRIES).await;
    world.publish(&[order_of("acme", "held", "GBP", "10.00", "0")]).await;
    wait_count(&world, "a held event", HELD, 1).await;
    world.published.lock().unwrap().clear();
    world.sql("update fis_held set body = 'x', due_at = now()").await;
    wait_count(&world, "a letter", "select count(*) from fis_dead_letter where reason = 'malformed_json'", 1).await;
    wait_count(&world, "nothing is held", HELD, 0).await;
    let letter = "select concat_ws(' ', tenant_id, event_id, amount, currency) from fis_dead_letter";
    assert_eq!(texts(&world, letter).await, ["acme held 10.00 GBP"], "its row says whose it is, and how much");
    world.rest(&mut run).await;
    world.invariants().await;
}
