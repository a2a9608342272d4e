//! The relay under fire: it, the broker and PostgreSQL die in the middle of a backlog; its owner is stopped and wakes up again.
//! The finance team's queue is the judge.

use std::time::Duration;

use crate::servers::{act, servers};
use crate::support::broker::FINANCE;
use crate::support::load::TENANTS;
use crate::support::process::Run;
use crate::support::wait::wait_within;
use crate::support::world::{Setup, World};

/// The window of the default configuration.
const WINDOW: usize = 1000;
/// On a busy machine a server takes its time to come up.
const LONG: Duration = Duration::from_secs(120);

/// Waits until the backlog is shorter than this, so that the next blow falls into the work.
async fn wait_left(world: &World, fewer_than: i64) {
    wait_within("the backlog shrinks", LONG, async || {
        // The database itself may be away.
        let left = sqlx::query_scalar::<_, i64>("select count(*) from fis_outbox");
        match left.fetch_one(&world.pool).await {
            Ok(left) if left < fewer_than => Ok(()),
            Ok(left) => Err(format!("{left} rows, not fewer than {fewer_than}")),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_crashes_of_everything_in_fifty_thousand_repeat_at_most_a_window_each() {
    const CRASHES: i64 = 10;
    const EACH: i64 = 25_000;
    let (_turn, servers) = servers().await;
    let setup = Setup { tenants: TENANTS, servers: servers.clone(), ..Setup::default() };
    let world = World::with("ten_crashes", setup).await;
    world.fill(TENANTS, EACH).await;
    let mut run = world.spawn(&[]);
    for crash in 1..=CRASHES {
        wait_left(&world, 2 * EACH - crash * 4_000).await;
        // A moment of its own within a window, chosen at random.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..50_000))).await;
        match crash % 5 {
            2 => {
                act(&servers, "rabbitmq", "crash").await;
                act(&servers, "rabbitmq", "start").await;
            }
            4 => {
                act(&servers, "postgres", "crash").await;
                act(&servers, "postgres", "start").await;
            }
            _ => {
                run.kill();
                run = world.spawn(&[]);
            }
        }
    }
    wait_left(&world, 1).await;
    run.terminate().await;
    let repeated = world.check_whole_feed(FINANCE).await;
    assert!(repeated <= WINDOW * usize::try_from(CRASHES).unwrap(), "{repeated} repetitions");
    eprintln!("{repeated} repetitions after {CRASHES} crashes");
}

fn relays(run: &Run) -> usize {
    run.log().matches("\"relaying\"").count()
}

/// The owner is stopped in the middle of its window. The broker closes its connection, the other one takes over; and when the
/// first wakes up, it breaks no order and marks nothing that it did not send.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_owner_is_replaced_within_seconds_and_does_no_harm_when_it_wakes_up() {
    const ROUNDS: usize = 4;
    let world = World::with("stopped_owner", Setup { tenants: TENANTS, ..Setup::default() }).await;
    world.fill(TENANTS, 6_000).await;
    let mut runs = [world.run().await, world.spawn(&[])];
    runs[1].ready().await;
    for round in 0..ROUNDS {
        let (owner, other) = (round % 2, (round + 1) % 2);
        world.fill(TENANTS, 6_000).await;
        let before = relays(&runs[other]);
        wait_left(&world, world.announcements_left().await - 1_000).await;
        runs[owner].signal("STOP");
        let stopped = std::time::Instant::now();
        wait_within("the other relays", LONG, async || {
            if relays(&runs[other]) > before { Ok(()) } else { Err(runs[other].log().lines().count().to_string()) }
        })
        .await;
        let took = stopped.elapsed();
        eprintln!("taken over after {took:?}");
        assert!(took < Duration::from_secs(30), "taken over after {took:?}");
        // Now both believe that they relay, for a moment.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..500))).await;
        runs[owner].signal("CONT");
        wait_left(&world, 1).await;
    }
    for run in &mut runs {
        run.terminate().await;
    }
    let repeated = world.check_whole_feed(FINANCE).await;
    assert!(repeated <= WINDOW * ROUNDS, "{repeated} repetitions");
}

/// Both are stopped and woken at random, sometimes both at once, for shorter and for longer than the broker waits for a sign of life.
#[tokio::test(flavor = "multi_thread")]
async fn two_instances_stopped_and_woken_at_random_keep_the_feed_whole() {
    const BLOWS: usize = 24;
    let seed =
        std::env::var("FIS_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    eprintln!("stopped and woken by FIS_TEST_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::with("random_stops", Setup { tenants: TENANTS, ..Setup::default() }).await;
    world.fill(TENANTS, 15_000).await;
    let mut runs = [world.run().await, world.spawn(&[])];
    runs[1].ready().await;
    let (mut stopped, mut owners) = ([false; 2], 0);
    for blow in 1..=BLOWS {
        let place = rng.usize(..2);
        runs[place].signal(if stopped[place] { "CONT" } else { "STOP" });
        stopped[place] = !stopped[place];
        // What happens meanwhile is the point; a sixth of the pauses outlasts the broker's patience with a silent connection.
        let longest = if rng.u8(..6) == 0 { 12_000 } else { 300 };
        tokio::time::sleep(Duration::from_millis(rng.u64(..longest))).await;
        if blow % 8 == 0 {
            // One of them must be able to work now and then, or it would be a test of stopping alone.
            let left = world.announcements_left().await;
            runs[0].signal("CONT");
            stopped[0] = false;
            wait_left(&world, (left - 2_000).max(1)).await;
            world.fill(TENANTS, 2_000).await;
        }
    }
    for run in &runs {
        run.signal("CONT");
    }
    wait_left(&world, 1).await;
    for run in &mut runs {
        owners += relays(run);
        run.terminate().await;
    }
    let repeated = world.check_whole_feed(FINANCE).await;
    assert!(repeated <= WINDOW * owners, "{repeated} repetitions, {owners} times an owner");
}
