//! What an admin can do about dead letters, and what becomes of them. Each request that the tools of the field leave open has a
//! test that says it.

use std::time::Duration;

use fis::domain::operator::{Operator, Through};
use fis::parking::filter::{Filter, Scope};
use fis::parking::replay::{Manner, set_state};
use fis::parking::selection::choose;
use serde_json::{Value, json};
use sqlx::Row;

use crate::support::events::{Expect, Message, books, order, payment, refund_of};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const OPEN: &str = "select count(*) from fis_dead_letter where status in ('parked', 'replaying')";
const PARKED: &str = "select count(*) from fis_dead_letter where status = 'parked'";
const RESOLVED: &str = "select count(*) from fis_dead_letter where status = 'resolved' and entry_id is not null";
const ENTRIES: &str = "select count(*) from fis_journal_entry";

/// The books with the account that the bad payments name.
fn mended() -> String {
    books("acme") + "\n[[accounts]]\ncode = \"9999\"\nname = \"New\"\ntype = \"income\"\n"
}

/// Payments to an account that the books do not have yet; in the end they are posted.
fn bad(name: &str, count: usize) -> Vec<Message> {
    (0..count).map(|n| payment(&format!("{name}-{n}"), "9999", "1.50")).collect()
}

async fn park(world: &World, messages: &[Message]) {
    let before = world.count(OPEN).await;
    world.publish(messages).await;
    let expected = before + i64::try_from(messages.len()).unwrap();
    wait_until("they are parked", async || same(world.count(OPEN).await, expected)).await;
}

async fn text(world: &World, sql: &'static str) -> String {
    sqlx::query_scalar(sql).fetch_one(&world.pool).await.unwrap()
}

fn progress(said: &Value) -> [i64; 4] {
    ["selected", "resolved", "failed", "left"].map(|name| said["progress"][name].as_i64().unwrap())
}

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
    let manner = Manner { canary: false, rate: None, max_failures: None };
    let replay = choose(&world.pool, &filter, &who, manner).await.unwrap();
    set_state(&world.pool, replay.id, "open").await.unwrap();
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
async fn resolved_means_booked_and_not_merely_sent() {
    let world = World::new("booked").await;
    let mut run = world.run().await;
    park(&world, &bad("b", 2)).await;
    run.terminate().await;
    world.apply_books(&mended()).await;
    let said = world.fis(&["dlq", "replay", "--all", "--yes", "--why", "account opened", "--by", "anna"]).await;
    said.expect(0, &["0 of 2 dead letters resolved", "2  under way", "fis run"]);
    assert_eq!(
        world.count("select count(*) from fis_dead_letter where status = 'replaying' and entry_id is null").await,
        2
    );
    assert_eq!(world.count(ENTRIES).await, 0);

    world.fis(&["run", "--once"]).await.expect(0, &[]);
    assert_eq!(world.count(RESOLVED).await, 2);
    let linked = "select count(*) from fis_dead_letter d join fis_journal_entry e
                    on e.entry_id = d.entry_id and e.event_id = d.event_id and e.lane = 'backfill' where d.resolved_as = 'posted'";
    assert_eq!(world.count(linked).await, 2);
    let log = "select string_agg(concat_ws(' ', by, act, why), '; ' order by id) from fis_operator_log
                where letter_id = (select id from fis_dead_letter where event_id = 'b-0')";
    assert_eq!(text(&world, log).await, "anna replay account opened; fis resolve posted");

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
async fn an_edit_never_sends_both_copies() {
    let world = World::new("edit").await;
    let mut run = world.run().await;
    let original = payment("e", "9999", "1.50").rejected("unknown_account");
    park(&world, std::slice::from_ref(&original)).await;
    world.published.lock().unwrap().clear();
    let id = text(&world, "select id from fis_dead_letter").await;
    let edit = |set: &'static str| {
        ["dlq", "edit", &id, "--set", set, "--why", "typo in the account", "--by", "anna", "--yes"].map(str::to_owned)
    };
    let run_edit = async |set| {
        let args = edit(set);
        world.fis(&args.each_ref().map(String::as_str)).await
    };
    // It fails again: the same letter, with one more attempt, and no other.
    run_edit("/payload/account=8888").await.expect(1, &["\"8888\"", "would fail again", "1  parked again"]);
    assert_eq!(world.count("select count(*) from fis_dead_letter where attempts = 2 and status = 'parked'").await, 1);
    wait_until("the copy has left the queue", async || same(world.ready_count("fis.ingestion.dlq.queue").await, 0))
        .await;

    run_edit("/eventId=other").await.expect(1, &["keeps the event's id"]);
    run_edit("/payload/account=1100")
        .await
        .expect(0, &["+     \"account\": \"1100\"", "would post", "1 of 1 dead letter resolved"]);
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 1);
    assert_eq!(world.count(ENTRIES).await, 1);
    let body: Vec<u8> = sqlx::query_scalar("select body from fis_dead_letter").fetch_one(&world.pool).await.unwrap();
    assert_eq!(body, original.body, "the original is untouched");
    let record = "select concat_ws(' ', x.entry_id, x.edited_by, x.why, e.event_id) from fis_entry_edit x
                    join fis_journal_entry e using (entry_id)";
    assert_eq!(text(&world, record).await, "acme/1 anna typo in the account e");

    // The publisher sends the original once more: it conflicts with what was booked instead of it, and stays settled.
    world.apply_books(&mended()).await;
    world.publish(&[original]).await;
    world.published.lock().unwrap().clear();
    world.quiet().await;
    assert_eq!(world.count(RESOLVED).await, 1);
    assert_eq!(world.count(ENTRIES).await, 1);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_nobody_can_read_is_mended_with_a_new_body() {
    let world = World::new("edit_unreadable").await;
    let mut run = world.run().await;
    park(&world, &[Message::new("ecommerce.order.completed", "{\"eventId\": \"broken\", ")]).await;
    world.published.lock().unwrap().clear();
    let id = text(&world, "select id from fis_dead_letter where event_id is null").await;
    let file = world.file("body.json", order("broken").body);
    world.fis(&["dlq", "edit", &id, "--body", &file, "--why", "cut off", "--yes"]).await.expect(0, &["1 of 1"]);
    assert_eq!(world.count(RESOLVED).await, 1);
    assert_eq!(world.count("select count(*) from fis_entry_edit").await, 1);
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
    // Its original comes, and its retry finds it.
    world.publish(&[crate::support::events::order_of("ghost", "sale", "EUR", "119.00", "19.00")]).await;
    wait_until("the order", async || same(world.count(ENTRIES).await, 1)).await;
    world.sql("update fis_outbox set due_at = now() where due_at is not null").await;
    wait_until("resolved", async || same(world.count(RESOLVED).await, 1)).await;
    world.rest(&mut run).await;
    world.invariants().await;
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
    let manner = Manner { canary: false, rate: Some(60), max_failures: None };
    let replay = choose(&world.pool, &all, &operator, manner).await.unwrap();
    set_state(&world.pool, replay.id, "open").await.unwrap();
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
async fn without_a_terminal_what_needs_yes_says_so_and_exits_2() {
    let world = World::new("yes").await;
    let mut run = world.run().await;
    let dear = payment("dear", "9999", "20000.00").rejected("unknown_account");
    let cheap = payment("cheap", "9999", "5.00").rejected("unknown_account");
    park(&world, &[dear, cheap]).await;
    world.fis(&["dlq", "replay", "--all"]).await.expect(2, &["2 dead letters selected", "20005.00 EUR", "--yes"]);
    world.fis(&["dlq", "replay", "--yes"]).await.expect(2, &["which?"]);
    world.fis(&["dlq", "discard", "--all"]).await.expect(2, &["--why"]);
    world.fis(&["dlq", "discard", "--all", "--why", "test"]).await.expect(2, &["--yes"]);
    assert_eq!(world.count(PARKED).await, 2);
    world
        .fis(&["dlq", "discard", "--max-amount", "100", "--why", "test data", "--by", "bob"])
        .await
        .expect(0, &["discarded 1 by bob"]);
    world.fis(&["dlq", "discard", "--all", "--why", "test", "--yes"]).await.expect(0, &["discarded 1"]);
    let log = "select string_agg(concat_ws(' ', by, act, why, from_status, to_status), '; ' order by id) from fis_operator_log where by = 'bob'";
    assert_eq!(text(&world, log).await, "bob discard test data parked discarded");
    world.fis(&["dlq", "prune", "--older-than", "1d", "--yes"]).await.expect(0, &["removed 0"]);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_removes_only_what_is_settled_and_logs_it() {
    let world = World::new("prune").await;
    let mut run = world.run().await;
    park(&world, &bad("x", 3).into_iter().map(|message| message.expect(Expect::Any)).collect::<Vec<_>>()).await;
    run.terminate().await;
    let id = text(&world, "select id from fis_dead_letter where event_id = 'x-0'").await;
    world.fis(&["dlq", "discard", &id, "--why", "old"]).await.expect(0, &[]);
    world.fis(&["dlq", "prune", "--older-than", "0s"]).await.expect(2, &["--yes"]);
    world.fis(&["dlq", "prune", "--older-than", "0s", "--yes"]).await.expect(0, &["removed 1"]);
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 2);
    assert_eq!(
        world.count("select count(*) from fis_operator_log where act = 'prune' and detail like '1 letters%'").await,
        1
    );
    for sql in [
        "delete from fis_dead_letter",
        "truncate fis_dead_letter",
        "delete from fis_operator_log",
        "update fis_operator_log set by = 'x'",
    ] {
        assert!(sqlx::raw_sql(&sql).execute(&world.pool).await.is_err(), "{sql}");
    }
    world.sql("update fis_dead_letter set status = 'discarded', settled_at = now() where event_id = 'x-1'").await;
    let astray = "update fis_dead_letter set status = 'replaying', settled_at = null where event_id = 'x-1'";
    assert!(sqlx::raw_sql(astray).execute(&world.pool).await.unwrap_err().to_string().contains("cannot go from"));
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
