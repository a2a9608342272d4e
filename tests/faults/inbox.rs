//! The instance that follows the inbox is stopped in the middle of a step, another one takes over, and the first one wakes up.

use std::time::Duration;

use crate::support::events::{Expect, Message, books, order_of, payment};
use crate::support::process::Run;
use crate::support::wait::{same, wait_until, wait_within};
use crate::support::world::World;

const LETTERS: i64 = 300;
/// On a busy machine a lease takes its time to end.
const LONG: Duration = Duration::from_secs(60);

/// The place in which an instance waits for the head of the tenant.
const WAITING: &str =
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_stopped_in_a_step_and_wakes_up_after_another_took_over_doubles_nothing() {
    let world = World::new("stopped_follower").await;
    let messages: Vec<Message> = (0..LETTERS).map(|n| payment(&format!("evt-{n}"), "9999", "1.50")).collect();
    world.publish(&messages).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.published.lock().unwrap().clear();
    // Without the account every letter fails again: a place that is decided twice would fail twice.
    let mut first = world.run().await;
    let mut lock = world.pool.begin().await.unwrap();
    sqlx::query("select from fis_chain_head where tenant_id = 'acme' for update").execute(&mut *lock).await.unwrap();
    world.fis(&["dlq", "replay", "--all", "--yes", "--no-wait"]).await.expect(0, &[]);
    wait_until("the first one's step waits for the head", async || same(world.count(WAITING).await, 1)).await;
    first.signal("STOP");
    let mut second = world.run().await;
    wait_within("the second one's step waits for the head too", LONG, async || same(world.count(WAITING).await, 2))
        .await;
    lock.rollback().await.unwrap();
    let done = "select count(*) from fis_replay where state = 'done'";
    // The first one's session has the lock now, and its process does not know: its step is given up by nobody but itself.
    first.signal("CONT");
    wait_within("the replay is done", LONG, async || same(world.count(done).await, 1)).await;
    let counted = "select decided * 1000000 + skipped * 1000 + failed from fis_replay";
    assert_eq!(world.count(counted).await, LETTERS * 1_000_000 + LETTERS, "each place has one verdict");
    let twice = "select count(*) from (select from fis_operator_log where act = 'fail' group by letter_id having count(*) > 1) x";
    assert_eq!(world.count(twice).await, 0);

    world.apply_books(&(books("acme") + "\n[[accounts]]\ncode = \"9999\"\nname = \"New\"\ntype = \"income\"\n")).await;
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(0, &["300 of 300 dead letters resolved"]);
    leave(&world, [&mut first, &mut second]).await;
}

/// A letter of an event that ends the process whenever it is looked at: whoever replays it without a thought must not stop the service for good.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_a_letter_that_kills_the_service_is_paused_after_some_deaths() {
    const LIVES_MAX: u32 = 12;
    let world = World::new("killer_letter").await;
    let bad = |id: &str| payment(id, "9999", "1.50").rejected("unknown_account");
    world.publish(&[bad("killer"), bad("other")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.fis(&["dlq", "replay", "--all", "--yes", "--no-wait"]).await.expect(0, &[]);
    let paused = "select count(*) from fis_replay where state = 'paused' and note like 'the service died 5 times%'";
    for life in 1.. {
        assert!(life <= LIVES_MAX, "it dies for ever");
        let mut run = world.spawn(&[("FIS_FAILPOINT", "event:killer")]);
        let is_paused = wait_within("it dies, or the replay is paused", LONG, async || {
            match (world.count(paused).await, run.is_running()) {
                (1, _) => Ok(true),
                (_, false) => Ok(false),
                (_, true) => Err(format!("life {life}")),
            }
        });
        if is_paused.await {
            world.rest(&mut run).await;
            break;
        }
    }
    assert_eq!(world.count("select count(*) from fis_dead_letter where status = 'parked'").await, 2);
    world.invariants().await;
}

/// A held event that ends the process whenever it is looked at: what waits beside it is posted all the same, and the service lives.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_event_that_kills_the_service_is_put_off_and_the_others_are_posted() {
    const LIVES_MAX: u32 = 12;
    let world = World::new("killer_held").await;
    let waits = |id: &str| order_of("acme", id, "GBP", "10.00", "0").expect(Expect::Posted);
    world.publish(&[waits("first"), waits("killer"), waits("last")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    assert_eq!(world.count("select count(*) from fis_held").await, 3);
    let rate = "\n[[rates]]\nfrom = \"GBP\"\nto = \"EUR\"\ndate = 2026-01-01\nrate = \"1.15\"\n";
    world.apply_books(&(books("acme") + rate)).await;
    let posted = "select count(*) from fis_journal_entry where event_id in ('first', 'last')";
    for life in 1.. {
        assert!(life <= LIVES_MAX, "it dies for ever");
        let mut run = world.spawn(&[("FIS_FAILPOINT", "event:killer")]);
        let is_posted = wait_within("it dies, or the others are posted", LONG, async || {
            match (world.count(posted).await, run.is_running()) {
                (2, true) => Ok(true),
                (_, false) => Ok(false),
                (posted, true) => Err(format!("life {life}, {posted} posted")),
            }
        });
        if is_posted.await {
            run.terminate().await;
            break;
        }
    }
    let put_off = "select count(*) from fis_held where event_id = 'killer' and due_at > now() + interval '50 minutes'";
    assert_eq!(world.count(put_off).await, 1);
    // Mended and called back, it is posted as any other.
    world.fis(&["held", "release", "--tenant", "acme", "killer"]).await.expect(0, &[]);
    let mut run = world.run().await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 3);
    world.invariants().await;
}

async fn leave(world: &World, runs: [&mut Run; 2]) {
    let [first, second] = runs;
    first.terminate().await;
    world.rest(second).await;
    world.invariants().await;
}
