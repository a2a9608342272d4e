//! A replay: what it sends, in which order and how fast, what it tells, and what it would do.

use fis::domain::letter::ReplayState;
use fis::domain::operator::{Operator, Through};
use fis::parking::replay::set_state;
use fis::parking::selection::choose;
use fis::store::dead_letters::{Filter, Scope};
use fis::store::replays::ReplayPace;
use serde_json::json;
use sqlx::Row;

use super::{ENTRIES, PARKED, RESOLVED, bad, mended, park, progress, text};
use crate::support::events::payment;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_goes_before_the_mass_retry() {
    let world = World::new("canary").await;
    let mut run = world.run().await;
    park(&world, &bad("c", 15)).await;
    let replay = ["dlq", "replay", "--reason", "unknown_account", "--canary", "--yes", "--json"];
    let said = world.fis(&replay).await.expect(1, &["unknown_account", "15 dead letters selected", "22.50 EUR"]).json();
    assert_eq!(said["end"], "failures");
    assert_eq!(progress(&said), [15, 0, 1, 14], "one was sent, and no other");
    assert_eq!(world.count("select count(*) from fis_dead_letter where attempts = 2").await, 1);
    assert_eq!(world.count(PARKED).await, 15);

    world.apply_books(&mended()).await;
    let said = world.fis(&replay).await.expect(0, &[]).json();
    assert_eq!(progress(&said), [15, 15, 0, 0]);
    // Step by step: 1, 10, 4; each behind the resolution of all before it.
    let replayed = said["replayId"].as_i64().unwrap();
    let rows = sqlx::query("select act, count(*) as n, min(id) as first, max(id) as last from (
                 select l.act, l.id, r.n <= 1 as first_step, r.n <= 11 as second_step
                   from fis_operator_log l join fis_replay_letter r on r.replay_id = l.replay_id and r.letter_id = l.letter_id
                  where l.replay_id = $1) x group by act, first_step, second_step order by first")
        .bind(replayed).fetch_all(&world.pool).await.unwrap();
    let steps: Vec<(String, i64)> = rows.iter().map(|row| (row.get("act"), row.get("n"))).collect();
    let expected = [("replay", 1), ("resolve", 1), ("replay", 10), ("resolve", 10), ("replay", 4), ("resolve", 4)];
    assert_eq!(steps, expected.map(|(act, n)| (act.to_owned(), n)));
    for pair in rows.windows(2) {
        assert!(
            pair[0].get::<i64, _>("last") < pair[1].get::<i64, _>("first"),
            "a step began before the last one was resolved"
        );
    }
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
        "select (extract(epoch from max(at) - min(at)) * 1000)::bigint from fis_operator_log where act = 'replay'";
    let took = world.count(millis).await;
    assert!(took >= 1000, "16 letters at 10 a second left within {took} ms");
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
    let manner = ReplayPace { canary: false, rate: None, max_failures: None };
    let replay = choose(&world.pool, &filter, &who, manner).await.unwrap();
    set_state(&world.pool, replay.id, ReplayState::Open).await.unwrap();
    park(&world, &bad("later", 2)).await;
    world.apply_books(&mended()).await;
    let id = replay.id.to_string();
    world.fis(&["dlq", "replay", "--resume", &id]).await.expect(0, &["3 of 3 dead letters resolved"]);
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
    assert_eq!(acts, ["replay", "fail"], "both histories");
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
        world.count("select count(*) from fis_operator_log where by = 'carla' and why like 'auto_replay%'").await,
        4
    );
    let (_, metrics) = run.get("/metrics").await;
    for name in ["fis_parking_open_letters{reason=\"unknown_account\"}", "fis_parking_oldest_age_seconds"] {
        assert!(metrics.contains(name), "{name}");
    }
    world.rest(&mut run).await;
    world.invariants().await;
}
