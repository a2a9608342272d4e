//! A replay that two commands share, that is broken off, resumed or given up: nothing leaves twice, nothing is forgotten.

use std::time::Duration;

use fis::domain::letter::ReplayState;
use fis::domain::operator::{Operator, Through};
use fis::parking::replay::set_state;
use fis::parking::selection::choose;
use fis::store::dead_letters::{Filter, Scope};
use fis::store::replays::ReplayPace;
use serde_json::{Value, json};

use super::{ENTRIES, PARKED, bad, mended, park, progress};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn two_admins_replaying_the_same_selection_double_nothing() {
    let world = World::new("two_admins").await;
    let mut run = world.run().await;
    park(&world, &bad("t", 60)).await;
    world.apply_books(&mended()).await;
    let replay = ["dlq", "replay", "--reason", "unknown_account", "--rate", "60", "--yes", "--json"];
    let (one, two) = tokio::join!(world.fis(&replay), world.fis(&replay));
    let (one, two) = (one.expect(0, &[]).json(), two.expect(0, &[]).json());
    let sent = |said: &Value| said["progress"]["sent"].as_i64().unwrap();
    assert_eq!(sent(&one) + sent(&two), 60, "{one} {two}");
    assert_eq!(world.count("select count(*) from fis_operator_log where act = 'replay'").await, 60);
    assert_eq!(world.count(ENTRIES).await, 60);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_replay_says_what_is_where_and_can_be_resumed() {
    let world = World::new("interrupted").await;
    let mut run = world.run().await;
    park(&world, &bad("i", 30)).await;
    world.apply_books(&mended()).await;
    let mut replay = world.start(&["dlq", "replay", "--all", "--rate", "5", "--yes"], &[]);
    wait_until("some are sent", async || {
        let sent = world.count("select count(*) from fis_operator_log where act = 'replay'").await;
        if sent >= 3 { Ok(()) } else { Err(format!("{sent}")) }
    })
    .await;
    replay.signal("INT");
    let status = replay.exited(Duration::from_secs(20)).await;
    let said = replay.log();
    assert_eq!(status.code(), Some(1), "{said}");
    for word in ["interrupted", "not sent: still parked", "fis dlq replay --resume 1"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let waiting = world.count("select count(*) from fis_replay_letter where state = 'waiting'").await;
    assert!(waiting > 0);
    wait_until("what was sent is resolved", async || same(world.count(PARKED).await, waiting)).await;
    let listed = world.fis(&["dlq", "replays", "--json"]).await.expect(0, &[]).json();
    assert_eq!(listed["replays"][0]["left"], json!(waiting));
    world
        .fis(&["dlq", "replay", "--resume", "1", "--rate", "1000"])
        .await
        .expect(0, &["30 of 30 dead letters resolved"]);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_two_commands_resume_at_once_ends_for_both() {
    let world = World::new("resumed_twice").await;
    let mut run = world.run().await;
    park(&world, &bad("b", 60)).await;
    world.apply_books(&mended()).await;
    let all = Filter { scope: Scope::Parked, ..Filter::default() };
    let operator = Operator::new("anna", "test", Through::CommandLine).unwrap();
    let manner = ReplayPace { canary: false, rate: Some(60), max_failures: None };
    let replay = choose(&world.pool, &all, &operator, manner).await.unwrap();
    set_state(&world.pool, replay.id, ReplayState::Open).await.unwrap();
    let resume = ["dlq", "replay", "--resume", "1", "--json"];
    let (one, two) = tokio::join!(world.fis(&resume), world.fis(&resume));
    for said in [one, two] {
        assert_eq!(progress(&said.expect(0, &[]).json()), [60, 60, 0, 0]);
    }
    assert_eq!(world.count("select count(*) from fis_operator_log where act = 'replay'").await, 60);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_was_sent_can_be_given_up() {
    let world = World::new("released").await;
    let mut run = world.run().await;
    park(&world, &bad("g", 4).into_iter().map(|message| message.rejected("unknown_account")).collect::<Vec<_>>()).await;
    run.terminate().await;
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(0, &["4  under way"]);
    world.fis(&["dlq", "replay", "--release", "1"]).await.expect(2, &["--yes"]);
    world.fis(&["dlq", "replay", "--release", "1", "--yes"]).await.expect(0, &["4 of 4 dead letters are parked again"]);
    assert_eq!(world.count(PARKED).await, 4);
    assert_eq!(world.count("select count(*) from fis_outbox where due_at is not null").await, 0);
    world.fis(&["dlq", "replay", "--resume", "1"]).await.expect(1, &["given up"]);
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.invariants().await;
}
