//! What resolves a letter: the entry that was booked for its event, and nothing less.

use super::{ENTRIES, RESOLVED, bad, mended, park, text};
use crate::support::events::{books, order, order_of, payment, refund_of, rewritten};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn resolved_means_booked_and_not_merely_selected() {
    let world = World::new("booked").await;
    let mut run = world.run().await;
    park(&world, &bad("b", 2)).await;
    run.terminate().await;
    world.apply_books(&mended()).await;
    let said = world.fis(&["dlq", "replay", "--all", "--yes", "--why", "account opened", "--by", "anna"]).await;
    said.expect(0, &["0 of 2 dead letters resolved", "2  not decided yet: still parked", "fis run"]);
    assert_eq!(
        world.count("select count(*) from fis_dead_letter where status = 'parked' and entry_id is null").await,
        2
    );
    assert_eq!(world.count(ENTRIES).await, 0);

    world.fis(&["run", "--once"]).await.expect(0, &[]);
    assert_eq!(world.count(RESOLVED).await, 2);
    let linked = "select count(*) from fis_dead_letter d join fis_journal_entry e
                    on e.entry_id = d.entry_id and e.event_id = d.event_id where d.resolved_as = 'posted'";
    assert_eq!(world.count(linked).await, 2);
    let log = "select string_agg(concat_ws(' ', by, act, why, through), '; ' order by id) from fis_operator_log
                where letter_id = (select id from fis_dead_letter where event_id = 'b-0')";
    assert_eq!(text(&world, log).await, "fis park unknown_account service; anna resolve account opened service");

    // Posted already, and Redis knows it: the replay must be seen by PostgreSQL all the same.
    world
        .sql("update fis_dead_letter set status = 'parked', resolved_as = null, entry_id = null, settled_at = null, received_on = null")
        .await;
    let mut run = world.run().await;
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(0, &["2 of 2 dead letters resolved"]);
    assert_eq!(
        world
            .count("select count(*) from fis_dead_letter where resolved_as = 'duplicate' and entry_id is not null")
            .await,
        2
    );
    assert_eq!(world.count(ENTRIES).await, 2);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrected_event_resolves_the_parked_one_by_itself() {
    let world = World::new("superseded").await;
    let mut run = world.run().await;
    let wrong = payment("s", "9999", "1.50");
    park(&world, std::slice::from_ref(&wrong)).await;
    world.published.lock().unwrap().clear();
    world.publish(&[payment("s", "1100", "1.50")]).await;
    wait_until("it is resolved", async || same(world.count(RESOLVED).await, 1)).await;
    assert_eq!(text(&world, "select resolved_as || ' ' || entry_id from fis_dead_letter").await, "superseded acme/1");
    // The same within one batch, and a conflict that comes behind: that one stays open.
    run.terminate().await;
    world.publish(&[payment("t", "9999", "1.50"), payment("t", "1100", "1.50"), payment("t", "1100", "2.50")]).await;
    world.published.lock().unwrap().clear();
    let mut run = world.run().await;
    wait_until("both are settled", async || same(world.count("select count(*) from fis_dead_letter").await, 3)).await;
    let states =
        "select string_agg(reason || ' ' || status, ', ' order by reason) from fis_dead_letter where event_id = 't'";
    assert_eq!(text(&world, states).await, "idempotency_conflict parked, unknown_account resolved");
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_header_resolves_nothing() {
    let world = World::new("forged").await;
    let mut run = world.run().await;
    park(&world, &[payment("victim", "9999", "1.50").rejected("unknown_account")]).await;
    let id = text(&world, "select id from fis_dead_letter").await;
    world.publish(&[order("forger").header("x-fis-dead-letter", &id)]).await;
    world
        .publish(&[payment("other", "8888", "1.50").header("x-fis-dead-letter", &id).rejected("unknown_account")])
        .await;
    world.rest(&mut run).await;
    let states =
        "select string_agg(concat_ws(' ', event_id, status, attempts), '; ' order by event_id) from fis_dead_letter";
    assert_eq!(text(&world, states).await, "other parked 1; victim parked 1");
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_may_succeed_later_stays_replaying_until_it_does() {
    let world = World::new("held_replay").await;
    let mut run = world.run().await;
    let refund = refund_of("ghost", "refund", "sale").rejected("unknown_tenant");
    park(&world, std::slice::from_ref(&refund)).await;
    world.published.lock().unwrap().clear();
    world.apply_books(&books("ghost")).await;
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(0, &["1  held"]);
    assert_eq!(text(&world, "select status from fis_dead_letter").await, "replaying");
    // Its original comes, and calls it back.
    world.publish(&[crate::support::events::order_of("ghost", "sale", "EUR", "119.00", "19.00")]).await;
    wait_until("resolved", async || same(world.count(RESOLVED).await, 1)).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// One event, written down twice by its publisher, is two letters. What is held of it waits with the one that was replayed last.
#[tokio::test(flavor = "multi_thread")]
async fn two_letters_of_one_event_that_is_held_are_both_resolved_when_it_is_posted() {
    let world = World::new("two_letters").await;
    let mut run = world.run().await;
    let refund = refund_of("ghost", "refund", "sale").rejected("unknown_tenant");
    park(&world, &[refund.clone(), rewritten(&refund)]).await;
    world.published.lock().unwrap().clear();
    world.apply_books(&books("ghost")).await;
    let ids: Vec<String> =
        sqlx::query_scalar("select id from fis_dead_letter order by 1").fetch_all(&world.pool).await.unwrap();
    for id in &ids {
        world.fis(&["dlq", "replay", id, "--yes"]).await.expect(0, &["1  held: tried again by themselves"]);
    }
    let states = "select string_agg(status, ' ' order by id) from fis_dead_letter";
    assert_eq!(text(&world, states).await, "parked replaying");
    assert_eq!(text(&world, "select string_agg(failed::text, ' ' order by id) from fis_replay").await, "1 0");
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(0, &["1  held"]);
    assert_eq!(text(&world, states).await, "replaying parked");
    world.publish(&[order_of("ghost", "sale", "EUR", "119.00", "19.00")]).await;
    wait_until("both are resolved", async || same(world.count(RESOLVED).await, 2)).await;
    world.rest(&mut run).await;
    world.invariants().await;
}
