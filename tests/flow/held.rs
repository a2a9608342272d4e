//! Held events: they come back when their cause is gone, or when somebody calls them, and never for nothing.

use serde_json::{Value, json};

use crate::support::events::{Expect, Message, books, order, order_of, refund_of};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

/// Nothing comes back by itself within a test.
const SLOW_RETRIES: [(&str, &str); 2] =
    [("FIS__RETRY__BASE_DELAY_SECONDS", "3600"), ("FIS__RETRY__JITTER_SECONDS", "0")];

async fn wait_held(world: &World, count: i64) {
    wait_until("held events", async || same(world.count("select count(*) from fis_held").await, count)).await;
}

async fn wait_posted(world: &World, count: i64) {
    wait_until("entries", async || same(world.count("select count(*) from fis_journal_entry").await, count)).await;
}

async fn texts(world: &World, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(&world.pool).await.unwrap()
}

/// The rule of a refund waits for an hour.
#[tokio::test(flavor = "multi_thread")]
async fn a_reversal_comes_back_when_its_original_is_posted() {
    let world = World::new("original_posted").await;
    let mut run = world.run().await;
    world
        .publish(&[refund_of("acme", "refund", "sale").expect(Expect::Posted), refund_of("acme", "other", "never")])
        .await;
    wait_held(&world, 2).await;
    assert_eq!(texts(&world, "select waits_for from fis_held order by 1").await, ["event:never", "event:sale"]);
    world.publish(&[order("sale")]).await;
    wait_posted(&world, 2).await;
    world.rest(&mut run).await;
    let left = "select concat_ws(' ', event_id, attempts, due_at - last_held_at > interval '59 minutes') from fis_held";
    assert_eq!(texts(&world, left).await, ["other 1 t"], "who waits for something else is left alone");
    world.invariants().await;
}

/// Both are in the queue before the service starts: one batch takes them, and one transaction holds and releases.
#[tokio::test(flavor = "multi_thread")]
async fn a_reversal_whose_original_follows_in_the_same_batch_comes_back_at_once() {
    let world = World::new("same_batch").await;
    world.publish(&[refund_of("acme", "refund", "sale").expect(Expect::Posted), order("sale")]).await;
    let mut run = world.run().await;
    wait_posted(&world, 2).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_books_release_what_waited_for_them_and_nothing_else() {
    let world = World::new("new_books").await;
    let held = books("acme").replace("\"next_open\"", "\"hold\"");
    world.apply_books(&held).await;
    let mut run = world.run_with(&SLOW_RETRIES).await;
    let mut late: Value = order("late").value();
    late["occurredAt"] = json!("2100-01-15T10:00:00Z");
    world
        .publish(&[
            order_of("acme", "gbp", "GBP", "10.00", "0"),
            order_of("acme", "chf", "CHF", "10.00", "0").expect(Expect::Held),
            Message::json("ecommerce.order.completed", &late),
            refund_of("acme", "refund", "never"),
        ])
        .await;
    wait_held(&world, 4).await;
    assert_eq!(
        texts(&world, "select waits_for from fis_held order by 1").await,
        ["event:never", "period:2100-01-15", "rate:CHF/EUR@2026-02-25", "rate:GBP/EUR@2026-02-25"]
    );
    let rate = "\n[[rates]]\nfrom = \"GBP\"\nto = \"EUR\"\ndate = 2026-01-01\nrate = \"1.15\"\n";
    let file = world.file("acme.toml", format!("{held}{rate}"));
    world.fis(&["books", "apply", &file, "--yes"]).await.expect(0, &["version 3", "released 1 held event"]);
    wait_posted(&world, 1).await;
    let period = "\n[[periods]]\nname = \"far\"\nstarts = 2100-01-01\nends = 2100-12-31\nstatus = \"open\"\n";
    let file = world.file("acme.toml", format!("{held}{rate}{period}"));
    let applied = world.fis(&["books", "apply", &file, "--yes", "--json"]).await.expect(0, &[]).json();
    assert_eq!((&applied["applied"], &applied["released"]), (&json!(true), &json!(1)));
    wait_posted(&world, 2).await;
    world.rest(&mut run).await;
    assert_eq!(texts(&world, "select event_id from fis_journal_entry order by seq").await, ["gbp", "late"]);
    let left = "select concat_ws(' ', event_id, attempts, due_at - last_held_at > interval '59 minutes')
                  from fis_held order by 1";
    assert_eq!(texts(&world, left).await, ["chf 1 t", "refund 1 t"], "their cause is still there");
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_event_that_is_sent_again_and_rejected_is_held_no_more() {
    let world = World::new("held_ghost").await;
    let mut run = world.run_with(&SLOW_RETRIES).await;
    let sale = |total| order_of("acme", "ghost", "GBP", total, "0").rejected("rule_not_found");
    world.publish(&[sale("10.00")]).await;
    wait_held(&world, 1).await;
    world.apply_books(&books("acme").replace("ecommerce.order.completed", "ecommerce.order.shipped")).await;

    let parked = async |count: i64| {
        wait_until("dead letters", async || same(world.count("select count(*) from fis_dead_letter").await, count))
            .await;
    };
    world.publish(&[sale("11.00")]).await;
    parked(1).await;
    assert_eq!(world.count("select count(*) from fis_held").await, 1, "other content says nothing of what is held");
    world.publish(&[sale("10.00")]).await;
    parked(2).await;
    assert_eq!(world.count("select count(*) from fis_held").await, 0, "held and a dead letter at the same time");
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn held_events_are_listed_and_released_by_hand() {
    let world = World::new("by_hand_held").await;
    let mut run = world.run_with(&SLOW_RETRIES).await;
    world
        .publish(&[
            refund_of("acme", "refund", "never"),
            order_of("acme", "gbp", "GBP", "10.00", "0").expect(Expect::Held),
        ])
        .await;
    wait_held(&world, 2).await;

    let listed = world.fis(&["held", "list", "--json"]).await.expect(0, &[]).json();
    assert_eq!(listed["total"], json!(2));
    let listed = world.fis(&["held", "list", "--tenant", "acme", "--reason", "fx_rate_missing", "--json"]).await.json();
    let [event] = &listed["held"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!((&event["eventId"], &event["waitsFor"]), (&json!("gbp"), &json!("rate:GBP/EUR@2026-02-25")));
    world.fis(&["held", "list", "--limit", "1"]).await.expect(0, &["1 of 2 held events"]);
    world.fis(&["held", "list", "--reason", "period_not_open"]).await.expect(0, &["Nothing is held."]);
    world.fis(&["held", "list", "--reason", "nonsense"]).await.expect(2, &["fx_rate_missing"]);

    // Nobody sits at the terminal.
    world.fis(&["held", "release"]).await.expect(2, &["--yes"]);
    assert_eq!(world.count("select max(attempts)::bigint from fis_held").await, 1);
    // Named ones need no confirmation. Each comes back, finds its cause still there, and is held again.
    let attempts = async |expected: &[&str]| {
        wait_until("it came back", async || {
            let seen = texts(&world, "select event_id || ' ' || attempts from fis_held order by 1").await;
            same(seen, expected.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        })
        .await;
    };
    world.fis(&["held", "release", "--tenant", "acme", "gbp"]).await.expect(0, &["gbp: released"]);
    attempts(&["gbp 2", "refund 1"]).await;
    world.fis(&["held", "release", "--tenant", "acme", "nobody"]).await.expect(1, &["nobody: not held"]);
    let said = world.fis(&["held", "release", "--reason", "original_not_posted", "--yes", "--json"]).await;
    assert_eq!(said.expect(0, &[]).json()["released"], json!(1));
    attempts(&["gbp 2", "refund 2"]).await;
    let by = ["held", "release", "--yes", "--why", "the rate came", "--by", "anna"];
    world.fis(&by).await.expect(0, &["released 2 of 2 held events"]);
    attempts(&["gbp 3", "refund 3"]).await;
    let log = "select by || ': ' || detail || ': ' || why from fis_operator_log where act = 'release' order by id desc limit 1";
    assert_eq!(texts(&world, log).await, ["anna: released 2 held events of all tenants: the rate came"]);
    assert_eq!(world.count("select count(*) from fis_operator_log where act = 'release'").await, 3);
    world.rest(&mut run).await;
    world.invariants().await;
}

/// Retries come back by themselves every second, by their originals and by hand, all at once, with copies among them.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_comes_early_late_or_twice_posts_once_and_leaves_nothing_behind() {
    let world = World::new("release_race").await;
    let environment = [
        ("FIS__RETRY__BASE_DELAY_SECONDS", "1"),
        ("FIS__RETRY__MAX_DELAY_SECONDS", "1"),
        ("FIS__RETRY__JITTER_SECONDS", "1"),
        ("FIS__RETRY__MAX_RETRIES", "1000"),
    ];
    let mut runs = [world.run_with(&environment).await, world.run_with(&environment).await];
    let cancel = |n: usize| crate::support::events::cancellation(&format!("cancel-{n}"), &format!("sale-{n}"));
    let cancellations: Vec<Message> = (0..60).flat_map(|n| [cancel(n), cancel(n % 7)]).collect();
    world.publish(&cancellations).await;
    let release = async {
        loop {
            let filter = fis::store::held::HeldFilter::default();
            let who =
                fis::domain::operator::Operator::new("anna", "", fis::domain::operator::Through::Service).unwrap();
            fis::journal::held::release_matching(&world.pool, &filter, &who).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let orders = async {
        for chunk in (0..60).collect::<Vec<_>>().chunks(10) {
            world.publish(&chunk.iter().map(|n| order(&format!("sale-{n}"))).collect::<Vec<_>>()).await;
        }
        wait_posted(&world, 120).await;
    };
    tokio::select! {
        () = release => {}
        () = orders => {}
    }
    world.quiet().await;
    for run in &mut runs {
        run.terminate().await;
    }
    assert_eq!(world.count("select count(*) from fis_held").await, 0);
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_envelope_lowers_the_number_of_attempts() {
    let world = World::new("max_attempts").await;
    let environment = [("FIS__RETRY__BASE_DELAY_SECONDS", "0"), ("FIS__RETRY__JITTER_SECONDS", "0")];
    let mut run = world.run_with(&environment).await;
    let capped = json!({
        "id": "capped", "action": "ecommerce.order.cancelled", "tenant_id": "acme", "attempts": 0, "max_attempts": 1,
        "payload": {"orderId": "1", "orderEventId": "never"},
    });
    world.publish(&[Message::json("jobs", &capped).rejected("attempts_exhausted")]).await;
    world.rest(&mut run).await;
    let details = texts(&world, "select detail from fis_dead_letter").await;
    assert!(details[0].starts_with("gave up after 1 retries: original_not_posted"), "{details:?}");
    world.invariants().await;
}
