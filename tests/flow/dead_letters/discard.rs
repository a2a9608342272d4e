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
