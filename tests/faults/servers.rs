//! The servers die under load, and come back. A set of servers of its own, shared by these tests one at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex as StdMutex;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

use crate::support::broker::LANES;
use crate::support::invariants::Disturbed;
use crate::support::load::{QUICK_RETRIES, TENANTS, mix};
use crate::support::process::Run;
use crate::support::servers::{DEV, Servers, only_on};
use crate::support::wait::{same, wait_until, wait_within};
use crate::support::world::{Setup, World};

/// One test at a time harms the servers.
static TURN: Mutex<()> = Mutex::const_new(());

/// The servers of these tests, all of them up.
pub async fn servers() -> (MutexGuard<'static, ()>, Servers) {
    let turn = TURN.lock().await;
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("dev-faults");
    let servers = tokio::task::spawn_blocking(move || {
        stop_behind_us(&dir);
        Servers::private(&dir)
    });
    (turn, servers.await.unwrap())
}

/// Has the servers stopped when the last test process that uses them is gone, however it goes: each holds a shared lock,
/// and who waits for the exclusive one stops them.
#[expect(clippy::zombie_processes, reason = "it outlives us: that is what it is for")]
pub fn stop_behind_us(dir: &Path) {
    static USERS: StdMutex<BTreeMap<PathBuf, File>> = StdMutex::new(BTreeMap::new());
    USERS.lock().unwrap().entry(dir.to_owned()).or_insert_with(|| {
        let path = dir.with_extension("users");
        let user = File::create(&path).unwrap();
        user.lock_shared().unwrap();
        let mut watcher = Command::new("setsid");
        watcher.arg("flock").arg("-x").arg(&path).args([DEV, "down"]);
        watcher.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        only_on(dir, &mut watcher);
        watcher.spawn().unwrap();
        user
    });
}

pub async fn world(name: &str, servers: &Servers) -> World {
    let world = World::with(name, Setup { tenants: TENANTS, servers: servers.clone(), ..Setup::default() }).await;
    // RabbitMQ writes down which quorum queues it has up to three seconds late. One that is killed before has a queue that never
    // finds a leader again; an old queue is what these tests are about.
    dev(servers, &["rabbitmqctl", "eval", "[dets:sync(Table) || Table <- dets:all()]."]).await;
    world
}

/// Waits for Redis no longer than a service in production does.
fn impatient() -> Vec<(&'static str, &'static str)> {
    [&QUICK_RETRIES[..], &[("FIS__REDIS__TIMEOUT_MS", "250")]].concat()
}

pub async fn act(servers: &Servers, name: &'static str, action: &'static str) {
    dev(servers, &["server", name, action]).await;
}

pub async fn dev(servers: &Servers, args: &[&str]) {
    let servers = servers.clone();
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let act = move || servers.dev(&args.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(act).await.unwrap();
}

async fn parts(run: &Run) -> (u16, Value) {
    let (status, body) = run.get("/readyz").await;
    (status, serde_json::from_str::<Value>(&body).unwrap_or_default()["parts"].clone())
}

/// Waits until `/readyz` says that a part is away.
async fn wait_away(run: &Run, part: &str, status: u16) {
    wait_until(&format!("{part} is away"), async || {
        let (code, parts) = parts(run).await;
        let away = parts[part].as_str().is_some_and(|state| state.starts_with("away"));
        if away && code == status { Ok(()) } else { Err(format!("{code} {parts}")) }
    })
    .await;
}

async fn wait_posted(world: &World, more_than: i64) {
    wait_until("the ledger grows", async || {
        let now = world.count("select count(*) from fis_journal_entry").await;
        if now > more_than { Ok(()) } else { Err(format!("{now} entries")) }
    })
    .await;
}

/// How often the most unlucky message was delivered, as the dead letters and the queues can tell: here only that none was
/// given up.
async fn none_given_up(world: &World) {
    let given_up = "select count(*) from fis_dead_letter where reason in ('delivery_limit', 'database_refused')";
    assert_eq!(world.count(given_up).await, 0, "an outage is not the event's fault");
}

/// Deliveries that came back after an outage, counted by the session that lost them.
fn lost_sessions(run: &Run) -> usize {
    run.log().matches("the intake lost its session").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn while_postgresql_is_away_deliveries_are_held_and_posted_afterwards() {
    let (_turn, servers) = servers().await;
    let world = world("pg_crash", &servers).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    let messages = mix("pg_crash", 1200);
    let outage = async {
        wait_posted(&world, 100).await;
        act(&servers, "postgres", "crash").await;
        wait_away(&run, "postgres", 503).await;
        // As long as people need to notice; what is under test is that nothing happens meanwhile.
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(parts(&run).await.0, 503);
        assert_eq!(lost_sessions(&run), 0, "deliveries are held, not returned");
        act(&servers, "postgres", "start").await;
    };
    tokio::join!(world.publish_through_trouble(&messages, 20), outage);
    run.ready().await;
    world.rest(&mut run).await;
    assert_eq!(lost_sessions(&run), 0, "no delivery count was spent");
    none_given_up(&world).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_longer_than_the_hold_gives_deliveries_back_once_and_waits() {
    let (_turn, servers) = servers().await;
    let world = world("pg_long", &servers).await;
    let environment = [&QUICK_RETRIES[..], &[("FIS__INTAKE__HOLD_SECONDS", "2")]].concat();
    let mut run = world.run_with(&environment).await;
    world.publish(&mix("pg_long", 200)).await;
    act(&servers, "postgres", "crash").await;
    wait_until("the session is given up", async || match lost_sessions(&run) {
        0 => Err(format!("{:?}", parts(&run).await)),
        _ => Ok(()),
    })
    .await;
    let given_up = lost_sessions(&run);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(lost_sessions(&run), given_up, "it comes back only when PostgreSQL answers");
    act(&servers, "postgres", "start").await;
    run.ready().await;
    world.rest(&mut run).await;
    none_given_up(&world).await;
    world.invariants().await;
}

/// A server that does not answer is worse than one that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_postgresql_that_hangs_is_waited_for() {
    let (_turn, servers) = servers().await;
    let world = world("pg_pause", &servers).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    let messages = mix("pg_pause", 600);
    let outage = async {
        wait_posted(&world, 50).await;
        act(&servers, "postgres", "pause").await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(run.get("/healthz").await.0, 200, "the process lives");
        act(&servers, "postgres", "resume").await;
    };
    tokio::join!(world.publish_through_trouble(&messages, 20), outage);
    run.ready().await;
    world.rest(&mut run).await;
    none_given_up(&world).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_away_everything_goes_on() {
    let (_turn, servers) = servers().await;
    let world = world("redis_crash", &servers).await;
    let mut run = world.run_with(&impatient()).await;
    let outage = async {
        wait_posted(&world, 50).await;
        act(&servers, "redis", "crash").await;
        wait_away(&run, "redis", 200).await;
        let before = world.count("select count(*) from fis_journal_entry").await;
        wait_posted(&world, before).await;
        act(&servers, "redis", "start").await;
        wait_until("redis is back", async || {
            let (_, parts) = parts(&run).await;
            if parts["redis"] == "ok" { Ok(()) } else { Err(parts.to_string()) }
        })
        .await;
    };
    Box::pin(world.publish_during(|number| mix(&format!("redis_crash-{number}"), 100), outage)).await;
    world.rest(&mut run).await;
    world.invariants_after(Disturbed { redis: true }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_hangs_slows_but_stops_nothing() {
    let (_turn, servers) = servers().await;
    let world = world("redis_pause", &servers).await;
    let mut run = world.run_with(&impatient()).await;
    act(&servers, "redis", "pause").await;
    world.publish(&mix("redis_pause", 300)).await;
    world.quiet().await;
    act(&servers, "redis", "resume").await;
    world.rest(&mut run).await;
    world.invariants_after(Disturbed { redis: true }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_confirmed_survives_a_crash_of_the_broker() {
    let (_turn, servers) = servers().await;
    let world = world("rabbit_crash", &servers).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    let messages = mix("rabbit_crash", 1200);
    let outage = async {
        wait_posted(&world, 100).await;
        act(&servers, "rabbitmq", "crash").await;
        wait_away(&run, "broker-in", 503).await;
        assert!(run.is_running(), "it waits for the broker");
        act(&servers, "rabbitmq", "start").await;
    };
    let publishing = async {
        // The broker takes its time to come up; the publisher has patience.
        wait_within("everything is confirmed", Duration::from_secs(90), async || {
            world.publish_through_trouble(&messages, 20).await;
            Ok(())
        })
        .await;
    };
    tokio::join!(publishing, outage);
    wait_within("it is ready again", Duration::from_secs(60), async || {
        let seen = parts(&run).await;
        if seen.0 == 200 { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    world.rest(&mut run).await;
    none_given_up(&world).await;
    world.invariants().await;
}

/// A broker that is out of memory takes nothing from publishers. Acknowledgements use another connection and go on.
#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_of_the_broker_stops_the_relay_and_not_the_intake() {
    let (_turn, servers) = servers().await;
    let world = world("alarm", &servers).await;
    world.publish(&mix("alarm", 300)).await;
    dev(&servers, &["rabbitmqctl", "set_vm_memory_high_watermark", "absolute", "1"]).await;
    let environment = [&QUICK_RETRIES[..], &[("FIS__AMQP__TIMEOUT_MS", "2000")]].concat();
    let mut run = world.spawn(&environment);
    wait_away(&run, "broker-out", 503).await;
    wait_until("the lanes are empty all the same", async || {
        let mut ready = 0;
        for queue in LANES {
            ready += world.ready_count(queue).await;
        }
        same(ready, 0)
    })
    .await;
    wait_posted(&world, 100).await;
    assert!(world.count("select count(*) from fis_outbox").await > 0, "the announcements wait");
    // What `dev` gives its private broker.
    dev(&servers, &["rabbitmqctl", "set_vm_memory_high_watermark", "absolute", "2GB"]).await;
    run.ready().await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// A broker that is out of memory is often the next to be killed. Then nobody takes the alarm back.
#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_that_ends_with_the_broker_does_not_stop_the_relay_for_ever() {
    let (_turn, servers) = servers().await;
    let world = world("alarm_crash", &servers).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    // The broker tells only those who publish: there must be something to announce during the alarm.
    let mut lock = world.pool.begin().await.unwrap();
    sqlx::query("select 1 from fis_chain_head for update").execute(&mut *lock).await.unwrap();
    world.publish(&mix("alarm_crash", 100)).await;
    dev(&servers, &["rabbitmqctl", "set_vm_memory_high_watermark", "absolute", "1"]).await;
    lock.rollback().await.unwrap();
    wait_until("the relay is told of the alarm", async || {
        let log = run.log();
        if log.contains("raised an alarm") { Ok(()) } else { Err(log) }
    })
    .await;
    act(&servers, "rabbitmq", "crash").await;
    act(&servers, "rabbitmq", "start").await;
    run.ready().await;
    world.rest(&mut run).await;
    world.invariants().await;
}
