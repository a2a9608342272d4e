//! A replay: what it books, in which order and how fast, what it tells, and what it would do.

use fis::domain::operator::{Operator, Through};
use fis::parking::replay::start;
use fis::parking::selection::choose;
use fis::store::dead_letters::{Filter, Scope};
use fis::store::replays::ReplayPace;
use serde_json::json;

use super::{ENTRIES, PARKED, RESOLVED, bad, mended, park, progress, text};
use crate::support::events::{books, payment, refund_of};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_goes_before_the_mass_retry() {
    let world = World::new("canary").await;
    let mut run = world.run().await;
    park(&world, &bad("c", 15)).await;
    let replay = ["dlq", "replay", "--reason", "unknown_account", "--canary", "--yes", "--json"];
    let said = world.fis(&replay).await.expect(1, &["unknown_account", "15 dead letters selected", "22.50 EUR"]).json();
    assert_eq!((&said["end"], &said["note"]), (&json!("paused"), &json!("more than 0 failed again")));
    assert_eq!(progress(&said), [15, 0, 1, 14], "one was tried, and no other");
    assert_eq!(world.count("select count(*) from fis_dead_letter where attempts = 2").await, 1);
    assert_eq!(world.count(PARKED).await, 15);

    world.apply_books(&mended()).await;
    let said = world.fis(&replay).await.expect(0, &[]).json();
    assert_eq!(progress(&said), [15, 15, 0, 0]);
    // The first letter alone, then ten, then the rest: no transaction decides letters of two steps.
    let steps = "select string_agg(concat_ws('-', first, last), ' ' order by first) from (
                   select min(r.n) as first, max(r.n) as last
                     from fis_operator_log l join fis_replay_letter r on r.replay_id = l.replay_id and r.letter_id = l.letter_id
                    where l.replay_id = 2 and l.act = 'resolve' group by l.at) x";
    assert_eq!(text(&world, steps).await, "1-1 2-11 12-15");
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_may_succeed_later_pauses_the_replay() {
    let world = World::new("canary_held").await;
    let mut run = world.run().await;
    park(&world, &[refund_of("ghost", "refund", "sale").rejected("unknown_tenant")]).await;
    park(&world, &[refund_of("ghost", "other", "sale").rejected("unknown_tenant")]).await;
    world.published.lock().unwrap().clear();
    world.apply_books(&books("ghost")).await;
    world.fis(&["dlq", "replay", "--all", "--canary", "--yes"]).await.expect(
        1,
        &["1  held: tried again by themselves", "1  not decided yet", "paused: the canary is held", "--resume 1"],
    );
    world.fis(&["dlq", "replay", "--resume", "1"]).await.expect(0, &["2  held: tried again by themselves"]);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_rate_limited() {
    let world = World::new("rate").await;
    let mut run = world.run().await;
    park(&world, &bad("r", 16)).await;
    world.apply_books(&mended()).await;
    world
        .fis(&["dlq", "replay", "--all", "--rate", "10", "--yes"])
        .await
        .expect(0, &["16 of 16 dead letters resolved"]);
    let millis =
        "select (extract(epoch from max(at) - min(at)) * 1000)::bigint from fis_operator_log where act = 'resolve'";
    let took = world.count(millis).await;
    assert!(took >= 1000, "16 letters at 10 a second were booked within {took} ms");
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_failures_pause_a_replay_until_the_limit_is_raised() {
    let world = World::new("max_failures").await;
    let mut run = world.run().await;
    let bad: Vec<_> = bad("m", 5).into_iter().map(|message| message.rejected("unknown_account")).collect();
    park(&world, &bad).await;
    // One at a time, so that the second is one too many.
    world.fis(&["dlq", "replay", "--all", "--rate", "1", "--max-failures", "1", "--yes"]).await.expect(
        1,
        &[
            "2  parked again",
            "3  not decided yet: still parked",
            "paused: more than 1 failed again",
            "fis dlq replay --resume 1 --max-failures 2",
            "fis dlq replay --stop 1",
        ],
    );
    world.fis(&["dlq", "replay", "--resume", "1"]).await.expect(1, &["2 letters of replay 1 have failed again"]);
    assert_eq!(text(&world, "select state from fis_replay").await, "paused", "a refusal changes nothing");
    let said = world.fis(&["dlq", "replay", "--resume", "1", "--rate", "1000", "--max-failures", "9", "--json"]).await;
    let said = said.expect(1, &[]).json();
    assert_eq!((progress(&said), &said["end"]), ([5, 0, 5, 0], &json!("done")));
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_what_was_seen_is_replayed_and_not_what_came_meanwhile() {
    let world = World::new("frozen").await;
    let mut run = world.run().await;
    park(&world, &bad("seen", 3)).await;
    let filter = Filter { scope: Scope::Parked, reason: Some("unknown_account".to_owned()), ..Filter::default() };
    let who = Operator::new("anna", "test", Through::CommandLine).unwrap();
    let replay = choose(&world.pool, &filter, &who, ReplayPace::default()).await.unwrap().unwrap();
    park(&world, &bad("later", 2)).await;
    world.apply_books(&mended()).await;
    assert_eq!(world.count(ENTRIES).await, 0, "nobody has confirmed it");
    start(&world.pool, replay.id, &who).await.unwrap();
    let id = replay.id.to_string();
    wait_until("it is done", async || same(text(&world, "select state from fis_replay").await, "done".to_owned()))
        .await;
    assert_eq!(world.count(RESOLVED).await, 3);
    world.fis(&["dlq", "replay", "--resume", &id]).await.expect(1, &["replay 1 is done; nothing was done"]);
    assert_eq!(
        world.count("select count(*) from fis_dead_letter where event_id like 'later-%' and status = 'parked'").await,
        2
    );
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(0, &["2 of 2"]);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_tells_posted_failed_held_and_left() {
    let world = World::new("progress").await;
    let mut run = world.run().await;
    let still_bad = payment("still", "8888", "1.00").rejected("unknown_account");
    park(&world, &[bad("p", 2), vec![still_bad]].concat()).await;
    world.apply_books(&mended()).await;
    let said = world.fis(&["dlq", "replay", "--all", "--yes", "--json"]).await.expect(1, &["8888"]).json();
    assert_eq!(progress(&said), [3, 2, 1, 0]);
    assert_eq!(
        (&said["failures"][0]["reason"], &said["failures"][0]["letters"]),
        (&json!("unknown_account"), &json!(1))
    );
    let letter = text(&world, "select id from fis_dead_letter where event_id = 'still'").await;
    let shown = world.fis(&["dlq", "show", &letter, "--json"]).await.expect(0, &[]).json();
    assert_eq!((&shown["status"], &shown["attempts"]), (&json!("parked"), &json!(2)));
    let acts: Vec<_> = shown["history"].as_array().unwrap().iter().map(|line| line["act"].as_str().unwrap()).collect();
    assert_eq!(acts, ["park", "fail"]);
    let asked =
        "select concat_ws(' ', by, act, detail) from fis_operator_log where letter_id is null and replay_id = 1";
    let asked = text(&world, asked).await;
    assert!(asked.ends_with("replay 3 letters: all parked"), "{asked}");
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_nothing_and_tells_the_balances() {
    let world = World::new("dry_run").await;
    let mut run = world.run().await;
    let still = payment("still", "8888", "1.00");
    let bad = bad("d", 2).into_iter().chain([still]).map(|message| message.rejected("unknown_account"));
    let messages: Vec<_> = bad.chain([payment("again", "1100", "5.00")]).collect();
    park(&world, &messages[..3]).await;
    world.publish(&messages[3..]).await;
    wait_until("one is posted", async || same(world.count(ENTRIES).await, 1)).await;
    world.apply_books(&mended()).await;
    let state = "select md5(string_agg(d::text, '' order by id)) from fis_dead_letter d";
    let before = text(&world, state).await;
    let said = world.fis(&["dlq", "replay", "--all", "--dry-run", "--json"]).await.expect(1, &[]).json();
    assert_eq!((&said["letters"], &said["wouldPost"]), (&json!(3), &json!(2)));
    assert_eq!(
        (&said["stillFails"][0]["reason"], &said["stillFails"][0]["letters"]),
        (&json!("unknown_account"), &json!(1))
    );
    let bank = said["balances"].as_array().unwrap().iter().find(|line| line["account"] == "1000").unwrap();
    assert_eq!((&bank["balanceNow"], &bank["balanceThen"]), (&json!("5.00"), &json!("8.00")));
    world
        .fis(&["dlq", "replay", "--all", "--dry-run"])
        .await
        .expect(1, &["2  would post", "would fail again: unknown_account", "then"]);
    assert_eq!(text(&world, state).await, before);
    assert_eq!(world.count(ENTRIES).await, 1);
    assert_eq!(world.count("select count(*) from fis_replay").await, 0);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_whose_cause_is_gone_are_offered_after_the_books_are_applied() {
    let world = World::new("offered").await;
    let mut run = world.run().await;
    let still = payment("still", "8888", "1.00").rejected("unknown_account");
    // One after the other: letters of one batch would be replayed in whatever order.
    park(&world, &bad("o", 3)).await;
    park(&world, &[still]).await;
    let file = world.file("books.toml", mended());
    let group = text(&world, "select min(group_id) from fis_dead_letter").await;
    let said = world.fis(&["books", "apply", &file, "--yes"]).await;
    said.expect(0, &[&format!("3 dead letters would now post: fis dlq replay --tenant acme --group {group} --canary")]);
    assert_eq!(world.count(PARKED).await, 4, "they are offered, not replayed");

    // The books may say that nobody need ask. The canary stops at the one that still fails.
    let file = world.file("books.toml", mended().replace("unmatched =", "auto_replay = true\nunmatched ="));
    world
        .fis(&["books", "apply", &file, "--yes", "--by", "carla"])
        .await
        .expect(0, &["3 of 4 dead letters resolved", "8888"]);
    assert_eq!(world.count(RESOLVED).await, 3);
    assert_eq!(
        world.count("select count(*) from fis_operator_log where by = 'carla' and act = 'replay' and why like 'auto_replay%'").await,
        1
    );
    let (_, metrics) = run.get("/metrics").await;
    for name in ["fis_parking_open_letters{reason=\"unknown_account\"}", "fis_parking_oldest_age_seconds"] {
        assert!(metrics.contains(name), "{name}");
    }
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn books_that_replay_by_themselves_need_no_service_for_it() {
    let world = World::new("auto_waits").await;
    let mut run = world.run().await;
    park(&world, &bad("w", 3)).await;
    run.terminate().await;
    let file = world.file("books.toml", mended().replace("unmatched =", "auto_replay = true\nunmatched ="));
    world
        .fis(&["books", "apply", &file, "--yes"])
        .await
        .expect(0, &["No fis service is running. The 3 letters are safe"]);
    assert_eq!(world.count(PARKED).await, 3);
    let mut run = world.run().await;
    wait_until("resolved", async || same(world.count(RESOLVED).await, 3)).await;
    world.rest(&mut run).await;
    world.invariants().await;
}
