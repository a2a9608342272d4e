//! The same events come from the broker while an admin works on their letters, and two hands work on the same letters: one entry each, and every
//! letter's state is true.

use super::{ENTRIES, bad, mended, park, text};
use crate::support::events::Message;
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
