//! One virtual host, one ledger.

use serde_json::{Value, json};

use crate::support::events::order;
use crate::support::servers::with_path;
use crate::support::wait::wait_until;
use crate::support::world::World;

async fn marker(world: &World) -> Value {
    world.management.get_json(&world.management.object_path("exchanges", "fis.ledger.exchange")).await.unwrap()
}

/// The ledger's name at the broker.
async fn identity(database: &str) -> String {
    use sqlx::Connection as _;
    let mut db = sqlx::PgConnection::connect(database).await.unwrap();
    let identity = "select 'fis.' || replace(id::text, '-', '') from fis_ledger";
    sqlx::query_scalar(identity).fetch_one(&mut db).await.unwrap()
}

/// Another ledger: a database of its own, in the same virtual host. Returns its address.
async fn another(world: &World) -> String {
    let name = format!("{}_b", world.name);
    sqlx::raw_sql(&format!("create database {name}")).execute(&world.pool).await.unwrap();
    let url = with_path(&world.servers.database, &name);
    world.fis_with(&["migrate"], &[("FIS_DATABASE_URL", &url)]).await.expect(0, &[]);
    url
}

async fn gone(world: &World) {
    sqlx::raw_sql(&format!("drop database {}_b with (force)", world.name)).execute(&world.pool).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_ledger_on_the_same_virtual_host_is_refused_by_name() {
    let world = World::new("own").await;
    world.fis(&["topology", "check"]).await.expect(0, &["the topology is as it should be"]);
    let mut run = world.run().await;
    let (staging, ours) = (another(&world).await, identity(&world.database_url).await);
    let marked = marker(&world).await;
    assert_eq!(
        (&marked["durable"], &marked["internal"], &marked["arguments"]["alternate-exchange"]),
        (&json!(true), &json!(true), &json!(ours)),
    );
    world.fis(&["topology", "check"]).await.expect(0, &["the topology is as it should be"]);

    let theirs = identity(&staging).await;
    let astray = [("FIS_DATABASE_URL", staging.as_str())];
    let words = ["belongs to another ledger", "fis.ledger.exchange", &ours, &theirs, "gone for good"];
    world.fis_with(&["run"], &astray).await.expect(2, &words);
    world.fis_with(&["run", "--once"], &astray).await.expect(2, &words);
    world.fis_with(&["topology", "check"], &astray).await.expect(1, &["virtual host", &ours, &theirs]);
    // The one whose it is goes on, also with a second instance.
    world.publish(&[order("evt-1"), order("evt-2")]).await;
    world.quiet().await;
    let mut second = world.run().await;
    second.terminate().await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 2);
    world.invariants().await;

    // The old ledger is gone for good.
    world.management.delete(&world.management.object_path("exchanges", "fis.ledger.exchange")).await.unwrap();
    let mut heir = world.run_with(&astray).await;
    assert_eq!(marker(&world).await["arguments"]["alternate-exchange"], json!(theirs));
    heir.terminate().await;
    world.fis(&["run"]).await.expect(2, &[&ours, &theirs]);
    gone(&world).await;
}

/// Somebody may look at the broker who cannot reach the database.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_database_a_check_says_that_it_cannot_tell_whose_the_virtual_host_is() {
    let world = World::new("whose").await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    let away = [("FIS_DATABASE_URL", "postgres://nobody@127.0.0.1:1/nothing")];
    world.fis_with(&["topology", "check"], &away).await.expect(0, &["virtual host", "not verified"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_ledgers_that_start_at_once_do_not_both_have_the_virtual_host() {
    let world = World::new("race").await;
    let other = another(&world).await;
    let mut runs = [world.spawn(&[]), world.spawn(&[("FIS_DATABASE_URL", &other)])];
    wait_until("one is ready and the other has ended", async || {
        let mut states = Vec::new();
        for run in &mut runs {
            let status = run.get("/readyz").await.0;
            states.push(if run.is_running() { status.to_string() } else { "ended".to_owned() });
        }
        states.sort();
        if states == ["200", "ended"] { Ok(()) } else { Err(format!("{states:?}")) }
    })
    .await;
    let refused = runs.iter().filter(|run| run.log().contains("belongs to another ledger")).count();
    assert_eq!(refused, 1);
    drop(runs);
    gone(&world).await;
}
