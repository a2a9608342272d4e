//! Letters that are given up and removed: only with a reason, a name and a yes, and only what is settled.

use super::{PARKED, bad, park, text};
use crate::support::events::{Expect, payment};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_what_needs_yes_says_so_and_exits_2() {
    let world = World::new("yes").await;
    let mut run = world.run().await;
    let dear = payment("dear", "9999", "20000.00").rejected("unknown_account");
    let cheap = payment("cheap", "9999", "5.00").rejected("unknown_account");
    park(&world, &[dear, cheap]).await;
    world.fis(&["dlq", "replay", "--all"]).await.expect(2, &["2 dead letters selected", "20,005.00 EUR", "--yes"]);
    world.fis(&["dlq", "replay", "--all", "--json"]).await.expect(2, &["\"confirmation_needed\""]);
    world.fis(&["dlq", "replay", "--yes"]).await.expect(2, &["which?"]);
    world.fis(&["dlq", "discard", "--all"]).await.expect(2, &["--why"]);
    world.fis(&["dlq", "discard", "--all", "--why", "test"]).await.expect(2, &["--yes"]);
    assert_eq!(world.count(PARKED).await, 2);
    world
        .fis(&["dlq", "discard", "--max-amount", "100", "--why", "test data", "--by", "bob", "--yes"])
        .await
        .expect(0, &["discarded 1 dead letter by bob"]);
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
    world.fis(&["dlq", "discard", &id, "--why", "old", "--yes"]).await.expect(0, &[]);
    world.fis(&["dlq", "prune", "--older-than", "0s"]).await.expect(2, &["--yes"]);
    world.fis(&["dlq", "prune", "--older-than", "0s", "--yes"]).await.expect(0, &["removed 1"]);
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 2);
    let log = format!(
        "select string_agg(concat_ws(' ', act, through, from_status, to_status), '; ' order by id) from fis_operator_log where letter_id = '{id}'"
    );
    let life: String = sqlx::query_scalar(&log).fetch_one(&world.pool).await.unwrap();
    assert_eq!(life, "park service parked; discard cli parked discarded; prune cli discarded");
    for sql in [
        "delete from fis_dead_letter",
        "truncate fis_dead_letter",
        "delete from fis_operator_log",
        "update fis_operator_log set by = 'x'",
    ] {
        assert!(sqlx::raw_sql(sql).execute(&world.pool).await.is_err(), "{sql}");
    }
    world.sql("update fis_dead_letter set status = 'discarded', settled_at = now() where event_id = 'x-1'").await;
    let astray = "update fis_dead_letter set status = 'replaying', settled_at = null where event_id = 'x-1'";
    assert!(sqlx::raw_sql(astray).execute(&world.pool).await.unwrap_err().to_string().contains("cannot go from"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discard_always_asks_shows_first_and_can_be_taken_back() {
    let world = World::new("restore").await;
    let mut run = world.run().await;
    park(&world, &bad("x", 2)).await;
    let id = text(&world, "select id from fis_dead_letter where event_id = 'x-0'").await;
    let other = text(&world, "select id from fis_dead_letter where event_id = 'x-1'").await;
    let discard = ["dlq", "discard", id.as_str(), "--why", "test order", "--by", "anna"];
    world.fis(&discard).await.expect(2, &["1 dead letter selected: 1.50 EUR", "nobody sits at a terminal", "--yes"]);
    world.fis(&[&discard[..], &["--dry-run"]].concat()).await.expect(0, &["1.50 EUR", "nothing was discarded"]);
    assert_eq!(world.count(PARKED).await, 2);
    world.fis(&[&discard[..], &["--yes"]].concat()).await.expect(0, &["discarded 1 dead letter by anna"]);

    // Nothing is done with what is discarded, and it is said why.
    let says = format!("{id} is discarded and left out; `fis dlq restore {id} --why WHY`");
    for act in [&["dlq", "replay", &id, "--dry-run"][..], &["dlq", "replay", &id, "--yes"], &discard] {
        world.fis(act).await.expect(1, &[&says, "nothing parked is selected"]);
    }
    world.fis(&["dlq", "show", &id]).await.expect(0, &["discarded", &format!("fis dlq restore {id} --why WHY")]);
    assert_eq!(world.count("select count(*) from fis_replay").await, 0);

    let restore = |id: &str, why: &str| ["dlq", "restore", id, "--why", why, "--by", "bob"].map(str::to_owned);
    let restore = async |id: &str, why: &str| {
        let args = restore(id, why);
        world.fis(&args.each_ref().map(String::as_str)).await
    };
    restore(&id, " ").await.expect(2, &["--why is empty"]);
    restore(&other, "x").await.expect(1, &["is parked, not discarded; nothing was restored"]);
    restore("dl_nothing", "x").await.expect(2, &["there is no dead letter `dl_nothing`"]);
    let both = ["dlq", "restore", &id, &other, "--why", "x"];
    world.fis(&both).await.expect(1, &["is parked, not discarded"]);
    assert_eq!(world.count(PARKED).await, 1, "all or none");
    restore(&id, "the order was real").await.expect(0, &["restored 1 dead letter by bob: parked again"]);
    let log = "select string_agg(concat_ws(' ', by, act, why, from_status, to_status), '; ' order by id) from fis_operator_log
                where by in ('anna', 'bob')";
    let acts = "anna discard test order parked discarded; bob restore the order was real discarded parked";
    assert_eq!(text(&world, log).await, acts);
    world.fis(&["verify"]).await.expect(0, &["2 dead letters beside it"]);

    world.apply_books(&super::mended()).await;
    world.fis(&["dlq", "replay", "--all", "--yes"]).await.expect(0, &["2 of 2 dead letters resolved"]);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nothing_has_is_an_error_and_nothing_is_done() {
    let world = World::new("unknown_ids").await;
    let mut run = world.run().await;
    park(&world, &bad("x", 1)).await;
    let id = text(&world, "select id from fis_dead_letter").await;
    // A reason without quotes, as somebody types it.
    let words = ["--why", "shop", "sends", "three", "decimals", "--yes"];
    let set = ["--set", "/payload/account=1100"];
    let hint = "quotes: --why \"shop sends three decimals\"";
    for act in [
        [&["dlq", "edit", &id][..], &set, &words].concat(),
        [&["dlq", "discard", &id][..], &words].concat(),
        [&["dlq", "replay", &id][..], &words].concat(),
        [&["dlq", "restore", &id][..], &words[..5]].concat(),
    ] {
        let said = world.fis(&act).await;
        said.expect(2, &["there are no dead letters `sends`, `three`, `decimals`", hint]);
    }
    for act in [
        &["dlq", "discard", &id, "dl_typo", "--why", "x", "--yes"][..],
        &["dlq", "replay", &id, "dl_typo", "--yes"],
        &["dlq", "replay", &id, "dl_typo", "--dry-run"],
        &["dlq", "edit", &id, "dl_typo", "--set", "/payload/account=1100", "--why", "x", "--yes"],
        &["dlq", "show", "dl_typo"],
    ] {
        let said = world.fis(act).await.expect(2, &["there is no dead letter `dl_typo`"]);
        assert!(!said.stderr.contains("quotes"), "{said:?}");
    }
    for act in ["list", "groups", "export"] {
        world.fis(&["dlq", act, "--reason", "bad_amont"]).await.expect(2, &["did you mean `bad_amount`?"]);
    }
    world.fis(&["dlq", "replay", "--reason", "zzz", "--yes"]).await.expect(2, &["reasons are", "unknown_account"]);
    for act in [
        &["dlq", "replay", "--group", "00000000", "--yes"][..],
        &["dlq", "replay", "--reason", "bad_amount", "--yes"],
        &["dlq", "replay", "--reason", "bad_amount", "--dry-run"],
        &["dlq", "discard", "--reason", "bad_amount", "--why", "test orders", "--yes"],
        &["dlq", "edit", "--reason", "bad_amount", "--set", "/a=1", "--why", "x", "--yes"],
    ] {
        world.fis(act).await.expect(1, &["nothing parked is selected"]);
    }
    assert_eq!(world.count("select count(*) from fis_replay").await, 0, "a selection of nothing is no replay");
    assert_eq!(world.count("select count(*) from fis_operator_log where by <> 'fis'").await, 0);
    assert_eq!(world.count(PARKED).await, 1);
    world.fis(&["dlq", "list"]).await.expect(0, &["1 of 1 open dead letter\n"]);
    run.terminate().await;
}
