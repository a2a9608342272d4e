//! The same events come from the broker while an admin works on their letters, and two hands work on the same letters: one entry each, and every
//! letter's state is true.

use super::{ENTRIES, RESOLVED, bad, mended, park, text};
use crate::support::events::Message;
use crate::support::process::Run;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const COUNT: usize = 120;

/// Letters whose events are mended by new books, and come again from their publisher while `act` is done to the letters.
async fn race(name: &str, act: &[&[&str]]) -> World {
    let world = World::new(name).await;
    let mut run = world.run().await;
    let messages: Vec<Message> = bad("r", COUNT);
    park(&world, &messages).await;
    world.published.lock().unwrap().clear();
    world.apply_books(&mended()).await;
    let publishing = async {
        for part in messages.chunks(7) {
            world.publish(part).await;
        }
    };
    let acting = async {
        for args in act {
            world.fis(args).await;
        }
    };
    tokio::join!(publishing, acting);
    wait_until("each is posted once", async || same(world.count(ENTRIES).await, i64::try_from(COUNT).unwrap())).await;
    // A letter that was given up, or booked as edited, is no place for its message; the event is posted all the same.
    world.published.lock().unwrap().clear();
    world.rest(&mut run).await;
    world.invariants().await;
    // What is resolved names its entry; nothing is open of what is posted.
    let untrue = "select count(*) from fis_dead_letter d
                    left join fis_journal_entry e using (tenant_id, event_id)
                   where d.status not in ('resolved', 'discarded') or e.seq is null
                      or d.status = 'resolved' and d.entry_id is distinct from e.entry_id";
    assert_eq!(world.count(untrue).await, 0);
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_come_again_while_their_letters_are_replayed_are_posted_once() {
    let world = race("race_replay", &[&["dlq", "replay", "--all", "--yes"]]).await;
    assert_eq!(text(&world, "select state from fis_replay").await, "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_come_again_while_their_letters_are_edited_are_posted_once() {
    race(
        "race_edit",
        &[&["dlq", "edit", "--reason", "unknown_account", "--set", "/payload/account=1100", "--why", "x", "--yes"]],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_come_again_while_their_letters_are_discarded_are_posted_once() {
    race("race_discard", &[&["dlq", "discard", "--all", "--why", "x", "--yes"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_is_paused_resumed_and_stopped_beside_another_one_books_each_once() {
    let acts: [&[&str]; 5] = [
        &["dlq", "replay", "--all", "--yes", "--no-wait", "--rate", "200"],
        &["dlq", "replay", "--pause", "1", "--no-wait"],
        &["dlq", "replay", "--all", "--yes", "--no-wait"],
        &["dlq", "replay", "--resume", "1", "--no-wait"],
        &["dlq", "replay", "--stop", "1", "--yes"],
    ];
    let world = race("race_two_replays", &acts).await;
    let running = "select count(*) from fis_replay where state = 'running'";
    wait_until("no replay runs", async || same(world.count(running).await, 0)).await;
}

/// A discard and a replay of the same letters: each letter ends in one of the two ways.
#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_discarded_while_it_is_replayed_is_booked_or_given_up_and_never_both() {
    let world = World::new("race_discard_replay").await;
    let mut run = world.run().await;
    park(&world, &bad("d", COUNT)).await;
    world.published.lock().unwrap().clear();
    world.apply_books(&mended()).await;
    let replay = ["dlq", "replay", "--all", "--yes", "--rate", "400"];
    let discard = ["dlq", "discard", "--all", "--why", "x", "--yes"];
    tokio::join!(world.fis(&replay), async {
        for _ in 0..3 {
            // Refused where the selection changes under it.
            world.fis(&discard).await;
        }
    });
    let open = "select count(*) from fis_dead_letter where status not in ('resolved', 'discarded')";
    wait_until("every letter is settled", async || same(world.count(open).await, 0)).await;
    let both = "select count(*) from fis_dead_letter d
                 where (status = 'resolved') <> exists (select from fis_journal_entry e
                         where (e.tenant_id, e.event_id) = (d.tenant_id, d.event_id))";
    assert_eq!(world.count(both).await, 0);
    world.rest(&mut run).await;
    world.invariants().await;
}

/// The batches that were prepared in vain, as the service counts them.
async fn prepared_in_vain(run: &Run) -> u64 {
    let (_, metrics) = run.get("/metrics").await;
    let line = metrics.lines().find(|line| line.starts_with("fis_journal_drafts_total") && line.contains("\"false\""));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// A step resolves its letters before it locks the head. Whoever has the head and wants one of these letters is not kept waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_waits_for_the_head_gives_its_letters_back() {
    let world = World::new("letters_before_heads").await;
    let mut run = world.run().await;
    park(&world, &bad("h", COUNT)).await;
    world.apply_books(&mended()).await;
    world.fis(&["dlq", "replay", "--all", "--yes", "--no-wait", "--rate", "40"]).await.expect(0, &[]);
    // The lanes have not been at work for a while by then, and the inbox is on its own.
    wait_until("a third is resolved", async || {
        let resolved = world.count(RESOLVED).await;
        if resolved >= 40 { Ok(()) } else { Err(format!("{resolved} are resolved")) }
    })
    .await;
    let before = prepared_in_vain(&run).await;
    let mut posting = world.pool.begin().await.unwrap();
    sqlx::query("select from fis_chain_head where tenant_id = 'acme' for update").execute(&mut *posting).await.unwrap();
    wait_until("a step has given its letters back", async || {
        let now = prepared_in_vain(&run).await;
        if now > before { Ok(()) } else { Err(format!("{now} batches were prepared in vain")) }
    })
    .await;
    let letters = "update fis_dead_letter set deliveries = deliveries where status = 'parked'";
    let taken = sqlx::query(letters).execute(&mut *posting).await.expect("nobody holds the letters");
    assert!(taken.rows_affected() > 0, "the replay is over");
    posting.rollback().await.unwrap();
    wait_until("every letter is resolved", async || same(world.count(RESOLVED).await, i64::try_from(COUNT).unwrap()))
        .await;
    world.rest(&mut run).await;
    world.invariants().await;
}
