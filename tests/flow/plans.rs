//! How the database is asked. PostgreSQL keeps the plan of a statement for as long as nobody vacuums or analyzes its tables, and chooses
//! it by what the tables held then.

use deadpool_redis::redis;

use crate::support::events::{Message, order};
use crate::support::process::Run;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

/// Not those of autovacuum, which come and go.
const SESSIONS: &str =
    "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'";

/// So many messages have left the service.
async fn wait_published(run: &Run, count: u64) {
    wait_until("everything has left", async || {
        let (_, metrics) = run.get("/metrics").await;
        let published =
            metrics.lines().find_map(|line| line.strip_prefix("fis_outbox_published_total{kind=\"journal\"} "));
        let published: u64 = published.map_or(0, |count| count.parse().unwrap());
        if published >= count { Ok(()) } else { Err(format!("{published} of {count}")) }
    })
    .await;
}

fn orders(from: u64, to: u64) -> Vec<Message> {
    (from..to).map(|n| order(&format!("evt-{n}"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_made_for_empty_tables_do_not_read_all_of_full_ones() {
    let world = World::new("plans").await;
    for table in ["vacuum analyze fis_journal_entry", "vacuum analyze fis_journal_line", "vacuum analyze fis_outbox"] {
        world.sql(table).await;
    }
    let sessions = world.count(SESSIONS).await;
    let mut run = world.run().await;
    // From the sixth time on a plan is kept.
    for n in 0..30 {
        world.publish(&orders(n, n + 1)).await;
        wait_published(&run, n + 1).await;
    }
    // An event that is posted and forgotten by Redis: its batch is decided ahead in vain, and then looked up.
    for n in 0..8 {
        let _: () = redis::cmd("FLUSHDB").query_async(&mut world.redis().await).await.unwrap();
        world.publish(&[orders(n, n + 1), orders(30 + n * 250, 30 + (n + 1) * 250)].concat()).await;
        wait_published(&run, 30 + (n + 1) * 250).await;
    }
    run.terminate().await;
    // A session tells what it has read when it ends.
    wait_until("its sessions have ended", async || same(world.count(SESSIONS).await, sessions)).await;
    let read = "select sum(seq_tup_read)::bigint from pg_stat_user_tables
                 where relname in ('fis_journal_entry', 'fis_journal_line', 'fis_outbox')";
    assert_eq!(world.count(read).await, 0, "rows were read that nobody had asked for");
    let found =
        "select idx_tup_read from pg_stat_user_indexes where indexrelname = 'fis_journal_entry_tenant_id_event_id_key'";
    let found = world.count(found).await;
    assert!((1..100).contains(&found), "{found} entries were found by their event, of eight duplicates");
}
