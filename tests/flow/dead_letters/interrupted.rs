//! A replay that nobody watches, that two people start, that is paused, resumed or stopped: it goes on by itself, books nothing twice, and
//! forgets nothing.

use std::time::Duration;

use serde_json::json;

use super::{ENTRIES, PARKED, RESOLVED, bad, mended, park, progress, text};
use crate::support::process::Run;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const STATE: &str = "select state from fis_replay where id = 1";
const DECIDED: &str = "select decided from fis_replay where id = 1";

/// A service, letters that would post now, and a replay of them that takes a while.
async fn slow_replay(name: &str, letters: usize) -> (World, Run, Run) {
    let world = World::new(name).await;
    let run = world.run().await;
    park(&world, &bad(name, letters)).await;
    world.apply_books(&mended()).await;
    let replay = world.start(&["dlq", "replay", "--all", "--rate", "5", "--yes"], &[]);
    wait_until("some are decided", async || {
        let running = world.count("select count(*) from fis_replay where decided >= 3").await;
        same(running, 1)
    })
    .await;
    (world, run, replay)
}

async fn ends(world: &World, state: &str) {
    wait_until("the replay ends", async || same(text(world, STATE).await, state.to_owned())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_admins_replaying_the_same_selection_double_nothing() {
    let world = World::new("two_admins").await;
    let mut run = world.run().await;
    park(&world, &bad("t", 60)).await;
    world.apply_books(&mended()).await;
    let replay = ["dlq", "replay", "--reason", "unknown_account", "--rate", "60", "--yes", "--json"];
    let (one, two) = tokio::join!(world.fis(&replay), world.fis(&replay));
    let (one, two) = (one.expect(0, &[]).json(), two.expect(0, &[]).json());
    let sum = |name: &str| [&one, &two].map(|said| said["progress"][name].as_i64().unwrap()).iter().sum::<i64>();
    assert_eq!(sum("resolved"), 60, "{one} {two}");
    assert_eq!(sum("selected") - sum("skipped"), 60, "{one} {two}");
    assert_eq!(world.count("select count(*) from fis_operator_log where act = 'resolve'").await, 60);
    assert_eq!(world.count(ENTRIES).await, 60);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_interrupted_terminated_or_killed_leaves_its_replay_running() {
    for signal in ["INT", "TERM", "KILL"] {
        let (world, mut run, mut replay) = slow_replay(&format!("left_{}", signal.to_lowercase()), 15).await;
        replay.signal(signal);
        let status = replay.exited(Duration::from_secs(20)).await;
        if signal != "KILL" {
            let said = replay.log();
            assert_eq!(status.code(), Some(0), "{said}");
            for word in ["not decided yet: still parked", "left running", "--pause 1", "--stop 1"] {
                assert!(said.contains(word), "{word}: {said}");
            }
        }
        ends(&world, "done").await;
        assert_eq!(world.count(RESOLVED).await, 15, "{signal}");
        world.rest(&mut run).await;
        world.invariants().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_replay_stands_still_and_goes_on_where_it_stopped() {
    let (world, mut run, mut replay) = slow_replay("paused", 30).await;
    let pause = ["dlq", "replay", "--pause", "1", "--by", "anna", "--why", "too early"];
    world.fis(&pause).await.expect(0, &["not decided yet", "paused: by anna (too early)", "--resume 1", "--stop 1"]);
    let (decided, parked) = (world.count(DECIDED).await, world.count(PARKED).await);
    assert_eq!(parked, 30 - decided);
    let status = replay.exited(Duration::from_secs(20)).await;
    assert_eq!(status.code(), Some(1), "who watches is told: {}", replay.log());
    assert!(replay.log().contains("paused: by anna (too early)"), "{}", replay.log());
    world.fis(&pause).await.expect(1, &["replay 1 is paused; nothing was done"]);
    let listed = world.fis(&["dlq", "replays", "--json"]).await.expect(0, &[]).json();
    let line = &listed["replays"][0];
    assert_eq!((&line["state"], &line["left"], &line["decided"]), (&json!("paused"), &json!(parked), &json!(decided)));
    world.fis(&["dlq", "replays"]).await.expect(0, &["paused: by anna (too early)", "30 selected", "0 failed, 0 held"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.count(DECIDED).await, decided, "nothing moves");

    // Both say go on: one moves it, and both see it through.
    let resume = ["dlq", "replay", "--resume", "1", "--json"];
    let (one, two) = tokio::join!(world.fis(&resume), world.fis(&resume));
    for said in [one, two] {
        assert_eq!(progress(&said.expect(0, &[]).json()), [30, 30, 0, 0]);
    }
    let log = "select string_agg(concat_ws(' ', act, nullif(why, '')), '; ' order by id)
                 from fis_operator_log where replay_id = 1 and letter_id is null";
    assert_eq!(text(&world, log).await, "replay replay of all parked; pause too early; resume");
    assert_eq!(world.count(ENTRIES).await, 30);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_replay_leaves_what_is_not_decided_parked() {
    let (world, mut run, _replay) = slow_replay("stopped", 30).await;
    world.published.lock().unwrap().clear();
    world.fis(&["dlq", "replay", "--stop", "1"]).await.expect(2, &["--yes"]);
    world.fis(&["dlq", "replay", "--stop", "1", "--yes", "--by", "anna"]).await.expect(0, &["stopped: by anna"]);
    let parked = world.count(PARKED).await;
    assert!(parked > 0);
    assert_eq!(parked, 30 - world.count(DECIDED).await);
    for act in ["--resume", "--pause", "--stop"] {
        world.fis(&["dlq", "replay", act, "1", "--yes"]).await.expect(1, &["replay 1 is stopped; nothing was done"]);
        world.fis(&["dlq", "replay", act, "9", "--yes"]).await.expect(1, &["there is no replay 9"]);
    }
    // A command that does not wait only starts it.
    world.fis(&["dlq", "replay", "--all", "--rate", "1", "--no-wait", "--yes"]).await.expect(0, &["left running"]);
    world.fis(&["dlq", "replay", "--stop", "2", "--yes"]).await.expect(0, &["stopped: by "]);
    let settled = world.count("select sum(decided - skipped)::bigint from fis_replay").await;
    world.rest(&mut run).await;
    assert_eq!(world.count(PARKED).await, 30 - settled);
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_without_a_service_waits_for_one() {
    let world = World::new("no_service").await;
    let mut run = world.run().await;
    park(&world, &bad("n", 4)).await;
    run.terminate().await;
    world.apply_books(&mended()).await;
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(
        0,
        &[
            "0 of 4 dead letters resolved",
            "No fis service is running. The 4 letters are safe; the replay continues when `fis run` starts.",
        ],
    );
    assert_eq!(world.count(PARKED).await, 4, "nothing is on its way anywhere");
    let list = async |args: &[&str]| {
        let said = world.fis(&[&["dlq", "list", "--json"], args].concat()).await.expect(0, &[]).json();
        (said["total"].clone(), said["deadLetters"][0]["status"].clone())
    };
    let shown = (json!(4), json!("replaying"));
    assert_eq!(list(&[]).await, shown);
    assert_eq!(list(&["--status", "replaying"]).await, shown);
    assert_eq!(
        world.fis(&["dlq", "export"]).await.expect(0, &[]).stdout.matches("\"status\":\"replaying\"").count(),
        4
    );
    let id = text(&world, "select min(id) from fis_dead_letter").await;
    world.fis(&["dlq", "show", &id]).await.expect(0, &["state         replaying", "fis dlq replays"]);
    world.fis(&["dlq", "replay", "--pause", "1"]).await.expect(0, &["4  not decided yet: still parked"]);
    assert_eq!(list(&["--status", "replaying"]).await.0, json!(0), "it does not run");
    assert_eq!(list(&[]).await.1, json!("parked"));
    world.fis(&["dlq", "replay", "--resume", "1"]).await.expect(0, &["No fis service is running. The 4 letters"]);

    let mut run = world.run().await;
    ends(&world, "done").await;
    assert_eq!(world.count(RESOLVED).await, 4);
    world.rest(&mut run).await;
    world.invariants().await;
}
