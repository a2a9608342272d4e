//! The mirror: for as long as the readers move, a second exchange gets what the feed gets, and the feed does not notice.

use fis::platform::time::now;
use serde_json::json;

use crate::support::broker::Received;
use crate::support::events::{order, order_of};
use crate::support::process::Run;
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

const EXCHANGE: &str = "new.journal";
const QUEUE: &str = "new.queue";
const ON: [(&str, &str); 2] = [("FIS__OUTBOX__MIRROR__ENABLED", "true"), ("FIS__OUTBOX__MIRROR__EXCHANGE", EXCHANGE)];

async fn declare_exchange(world: &World) {
    let body = json!({"type": "fanout", "durable": true});
    world.management.put_json(&world.management.object_path("exchanges", EXCHANGE), &body).await.unwrap();
}

async fn until_it_says(run: &Run, words: &'static str) {
    wait_until(words, async || {
        let log = run.log();
        if log.contains(words) { Ok(()) } else { Err(log.lines().last().unwrap_or_default().to_owned()) }
    })
    .await;
}

/// What is shown of the mirror at `/readyz`, whose status must be 200.
async fn until_ready_says(run: &Run, words: &'static str) {
    wait_until(words, async || {
        let (status, ready) = run.get("/readyz").await;
        if status == 200 && ready.contains(words) { Ok(()) } else { Err(format!("{status} {ready}")) }
    })
    .await;
}

async fn counted(run: &Run, name: &str) -> u64 {
    let (_, metrics) = run.get("/metrics").await;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    line.unwrap_or_default()
}

type Seen = (String, String, Vec<u8>, String);

/// A message, with all of its properties.
fn seen(message: &Received) -> Seen {
    let properties = format!("{:?}", message.properties);
    (message.message_id(), message.routing_key.clone(), message.body.clone(), properties)
}

fn of_tenant(messages: &[Received], tenant: &str) -> Vec<Seen> {
    messages.iter().filter(|message| message.data()["tenantId"] == tenant).map(seen).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_journal_event_arrives_on_the_mirror_with_the_same_bytes_and_id_in_order() {
    let world = World::with("mirror", Setup { tenants: &["acme", "globex"], ..Setup::default() }).await;
    // Posted before the mirror is switched on for the first time: not mirrored.
    let mut run = world.run().await;
    world.publish(&[order("before")]).await;
    let mut feed = world.finance().await;
    feed.read(1).await;
    run.terminate().await;
    declare_exchange(&world).await;
    world.declare_queue(QUEUE, EXCHANGE, "").await;

    // One of two mirrors.
    let mut run = world.run_with(&ON).await;
    let mut other = world.run_with(&ON).await;
    for run in [&run, &other] {
        until_it_says(run, "every journal event is also published to new.journal, without an end").await;
    }
    // More than a window, of two tenants, one of whom is new to the mirror.
    let orders = (0..300)
        .flat_map(|n| [order(&format!("evt-{n}")), order_of("globex", &format!("evt-{n}"), "EUR", "119.00", "19.00")]);
    world.publish(&orders.collect::<Vec<_>>()).await;
    feed.read(601).await;
    let mut mirror = world.reader(QUEUE).await;
    mirror.read(600).await;
    for tenant in ["acme", "globex"] {
        let expected = of_tenant(&feed.messages[1..], tenant);
        let found = of_tenant(&mirror.messages, tenant);
        assert_eq!(found.len(), 300, "{tenant}");
        assert_eq!(found, expected, "{tenant}");
    }
    let mut mirrored = 0;
    for run in [&run, &other] {
        until_ready_says(run, r#""mirror":"ok""#).await;
        mirrored += counted(run, "fis_outbox_mirrored_total").await;
    }
    assert_eq!(mirrored, 600);
    other.terminate().await;
    run.terminate().await;

    // What was posted while it was off is caught up with: it goes on where it was, and repeats nothing.
    let mut run = world.run().await;
    world.publish(&[order("off")]).await;
    feed.read(602).await;
    run.terminate().await;
    let mut run = world.run_with(&ON).await;
    assert_eq!(mirror.read(601).await.len(), 601);
    assert_eq!(seen(&mirror.messages[600]), seen(&feed.messages[601]));
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_mirror_never_holds_the_feed_back_and_is_caught_up_with_when_it_appears() {
    let world = World::new("mirror_missing").await;
    let mut run = world.run_with(&ON).await;
    until_ready_says(&run, "no exchange 'new.journal'").await;
    world.publish(&(0..50).map(|n| order(&format!("evt-{n}"))).collect::<Vec<_>>()).await;
    let mut feed = world.finance().await;
    feed.read(50).await;
    assert_eq!(run.log().matches("\"relaying\"").count(), 1, "the session of the feed was never lost");
    assert!(counted(&run, "fis_outbox_mirror_failed_total").await > 0);

    // `fis run` does not declare it; the operator does. Without a queue nothing is taken for delivered.
    let said = world.fis_with(&["topology", "apply"], &ON).await;
    said.expect(0, &["created  exchange new.journal"]);
    until_ready_says(&run, "bind a queue to the exchange").await;
    assert_eq!(world.count("select coalesce(max(seq), 0) from fis_mirror_cursor").await, 0);
    world.publish(&[order("later")]).await;
    feed.read(51).await;

    world.declare_queue(QUEUE, EXCHANGE, "").await;
    let mut mirror = world.reader(QUEUE).await;
    mirror.read(51).await;
    assert_eq!(
        mirror.messages.iter().map(seen).collect::<Vec<_>>(),
        feed.messages.iter().map(seen).collect::<Vec<_>>()
    );
    until_ready_says(&run, r#""mirror":"ok""#).await;
    wait_until("the cursor follows", async || same(world.count("select seq from fis_mirror_cursor").await, 51)).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// As with the relay: a channel may refuse for longer than the queue does.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_refusal_the_mirror_goes_on_with_a_new_channel_and_the_feed_does_not_notice() {
    let world = World::new("mirror_refused").await;
    declare_exchange(&world).await;
    world.declare_queue(QUEUE, EXCHANGE, "").await;
    let mut run = world.run_with(&ON).await;
    let policy = world.fill_up(QUEUE).await;
    let mut published = 0;
    wait_until("the mirror is refused", async || {
        published += 1;
        world.publish(&[order(&format!("evt-{published}"))]).await;
        let (status, ready) = run.get("/readyz").await;
        if status == 200 && ready.contains("refused a message") { Ok(()) } else { Err(format!("{status} {ready}")) }
    })
    .await;
    let mut feed = world.finance().await;
    feed.read(published).await;
    world.until_a_channel_is_renewed("fis mirror").await;
    world.management.delete(&policy).await.unwrap();
    let mut mirror = world.reader(QUEUE).await;
    mirror.read(published).await;
    assert_eq!(of_tenant(&mirror.messages, "acme"), of_tenant(&feed.messages, "acme"));
    until_ready_says(&run, r#""mirror":"ok""#).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn past_its_end_nothing_is_mirrored_and_the_log_says_so() {
    let world = World::new("mirror_until").await;
    declare_exchange(&world).await;
    world.declare_queue(QUEUE, EXCHANGE, "").await;
    let until = (now() + chrono::Duration::seconds(15)).to_rfc3339();
    let settings = [ON[0], ON[1], ("FIS__OUTBOX__MIRROR__UNTIL", until.as_str())];
    let mut run = world.run_with(&settings).await;
    until_it_says(&run, "every journal event is also published to new.journal, until ").await;
    world.publish(&[order("within")]).await;
    let mut mirror = world.reader(QUEUE).await;
    mirror.read(1).await;
    until_it_says(&run, "nothing is mirrored to new.journal any more; 0 entries were left out").await;
    world.publish(&[order("beyond")]).await;
    let mut feed = world.finance().await;
    feed.read(2).await;
    let (status, ready) = run.get("/readyz").await;
    assert!(status == 200 && !ready.contains("mirror"), "{ready}");
    assert!(run.is_running());
    run.terminate().await;

    let mut run = world.run_with(&settings).await;
    until_it_says(&run, "outbox.mirror.until is past: nothing is mirrored to new.journal").await;
    world.publish(&[order("after")]).await;
    feed.read(3).await;
    run.terminate().await;
    mirror.drain().await;
    assert_eq!(mirror.messages.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_once_mirrors_what_it_posts() {
    let world = World::new("mirror_once").await;
    declare_exchange(&world).await;
    world.declare_queue(QUEUE, EXCHANGE, "").await;
    world.publish(&(0..20).map(|n| order(&format!("evt-{n}"))).collect::<Vec<_>>()).await;
    world.fis_with(&["run", "--once"], &ON).await.expect(0, &[]);
    let mut mirror = world.reader(QUEUE).await;
    assert_eq!(mirror.read(20).await.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_cannot_be_meant_is_refused_by_the_name_of_its_setting() {
    let world = World::with("mirror_settings", Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    let rows = [
        ("FIS__OUTBOX__MIRROR__EXCHANGE", "", &["outbox.mirror.exchange", "must name an exchange"][..]),
        ("FIS__OUTBOX__MIRROR__EXCHANGE", "fis.domain.exchange", &["outbox.mirror.exchange", "fis's own"]),
        ("FIS__OUTBOX__MIRROR__EXCHANGE", "fis.urgent.exchange", &["outbox.mirror.exchange", "fis's own"]),
        ("FIS__OUTBOX__MIRROR__UNTIL", "soon", &["outbox.mirror.until", "2027-01-31"]),
        ("FIS__OUTBOX__MIRROR__KIND", "headers", &["outbox.mirror.kind", "fanout, topic or direct"]),
        ("FIS__OUTBOX__MIRROR__ENABLED", "on", &["outbox.mirror.enabled", "true or false"]),
        ("FIS__OUTBOX__MIRROR__QUEUE", "q", &["outbox.mirror.queue", "outbox.mirror.exchange"]),
    ];
    for (name, value, words) in rows {
        let settings = [ON[0], ON[1], (name, value)];
        world.fis_with(&["run"], &settings).await.expect(2, words);
    }
}
