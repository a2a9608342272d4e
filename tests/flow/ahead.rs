//! Batches that are decided ahead of their turn: they end as all others do, also where what was thought of the ledger is not so.

use deadpool_redis::redis;

use crate::support::events::{Message, cancellation, order};
use crate::support::invariants::Disturbed;
use crate::support::process::Run;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const POSTED: &str = "select count(*) from fis_journal_entry";

async fn drafts(run: &Run, kept: &str) -> u64 {
    let (_, metrics) = run.get("/metrics").await;
    let line = format!("fis_journal_drafts_total{{kept=\"{kept}\"}} ");
    metrics.lines().find_map(|text| text.strip_prefix(&line)).map_or(0, |count| count.parse().unwrap())
}

async fn wait_posted(world: &World, count: i64) {
    wait_until("everything is posted", async || same(world.count(POSTED).await, count)).await;
}

fn orders(from: usize, to: usize) -> Vec<Message> {
    (from..to).map(|n| order(&format!("evt-{n}"))).collect()
}

/// As a flush or an eviction would do it.
async fn forget(world: &World, event: &str) {
    let mut redis = world.redis().await;
    let _: () = redis::cmd("DEL").arg(format!("fis:ik:acme:{event}")).query_async(&mut redis).await.unwrap();
}

/// The 21st order, in a batch that is decided ahead.
async fn post_ahead(world: &World, run: &Run) {
    let before = drafts(run, "true").await;
    world.publish(&orders(20, 21)).await;
    wait_posted(world, 21).await;
    wait_until("it was decided ahead", async || {
        if drafts(run, "true").await > before { Ok(()) } else { Err("it was not".to_owned()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_decided_ahead_and_ends_as_every_other() {
    let world = World::new("ahead").await;
    world.publish(&orders(0, 3000)).await;
    let mut run = world.run().await;
    wait_posted(&world, 3000).await;
    assert!(drafts(&run, "true").await > 0);
    assert_eq!(drafts(&run, "false").await, 0, "nobody else posts");
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_redis_has_forgotten_is_no_second_entry_where_its_batch_was_decided_ahead() {
    let world = World::new("ahead_forgotten").await;
    let mut run = world.run().await;
    world.publish(&orders(0, 20)).await;
    wait_posted(&world, 20).await;
    wait_until("the keys are told", async || {
        let (_, metrics) = run.get("/metrics").await;
        same(metrics.contains("outcome=\"posted\"} 20"), true)
    })
    .await;
    forget(&world, "evt-7").await;
    let again = [orders(20, 25), orders(7, 8), orders(25, 30)].concat();
    world.publish(&again).await;
    wait_posted(&world, 30).await;
    wait_until("the index knew it", async || {
        if drafts(&run, "false").await > 0 { Ok(()) } else { Err("every draft was written".to_owned()) }
    })
    .await;
    world.rest(&mut run).await;
    assert_eq!(world.count(POSTED).await, 30);
    world.invariants().await;
}

/// A reversal by hand moves the head between two batches of the service.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_somebody_else_moved_is_continued_from_where_it_ends() {
    let world = World::new("ahead_moved").await;
    let mut run = world.run().await;
    world.publish(&orders(0, 20)).await;
    wait_posted(&world, 20).await;
    world.fis(&["revert", "--tenant", "acme", "acme/3", "--why", "a test", "--yes"]).await.expect(0, &["acme/21"]);
    world.publish(&orders(20, 40)).await;
    wait_posted(&world, 41).await;
    assert!(drafts(&run, "moved").await > 0);
    assert_eq!(drafts(&run, "false").await, 0, "it was not looked up again");
    world.rest(&mut run).await;
    // The reversal has no key.
    world.invariants_after(Disturbed { redis: true }).await;
}

/// Each of them moves the chain that the other has decided for.
#[tokio::test(flavor = "multi_thread")]
async fn two_instances_move_what_they_decided_ahead_to_the_end_of_their_common_chain() {
    let world = World::new("ahead_two").await;
    let (mut one, mut two) = (world.run().await, world.spawn(&[]));
    two.ready().await;
    let mut published = 0;
    for _ in 0..100 {
        world.publish(&orders(published, published + 200)).await;
        published += 200;
        wait_posted(&world, i64::try_from(published).unwrap()).await;
        if drafts(&one, "moved").await > 0 && drafts(&two, "moved").await > 0 {
            break;
        }
    }
    assert!(drafts(&one, "moved").await > 0 && drafts(&two, "moved").await > 0, "both moved some");
    assert_eq!(drafts(&one, "false").await + drafts(&two, "false").await, 0, "none was in vain");
    two.terminate().await;
    world.rest(&mut one).await;
    world.invariants().await;
}

/// The writing statement says that something is held; what of the batch that is, is found and let go behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_decided_ahead_lets_go_of_what_is_held_under_its_ids() {
    let world = World::new("ahead_held").await;
    let mut run = world.run_with(&[("FIS__RETRY__BASE_DELAY_SECONDS", "2"), ("FIS__RETRY__JITTER_SECONDS", "0")]).await;
    world.publish(&orders(0, 20)).await;
    wait_posted(&world, 20).await;
    // Held without an original; what comes back later under an id that is taken is a conflict.
    world.publish(&[cancellation("evt-20", "nothing").rejected("idempotency_conflict")]).await;
    wait_until("it is held", async || same(world.count("select count(*) from fis_held").await, 1)).await;
    forget(&world, "evt-20").await;
    post_ahead(&world, &run).await;
    wait_until("what is held is due at once, and a conflict", async || {
        same(world.count("select count(*) from fis_dead_letter").await, 1)
    })
    .await;
    assert_eq!(world.count("select count(*) from fis_held").await, 0);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_is_superseded_by_a_corrected_event_in_a_batch_decided_ahead() {
    let world = World::new("ahead_letter").await;
    let mut run = world.run().await;
    world.publish(&orders(0, 20)).await;
    wait_posted(&world, 20).await;
    let mut wrong = order("evt-20").value();
    wrong["payload"]["total"] = serde_json::json!("much");
    world.publish(&[Message::json("ecommerce.order.completed", &wrong)]).await;
    wait_until("it is parked", async || {
        same(world.count("select count(*) from fis_dead_letter where status = 'parked'").await, 1)
    })
    .await;
    // A letter that was superseded is no place for its message.
    world.published.lock().unwrap().retain(|message| message.value() != wrong);
    forget(&world, "evt-20").await;
    post_ahead(&world, &run).await;
    let resolved = "select count(*) from fis_dead_letter where status = 'resolved' and entry_id = 'acme/21'";
    assert_eq!(world.count(resolved).await, 1);
    world.rest(&mut run).await;
    world.invariants().await;
}
