//! The command line and the service die in the middle of a replay, a pause, an edit, a discard or a retry: nothing is lost, nothing doubled,
//! every letter's state is true, and a replay goes on by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use fis::faults::crash_points;

use crate::support::broker::Received;
use crate::support::events::{Expect, Message, books, order, payment, refund_of};
use crate::support::invariants::Disturbed;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const PARKED: &str = "select count(*) from fis_dead_letter where status = 'parked'";
const RESOLVED: &str = "select count(*) from fis_dead_letter where status = 'resolved' and entry_id is not null";
const HELD: &str = "select count(*) from fis_held";
const ENTRIES: &str = "select count(*) from fis_journal_entry";

/// The points of the command line's own transactions; `crash_points.rs` has those of the service.
pub const BY_HAND: [&str; 9] = [
    crash_points::AFTER_CHOOSE,
    crash_points::BEFORE_START,
    crash_points::AFTER_START,
    crash_points::BEFORE_PAUSE,
    crash_points::AFTER_PAUSE,
    crash_points::BEFORE_EDIT,
    crash_points::AFTER_EDIT,
    crash_points::BEFORE_DISCARD,
    crash_points::AFTER_DISCARD,
];

/// The points of the inbox, and of those who call its events back.
pub const INBOX: [&str; 5] = [
    crash_points::INBOX_READ,
    crash_points::BEFORE_INBOX_COMMIT,
    crash_points::AFTER_INBOX_COMMIT,
    crash_points::BEFORE_RELEASE,
    crash_points::AFTER_RELEASE,
];

/// The points that the service passes while it posts a batch of the inbox.
const POSTING: [&str; 3] =
    [crash_points::INBOX_READ, crash_points::BEFORE_INBOX_COMMIT, crash_points::AFTER_INBOX_COMMIT];

fn mended() -> String {
    books("acme") + "\n[[accounts]]\ncode = \"9999\"\nname = \"New\"\ntype = \"income\"\n"
}

async fn parked(name: &str, count: usize) -> World {
    let world = World::new(name).await;
    let messages: Vec<Message> = (0..count).map(|n| payment(&format!("evt-{n}"), "9999", "1.50")).collect();
    world.publish(&messages).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    assert_eq!(world.count(PARKED).await, i64::try_from(count).unwrap());
    world
}

/// Runs a command into its death.
async fn die(world: &World, args: &[&str], point: &str) {
    let mut doomed = world.start(args, &[("FIS_FAILPOINT", point)]);
    doomed.exited(Duration::from_secs(60)).await;
    assert!(doomed.aborted(), "{point} was not reached: {}", doomed.log());
}

/// A letter that is not parked any more says so in the log, and a replay's figures are those of its letters.
async fn states_are_true(world: &World) {
    let moves = "select count(*) from fis_dead_letter d
                  where (status <> 'parked') <> exists (select from fis_operator_log l
                                                         where l.letter_id = d.id and l.to_status = d.status and l.act <> 'park')";
    assert_eq!(world.count(moves).await, 0, "every move is in the log, and no other");
    let figures = "select count(*) from fis_replay r
                    where decided - skipped - failed
                          <> (select count(*) from fis_dead_letter d where d.replay_id = r.id and d.status <> 'parked')";
    assert_eq!(world.count(figures).await, 0, "what a replay has decided is what became of its letters");
}

async fn state(world: &World, replay: i64) -> String {
    let state = sqlx::query_scalar("select state from fis_replay where id = $1");
    state.bind(replay).fetch_one(&world.pool).await.unwrap()
}

async fn done(world: &World, replay: i64) {
    wait_until("the replay is done", async || same(state(world, replay).await, "done".to_owned())).await;
}

/// Runs a service into its death.
async fn service_dies(world: &World, point: &str) {
    let mut doomed = world.spawn(&[("FIS_FAILPOINT", point)]);
    doomed.exited(Duration::from_secs(60)).await;
    assert!(doomed.aborted(), "{point} was not reached: {}", doomed.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_whose_command_is_killed_before_it_starts_never_runs() {
    for point in [crash_points::AFTER_CHOOSE, crash_points::BEFORE_START] {
        let world = parked(point, 12).await;
        world.apply_books(&mended()).await;
        die(&world, &["dlq", "replay", "--all", "--yes"], point).await;
        assert_eq!(state(&world, 1).await, "chosen");
        world.fis(&["run", "--once"]).await.expect(0, &[]);
        assert_eq!(world.count(PARKED).await, 12, "nobody has confirmed it, as far as anybody knows");
        world.fis(&["dlq", "replay", "--resume", "1"]).await.expect(1, &["replay 1 is chosen; nothing was done"]);
        world.fis(&["dlq", "replay", "--stop", "1", "--yes"]).await.expect(0, &["stopped"]);
        let mut run = world.run().await;
        world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(0, &["replay 2: 12 of 12 dead letters resolved"]);
        world.rest(&mut run).await;
        states_are_true(&world).await;
        world.invariants().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_whose_command_is_killed_after_it_started_is_done_by_the_service() {
    let world = parked("killed_after_start", 12).await;
    world.apply_books(&mended()).await;
    die(&world, &["dlq", "replay", "--all", "--yes"], crash_points::AFTER_START).await;
    assert_eq!(state(&world, 1).await, "running");
    let mut run = world.run().await;
    done(&world, 1).await;
    world.rest(&mut run).await;
    assert_eq!(world.count(RESOLVED).await, 12);
    states_are_true(&world).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_killed_at_any_point_pauses_or_does_not() {
    for (point, expected) in [(crash_points::BEFORE_PAUSE, "running"), (crash_points::AFTER_PAUSE, "paused")] {
        let world = parked(point, 24).await;
        world.apply_books(&mended()).await;
        world.fis(&["dlq", "replay", "--all", "--rate", "4", "--yes"]).await.expect(0, &["No fis service is running"]);
        let mut run = world.run().await;
        die(&world, &["dlq", "replay", "--pause", "1"], point).await;
        assert_eq!(state(&world, 1).await, expected);
        states_are_true(&world).await;
        world.fis(&["dlq", "replay", "--resume", "1"]).await.expect(0, &["24 of 24 dead letters resolved"]);
        world.rest(&mut run).await;
        states_are_true(&world).await;
        world.invariants().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_killed_at_any_point_books_one_copy_or_none() {
    for (point, stored) in [(crash_points::BEFORE_EDIT, false), (crash_points::AFTER_EDIT, true)] {
        let world = parked(point, 1).await;
        world.published.lock().unwrap().clear();
        let id: String = sqlx::query_scalar("select id from fis_dead_letter").fetch_one(&world.pool).await.unwrap();
        let edit = ["dlq", "edit", &id, "--set", "/payload/account=1100", "--why", "typo", "--yes"];
        die(&world, &edit, point).await;
        states_are_true(&world).await;
        assert_eq!(world.count("select count(*) from fis_dead_letter_edit").await, i64::from(stored));
        let mut run = world.run().await;
        if !stored {
            world.fis(&edit).await.expect(0, &[]);
        }
        wait_until("resolved", async || same(world.count(RESOLVED).await, 1)).await;
        world.rest(&mut run).await;
        assert_eq!(world.count("select count(*) from fis_entry_edit").await, 1);
        assert_eq!(world.count("select count(*) from fis_journal_entry").await, 1);
        world.invariants().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discard_killed_at_any_point_discards_all_or_none() {
    for (point, left) in [(crash_points::BEFORE_DISCARD, 3), (crash_points::AFTER_DISCARD, 0)] {
        let world = parked(point, 3).await;
        die(&world, &["dlq", "discard", "--all", "--why", "test", "--yes"], point).await;
        assert_eq!(world.count(PARKED).await, left);
        states_are_true(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_killed_while_a_replay_runs_resolves_each_letter_once_and_goes_on_by_itself() {
    for point in POSTING {
        let world = parked(point, 40).await;
        world.apply_books(&mended()).await;
        // In many steps, so that the second life dies in another one than the first.
        let replay = ["dlq", "replay", "--all", "--rate", "20", "--yes"];
        world.fis(&replay).await.expect(0, &["No fis service is running. The 40 letters are safe"]);
        for _ in 0..2 {
            service_dies(&world, point).await;
            states_are_true(&world).await;
        }
        let mut run = world.run().await;
        done(&world, 1).await;
        world.rest(&mut run).await;
        assert_eq!(world.count(RESOLVED).await, 40);
        assert_eq!(world.count("select count(*) from fis_operator_log where act = 'resolve'").await, 40);
        states_are_true(&world).await;
        // Nobody comes again to mark what was committed when the service died: such a key is missing, and lies about nothing.
        world.invariants_after(Disturbed { redis: true }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_killed_while_held_events_are_retried_posts_each_once() {
    for point in POSTING {
        let world = held(point, 5).await;
        // The orders call them back.
        world.publish(&(0..5).map(|n| order(&format!("sale-{n}"))).collect::<Vec<_>>()).await;
        service_dies(&world, point).await;
        let mut run = world.run().await;
        wait_until("all are posted", async || same(world.count(ENTRIES).await, 10)).await;
        world.rest(&mut run).await;
        assert_eq!(world.count(HELD).await, 0);
        // Nobody comes again to mark what was committed when the service died: such a key is missing, and lies about nothing.
        world.invariants_after(Disturbed { redis: true }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_killed_at_any_point_calls_all_back_or_none() {
    for (point, due) in [(crash_points::BEFORE_RELEASE, 0), (crash_points::AFTER_RELEASE, 2)] {
        let world = held(point, 2).await;
        die(&world, &["held", "release", "--tenant", "acme", "refund-0", "refund-1"], point).await;
        assert_eq!(world.count("select count(*) from fis_held where due_at <= now()").await, due);
        world.publish(&[order("sale-0"), order("sale-1")]).await;
        let mut run = world.run().await;
        wait_until("all are posted", async || same(world.count(ENTRIES).await, 4)).await;
        world.rest(&mut run).await;
        assert_eq!(world.count(HELD).await, 0);
        world.invariants().await;
    }
}

/// Refunds of orders that nobody has seen; each is posted in the end.
async fn held(name: &str, count: usize) -> World {
    let world = World::new(name).await;
    let refund = |n: usize| refund_of("acme", &format!("refund-{n}"), &format!("sale-{n}")).expect(Expect::Posted);
    world.publish(&(0..count).map(refund).collect::<Vec<_>>()).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    assert_eq!(world.count(HELD).await, i64::try_from(count).unwrap());
    world
}

/// Committed and not yet settled: the message comes again, and is known by its own letter.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_is_told_once_though_the_service_dies_before_the_broker_hears_of_it() {
    for point in [crash_points::AFTER_COMMIT, crash_points::AFTER_MARK] {
        let world = World::new(point).await;
        let bad = |n: i32| payment(&format!("evt-{n}"), "9999", "1.50").rejected("unknown_account");
        world.publish(&(0..5).map(bad).collect::<Vec<_>>()).await;
        let mut doomed = world.spawn(&[("FIS_FAILPOINT", point)]);
        doomed.exited(Duration::from_secs(60)).await;
        assert!(doomed.aborted(), "{point} was not reached");
        assert!(world.count(PARKED).await > 0, "nothing was committed");
        let mut run = world.run().await;
        wait_until("all are parked", async || same(world.count(PARKED).await, 5)).await;
        world.quiet().await;
        assert_eq!(world.count("select sum(attempts)::bigint from fis_dead_letter").await, 5);
        // The publisher's own second sending is a second rejection.
        world.publish(&[bad(3)]).await;
        let attempts = "select attempts::bigint from fis_dead_letter where event_id = 'evt-3'";
        wait_until("another attempt", async || same(world.count(attempts).await, 2)).await;
        world.rest(&mut run).await;
        let feed = world.invariants().await;
        // A relay that died before it removed its rows has them sent again, under the same ids.
        let told: BTreeSet<String> = feed.of("fis.event.rejected").into_iter().map(Received::message_id).collect();
        assert_eq!(told.len(), 6);
    }
}
