//! A broker of three nodes loses one of them in every way: killed, stopped, cut off from the others, restarted; and once two,
//! which is more than it can bear. Meanwhile two services post and relay. A cluster of its own, used by one test at a time. The two
//! that take longest run only with `FIS_TEST_FULL=1`.

use std::path::PathBuf;
use std::time::Duration;

use fis::platform::amqp::management::Management;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

use crate::servers::{act, dev, stop_behind_us, world};
use crate::support::broker::LANES;
use crate::support::events::Message;
use crate::support::load::{QUICK_RETRIES, mix};
use crate::support::process::Run;
use crate::support::servers::Servers;
use crate::support::wait::{full, same, wait_within};
use crate::support::world::World;

const NODES: [&str; 3] = ["rabbitmq", "rabbitmq2", "rabbitmq3"];
/// A silent node is noticed after its tick time or two heartbeats, and whoever looks for another one may meet it again.
const LONG: Duration = Duration::from_secs(180);

static TURN: Mutex<()> = Mutex::const_new(());

async fn cluster() -> (MutexGuard<'static, ()>, Servers) {
    let turn = TURN.lock().await;
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("dev-cluster");
    let servers = tokio::task::spawn_blocking(move || {
        stop_behind_us(&dir);
        Servers::cluster(&dir)
    });
    let servers = servers.await.unwrap();
    whole(&servers).await;
    (turn, servers)
}

/// Waits until each node runs, and says so of the others.
async fn whole(servers: &Servers) {
    let well = |node: &Value| node["running"] == true && node["partitions"].as_array().is_some_and(Vec::is_empty);
    wait_within("all three nodes run and see each other", LONG, async || {
        for url in servers.management.split(',') {
            let node = Management::new(url, "fis_service", "secret", "/").unwrap();
            let seen: Vec<Value> = node.get_json("nodes").await.map_err(|error| error.to_string())?;
            if seen.len() != NODES.len() || !seen.iter().all(well) {
                return Err(format!("{url} sees {seen:?}"));
            }
        }
        Ok(())
    })
    .await;
}

/// A world on the cluster and two services in it. All queues have a member on every node.
async fn two_services(name: &str, servers: &Servers) -> (World, [Run; 2]) {
    let world = world(name, servers).await;
    for queue in LANES {
        let members = queue_of(&world, queue).await.unwrap()["members"].as_array().map(Vec::len);
        assert_eq!(members, Some(3), "{queue} has a member on each node");
    }
    let runs = [world.run_with(&QUICK_RETRIES).await, world.run_with(&QUICK_RETRIES).await];
    (world, runs)
}

async fn queue_of(world: &World, queue: &str) -> Result<Value, String> {
    let path = world.management.object_path("queues", queue);
    world.management.get_json(&path).await.map_err(|error| error.to_string())
}

/// The server that leads the live lane.
async fn leader(world: &World) -> &'static str {
    wait_within("the live lane has a leader", LONG, async || {
        let queue = queue_of(world, LANES[0]).await?;
        let leader = queue["leader"].as_str().unwrap_or_default();
        let node = leader.split('@').next().unwrap_or_default();
        match node.rsplit('-').next() {
            Some("2") => Ok(NODES[1]),
            Some("3") => Ok(NODES[2]),
            _ if !node.is_empty() => Ok(NODES[0]),
            _ => Err(queue.to_string()),
        }
    })
    .await
}

fn other_than(node: &str) -> &'static str {
    let others: Vec<&'static str> = NODES.into_iter().filter(|other| *other != node).collect();
    fastrand::choice(others).unwrap()
}

/// Waits until so many more entries are in the ledger, and what was to be told when that began is told: work goes on.
async fn posts_on(world: &World, more: i64) {
    let newest = posts(world, more).await;
    told(world, newest).await;
}

/// Waits until so many more entries are in the ledger; returns the newest announcement of before.
async fn posts(world: &World, more: i64) -> i64 {
    let before = entries(world).await;
    let newest: i64 = world.count("select coalesce(max(id), 0) from fis_outbox").await;
    wait_within("posting goes on", LONG, async || {
        let now = entries(world).await;
        if now >= before + more { Ok(()) } else { Err(format!("{before} entries before, {now} now")) }
    })
    .await;
    newest
}

async fn told(world: &World, newest: i64) {
    wait_within("what was there is announced", LONG, async || {
        let old = "select count(*) from fis_outbox where id <= $1";
        let left: i64 = sqlx::query_scalar(old).bind(newest).fetch_one(&world.pool).await.unwrap();
        same(left, 0)
    })
    .await;
}

async fn entries(world: &World) -> i64 {
    world.count("select count(*) from fis_journal_entry").await
}

/// Events of a name of their own for each load that is published during a fault.
fn load(name: &'static str) -> impl Fn(usize) -> Vec<Message> {
    move |number| mix(&format!("{name}-{number}"), 100)
}

async fn at_rest(world: &World, mut runs: [Run; 2]) {
    let [first, second] = &mut runs;
    world.quiet_within(LONG).await;
    second.terminate().await;
    world.rest(first).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_loses_its_leader_and_then_another_node_posts_on() {
    let (_turn, servers) = cluster().await;
    let (world, runs) = two_services("cluster_kill", &servers).await;
    let trouble = async {
        for blow in 0..2 {
            let leader = leader(&world).await;
            let victim = if blow == 0 { leader } else { other_than(leader) };
            act(&servers, victim, "crash").await;
            posts_on(&world, 100).await;
            act(&servers, victim, "start").await;
        }
    };
    world.publish_during(load("kill"), Box::pin(trouble)).await;
    at_rest(&world, runs).await;
}

/// Without a majority nothing is confirmed, nothing is posted, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_a_majority_waits_for_it() {
    if !full() {
        eprintln!("skipped: FIS_TEST_FULL=1 runs it");
        return;
    }
    let (_turn, servers) = cluster().await;
    let (world, runs) = two_services("cluster_majority", &servers).await;
    let trouble = async {
        let first = leader(&world).await;
        let second = other_than(first);
        act(&servers, first, "crash").await;
        act(&servers, second, "crash").await;
        // Together: one alone would wait for the other.
        tokio::join!(act(&servers, first, "start"), act(&servers, second, "start"));
        posts_on(&world, 100).await;
    };
    world.publish_during(load("majority"), Box::pin(trouble)).await;
    at_rest(&world, runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_loses_nothing() {
    let (_turn, servers) = cluster().await;
    let (world, runs) = two_services("cluster_rolling", &servers).await;
    let trouble = async {
        for node in NODES {
            act(&servers, node, "stop").await;
            posts_on(&world, 50).await;
            act(&servers, node, "start").await;
        }
    };
    world.publish_during(load("rolling"), Box::pin(trouble)).await;
    at_rest(&world, runs).await;
}

/// The leader sees nobody any more, and nobody sees it, but all clients see all of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_from_the_others_pauses_and_comes_back() {
    let (_turn, servers) = cluster().await;
    let (world, runs) = two_services("cluster_cut", &servers).await;
    let names: Value = world.management.get_json("nodes").await.unwrap();
    let names: Vec<&str> = names.as_array().unwrap().iter().filter_map(|node| node["name"].as_str()).collect();
    let trouble = async {
        let leader = leader(&world).await;
        let number = leader.trim_start_matches("rabbitmq");
        let is_leader = |name: &&&str| match number {
            "" => !name.contains("-2@") && !name.contains("-3@"),
            number => name.contains(&format!("-{number}@")),
        };
        let victim = *names.iter().find(is_leader).unwrap();
        let others: Vec<String> = names.iter().filter(|name| **name != victim).map(|n| format!("'{n}'")).collect();
        let others = others.join(",");
        let cut = format!("[begin erlang:set_cookie(N, cut), erlang:disconnect_node(N) end || N <- [{others}]].");
        let heal = format!("[erlang:set_cookie(N, erlang:get_cookie()) || N <- [{others}]].");
        dev(&servers, &["rabbitmqctl", "-n", victim, "eval", &cut]).await;
        let newest = posts(&world, 100).await;
        // Not before: the coordinator of streams of RabbitMQ 3.10 was seen to elect nobody while its leader was cut off, and
        // then no announcement is confirmed.
        dev(&servers, &["rabbitmqctl", "-n", victim, "eval", &heal]).await;
        whole(&servers).await;
        told(&world, newest).await;
    };
    world.publish_during(load("cut"), Box::pin(trouble)).await;
    at_rest(&world, runs).await;
}

/// It keeps its connections and says nothing: whoever is there finds out by the heartbeat, the other nodes by the tick.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_hangs_is_left_by_all() {
    if !full() {
        eprintln!("skipped: FIS_TEST_FULL=1 runs it");
        return;
    }
    let (_turn, servers) = cluster().await;
    let (world, runs) = two_services("cluster_hang", &servers).await;
    let trouble = async {
        let leader = leader(&world).await;
        act(&servers, leader, "pause").await;
        posts_on(&world, 100).await;
        act(&servers, leader, "resume").await;
        whole(&servers).await;
        posts_on(&world, 20).await;
    };
    world.publish_during(load("hang"), Box::pin(trouble)).await;
    at_rest(&world, runs).await;
}
