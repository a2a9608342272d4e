//! The deliberate bugs are real: each is met once where it hurts, beside the same steps without it. That the storm suite finds
//! them by itself is for that suite to show.

use std::time::Duration;

use fis::faults::{crash_points, mutants};

use crate::support::broker::{AUDIT, FINANCE};
use crate::support::events::{Message, order, payment, refund_of};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const ENTRIES: &str = "select count(*) from fis_journal_entry";
const HELD: &str = "select count(*) from fis_held";
const PENDING: &str = "select count(*) from fis_outbox";

/// In which of the two lives the bug is switched on.
#[derive(PartialEq)]
enum Life {
    First,
    Second,
}

/// One event, a first life that dies at the point, a second one that finishes; how many are there then, without the mutant and
/// with it.
async fn counts(mutant: &str, life: Life, point: &str, event: Message, count: &'static str) -> [i64; 2] {
    let mut counts = [0; 2];
    for (place, mutant) in ["", mutant].into_iter().enumerate() {
        let world = World::new("mutant").await;
        let in_life = |this| if life == this { mutant } else { "" };
        world.publish(std::slice::from_ref(&event)).await;
        let mut doomed = world.spawn(&[("FIS_FAILPOINT", point), ("FIS_MUTANT", in_life(Life::First))]);
        doomed.exited(Duration::from_secs(60)).await;
        assert!(doomed.aborted(), "{point} was not reached");
        // The role that fis runs as cannot drop what one of the bugs drops.
        let url = if mutant == mutants::UNIQUE_DROPPED { &world.admin_url } else { &world.database_url };
        let environment = [("FIS_MUTANT", in_life(Life::Second)), ("FIS_DATABASE_URL", url)];
        world.fis_with(&["run", "--once"], &environment).await.expect(0, &[]);
        counts[place] = world.count(count).await;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acknowledged_before_the_commit_is_lost_in_a_crash() {
    let counts = counts(mutants::ACK_BEFORE_COMMIT, Life::First, crash_points::BEFORE_COMMIT, order("evt-1"), ENTRIES);
    assert_eq!(counts.await, [1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_acknowledged_before_the_commit_is_lost_in_a_crash() {
    let refund = refund_of("acme", "evt-1", "never");
    let counts = counts(mutants::HOLD_ACKED_BEFORE_COMMIT, Life::First, crash_points::BEFORE_COMMIT, refund, HELD);
    assert_eq!(counts.await, [1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn believing_in_processing_loses_what_comes_again() {
    let counts =
        counts(mutants::PROCESSING_IS_DUPLICATE, Life::Second, crash_points::AFTER_CLAIM, order("evt-1"), ENTRIES);
    assert_eq!(counts.await, [1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_look_up_and_the_constraint_an_event_is_posted_twice() {
    let counts = counts(mutants::UNIQUE_DROPPED, Life::Second, crash_points::AFTER_COMMIT, order("evt-1"), ENTRIES);
    assert_eq!(counts.await, [1, 2]);
}

/// An announcement that no queue takes must stay in the outbox.
async fn forgets_what_nobody_took(mutant: &str) {
    let world = World::new("mutant_relay").await;
    let mut run = world.run_with(&[("FIS_MUTANT", mutant)]).await;
    for queue in ["fis.journal.stream", FINANCE, AUDIT] {
        world.management.delete(&world.management.object_path("queues", queue)).await.unwrap();
    }
    world.publish(&[order("evt-1")]).await;
    wait_until("it is posted", async || same(world.count(ENTRIES).await, 1)).await;
    wait_until("the announcement is forgotten", async || same(world.count(PENDING).await, 0)).await;
    run.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_removed_before_its_confirm_is_lost() {
    forgets_what_nobody_took(mutants::MARK_BEFORE_CONFIRM).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_message_came_back_unheard_is_lost() {
    forgets_what_nobody_took(mutants::RETURN_IGNORED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_passes_a_row_that_commits_late() {
    let world = World::new("mutant_cursor").await;
    let mut run = world.run_with(&[("FIS_MUTANT", mutants::RELAY_BY_ID_CURSOR)]).await;
    let mut finance = world.finance().await;
    let mut late = world.pool.begin().await.unwrap();
    let row = "insert into fis_outbox (tenant_id, exchange, routing_key, message_id, properties, body)
               values ('acme', 'fis.domain.exchange', 'fis.late', 'late', '{}', '{}')";
    sqlx::query(row).execute(&mut *late).await.unwrap();
    world.publish(&[order("evt-1")]).await;
    finance.read(1).await;
    late.commit().await.unwrap();
    world.publish(&[order("evt-2")]).await;
    finance.read(2).await;
    wait_until("the other rows are removed", async || same(world.count(PENDING).await, 1)).await;
    assert_eq!(finance.of("fis.late").len(), 0, "the row that was there first is still there");
    run.kill();
}

/// Another instance is in the middle of posting: it has locked the head and written to the next place.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_lock_two_batches_want_the_same_place() {
    let mut refused = [0; 2];
    for (place, mutant) in ["", mutants::HEAD_NOT_LOCKED].into_iter().enumerate() {
        let world = World::new("mutant_head").await;
        let mut run = world.run_with(&[("FIS_MUTANT", mutant)]).await;
        let mut other = world.pool.begin().await.unwrap();
        for statement in [
            "select from fis_chain_head where tenant_id = 'acme' for update",
            "insert into fis_journal_entry (tenant_id, seq, event_id, event_type, payload_hash, accounting_date, posted_at,
                                            description, rule_name, rule_version, previous_hash, hash, lane)
             values ('acme', 1, 'other', 'a.b.c', repeat('0', 64), date '2026-01-31', now(), '', 'order', 1, repeat('0', 64),
                     repeat('1', 64), 'live')",
            "update fis_chain_head set seq = 1, hash = repeat('1', 64) where tenant_id = 'acme'",
        ] {
            sqlx::query(statement).execute(&mut *other).await.unwrap();
        }
        world.publish(&[order("evt-1")]).await;
        wait_until("the event waits for the other instance", async || {
            let waiting =
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
            same(world.count(waiting).await, 1)
        })
        .await;
        other.commit().await.unwrap();
        wait_until("it is decided", async || {
            let decided = "select (select count(*) from fis_journal_entry where event_id = 'evt-1')
                                + (select count(*) from fis_dead_letter where event_id = 'evt-1')";
            same(world.count(decided).await, 1)
        })
        .await;
        refused[place] = world.count("select count(*) from fis_dead_letter where reason = 'database_refused'").await;
        run.kill();
    }
    assert_eq!(refused, [0, 1]);
}

/// A reversal that is held, and whose original is posted in the same batch, is due at once; the first life dies while the inbox decides it.
#[tokio::test(flavor = "multi_thread")]
async fn what_leaves_the_inbox_before_its_commit_is_lost_in_a_crash() {
    let mut reversals = [0; 2];
    for (place, mutant) in ["", mutants::INBOX_REMOVED_EARLY].into_iter().enumerate() {
        let world = World::new("mutant_inbox").await;
        world.publish(&[refund_of("acme", "refund", "sale"), order("sale")]).await;
        let point = crash_points::BEFORE_INBOX_COMMIT;
        let mut doomed = world.spawn(&[("FIS_FAILPOINT", point), ("FIS_MUTANT", mutant)]);
        doomed.exited(Duration::from_secs(60)).await;
        assert!(doomed.aborted(), "{point} was not reached");
        world.fis(&["run", "--once"]).await.expect(0, &[]);
        let reversed = "select count(*) from fis_journal_entry where reverses_entry_id is not null";
        reversals[place] = world.count(reversed).await;
    }
    assert_eq!(reversals, [1, 0]);
}

/// A step waits for the head while somebody pauses its replay.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_does_not_ask_whether_it_was_overtaken_moves_a_paused_replay() {
    let mut decided = [0; 2];
    for (place, mutant) in ["", mutants::LEASE_IGNORED].into_iter().enumerate() {
        let world = World::new("mutant_lease").await;
        let mut run = world.run_with(&[("FIS_MUTANT", mutant)]).await;
        world.publish(&[payment("evt-1", "9999", "1.50")]).await;
        wait_until("it is parked", async || same(world.count("select count(*) from fis_dead_letter").await, 1)).await;
        let mut lock = world.pool.begin().await.unwrap();
        sqlx::query("select from fis_chain_head where tenant_id = 'acme' for update")
            .execute(&mut *lock)
            .await
            .unwrap();
        world.fis(&["dlq", "replay", "--all", "--yes", "--no-wait"]).await.expect(0, &[]);
        wait_until("the step waits for the head", async || {
            let waiting =
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
            same(world.count(waiting).await, 1)
        })
        .await;
        world.fis(&["dlq", "replay", "--pause", "1"]).await;
        lock.rollback().await.unwrap();
        // The next event of the tenant is posted behind the step, whatever became of that.
        world.publish(&[order("evt-2")]).await;
        wait_until("the step has ended", async || same(world.count(ENTRIES).await, 1)).await;
        decided[place] = world.count("select decided from fis_replay").await;
        run.kill();
    }
    assert_eq!(decided, [0, 1]);
}
