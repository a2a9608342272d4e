//! The deliberate bugs are real: each is met once where it hurts, beside the same steps without it. That the storm suite finds
//! them by itself is for that suite to show.

use std::time::Duration;

use fis::platform::{faults, mutants};

use crate::support::broker::{AUDIT, FINANCE};
use crate::support::events::{Message, URGENT, order, refund_of};
use crate::support::wait::{same, wait_until, wait_within};
use crate::support::world::World;

const ENTRIES: &str = "select count(*) from fis_journal_entry";
const HELD: &str = "select count(*) from fis_held";
const PENDING: &str = "select count(*) from fis_outbox where due_at is null";

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
        world.fis_with(&["run", "--once"], &[("FIS_MUTANT", in_life(Life::Second))]).await.expect(0, &[]);
        counts[place] = world.count(count).await;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acknowledged_before_the_commit_is_lost_in_a_crash() {
    let counts = counts(mutants::ACK_BEFORE_COMMIT, Life::First, faults::BEFORE_COMMIT, order("evt-1"), ENTRIES);
    assert_eq!(counts.await, [1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_acknowledged_before_the_commit_is_lost_in_a_crash() {
    let refund = refund_of("acme", "evt-1", "never");
    let counts = counts(mutants::HOLD_ACKED_BEFORE_COMMIT, Life::First, faults::BEFORE_COMMIT, refund, HELD);
    assert_eq!(counts.await, [1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn believing_in_processing_loses_what_comes_again() {
    let counts = counts(mutants::PROCESSING_IS_DUPLICATE, Life::Second, faults::AFTER_CLAIM, order("evt-1"), ENTRIES);
    assert_eq!(counts.await, [1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_look_up_and_the_constraint_an_event_is_posted_twice() {
    let counts = counts(mutants::UNIQUE_DROPPED, Life::Second, faults::AFTER_COMMIT, order("evt-1"), ENTRIES);
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

#[tokio::test(flavor = "multi_thread")]
async fn without_the_lock_two_batches_want_the_same_place() {
    let world = World::new("mutant_head").await;
    let mutant = [("FIS_MUTANT", mutants::HEAD_NOT_LOCKED)];
    let (mut one, mut other) = (world.run_with(&mutant).await, world.run_with(&mutant).await);
    let mut round = 0;
    wait_within("an event is refused because its place is taken", Duration::from_secs(60), async || {
        round += 1;
        for n in 0..10 {
            world.publish(&[order(&format!("a-{round}-{n}")), order(&format!("b-{round}-{n}")).on(URGENT)]).await;
        }
        let refused = "select count(*) from fis_dead_letter where reason = 'database_refused'";
        if world.count(refused).await > 0 { Ok(()) } else { Err(format!("none in {round} rounds")) }
    })
    .await;
    one.kill();
    other.kill();
}
