//! The command line and the service die in the middle of a replay, an edit or a discard: nothing is lost, nothing doubled, and
//! every letter's state is true.

use std::time::Duration;

use fis::platform::faults;

use crate::support::events::{Message, books, payment};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const PARKED: &str = "select count(*) from fis_dead_letter where status = 'parked'";
const RESOLVED: &str = "select count(*) from fis_dead_letter where status = 'resolved' and entry_id is not null";

/// The points of the command line's own transactions; `crash_points.rs` has those of the service.
pub const BY_HAND: [&str; 6] = [
    faults::BEFORE_REPLAY,
    faults::AFTER_REPLAY,
    faults::BEFORE_EDIT,
    faults::AFTER_EDIT,
    faults::BEFORE_DISCARD,
    faults::AFTER_DISCARD,
];

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

/// Every letter is either parked with nothing on its way, or replaying with exactly its one message on its way.
async fn states_are_true(world: &World) {
    let untrue = "select count(*) from fis_dead_letter d
                   where (status = 'replaying') <> exists (select from fis_outbox o
                          where o.message_id = 'replay/' || d.replay_id || '/' || d.id)";
    assert_eq!(world.count(untrue).await, 0);
    let moves = "select count(*) from fis_dead_letter d
                  where (status <> 'parked') <> exists (select from fis_operator_log l where l.letter_id = d.id and l.act in ('replay', 'discard'))";
    assert_eq!(world.count(moves).await, 0, "every move is in the log, and no other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_killed_at_any_point_is_resumed_and_doubles_nothing() {
    for point in [faults::BEFORE_REPLAY, faults::AFTER_REPLAY] {
        let world = parked(point, 12).await;
        world.apply_books(&mended()).await;
        die(&world, &["dlq", "replay", "--all", "--rate", "4", "--yes"], point).await;
        states_are_true(&world).await;
        die(&world, &["dlq", "replay", "--resume", "1"], point).await;
        states_are_true(&world).await;
        let mut run = world.run().await;
        world
            .fis(&["dlq", "replay", "--resume", "1", "--rate", "1000"])
            .await
            .expect(0, &["12 of 12 dead letters resolved"]);
        world.rest(&mut run).await;
        assert_eq!(world.count("select count(*) from fis_operator_log where act = 'replay'").await, 12);
        world.invariants().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_killed_at_any_point_sends_one_copy_or_none() {
    for (point, sent) in [(faults::BEFORE_EDIT, false), (faults::AFTER_EDIT, true)] {
        let world = parked(point, 1).await;
        world.published.lock().unwrap().clear();
        let id: String = sqlx::query_scalar("select id from fis_dead_letter").fetch_one(&world.pool).await.unwrap();
        let edit = ["dlq", "edit", &id, "--set", "/payload/account=1100", "--why", "typo", "--yes"];
        die(&world, &edit, point).await;
        states_are_true(&world).await;
        assert_eq!(world.count("select count(*) from fis_dead_letter_edit").await, i64::from(sent));
        let mut run = world.run().await;
        if !sent {
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
    for (point, left) in [(faults::BEFORE_DISCARD, 3), (faults::AFTER_DISCARD, 0)] {
        let world = parked(point, 3).await;
        die(&world, &["dlq", "discard", "--all", "--why", "test"], point).await;
        assert_eq!(world.count(PARKED).await, left);
        states_are_true(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_killed_while_replays_are_posted_resolves_each_once() {
    for point in [faults::BEFORE_COMMIT, faults::AFTER_COMMIT, faults::AFTER_MARK, faults::AFTER_PUBLISH] {
        let world = parked(point, 10).await;
        world.apply_books(&mended()).await;
        world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(0, &["10  under way"]);
        let mut doomed = world.spawn(&[("FIS_FAILPOINT", point)]);
        doomed.exited(Duration::from_secs(60)).await;
        assert!(doomed.aborted(), "{point} was not reached");
        let mut run = world.run().await;
        wait_until("all are resolved", async || same(world.count(RESOLVED).await, 10)).await;
        world.rest(&mut run).await;
        assert_eq!(world.count("select count(*) from fis_operator_log where act = 'resolve'").await, 10);
        world.invariants().await;
    }
}

/// Committed and not yet settled: the message comes again, and is known by its own letter.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_is_told_once_though_the_service_dies_before_the_broker_hears_of_it() {
    for point in [faults::AFTER_COMMIT, faults::AFTER_MARK] {
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
        assert_eq!(feed.of("fis.event.rejected").len(), 6);
    }
}
