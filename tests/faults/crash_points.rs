//! A crash at every border between two phases.

use std::time::Duration;

use fis::faults::crash_points;

use crate::support::events::order;
use crate::support::load::{QUICK_RETRIES, TENANTS, mix};
use crate::support::wait::wait_within;
use crate::support::world::{Setup, World};

/// The one point that is not reached without a mirror. Every virtual host has this exchange.
const MIRROR: [(&str, &str); 2] =
    [("FIS__OUTBOX__MIRROR__ENABLED", "true"), ("FIS__OUTBOX__MIRROR__EXCHANGE", "amq.fanout")];
const MIRRORED: &str = "mirrored.queue";

/// Dies at the point, comes back without it, and comes to rest.
async fn survive(point: &str) {
    let world = World::with(point, Setup { tenants: TENANTS, ..Setup::default() }).await;
    let messages = mix(point, 200);
    let (before, after) = messages.split_at(messages.len() / 2);
    let mirror = if point == crash_points::AFTER_MIRROR { &MIRROR[..] } else { &[] };
    world.declare_queue(MIRRORED, "amq.fanout", "").await;
    let settings = [&QUICK_RETRIES[..], mirror].concat();
    let environment = [&settings[..], &[("FIS_FAILPOINT", point)]].concat();
    let mut doomed = world.spawn(&environment);
    world.publish_through_trouble(before, 10).await;
    let status = doomed.exited(Duration::from_secs(60)).await;
    assert!(doomed.aborted(), "{point} was not reached: {status:?}");
    drop(doomed);

    // Once more on the way back up, so that what was redelivered meets the same crash.
    let mut doomed = world.spawn(&environment);
    world.publish_through_trouble(after, 25).await;
    doomed.exited(Duration::from_secs(60)).await;
    assert!(doomed.aborted(), "{point} was not reached a second time");
    drop(doomed);

    let mut run = world.run_with(&settings).await;
    world.rest(&mut run).await;
    world.invariants().await;
    if point == crash_points::AFTER_MIRROR {
        let repeated = world.check_whole_feed(MIRRORED).await;
        assert!(repeated > 0, "the crashes fell between the confirms and the cursors");
    }
}

macro_rules! points {
    ($($test:ident $point:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                survive(crash_points::$point).await;
            }
        )*

        #[test]
        fn every_crash_point_has_a_test() {
            let by_hand = &crate::dead_letters::BY_HAND;
            let tested = [&[$(crash_points::$point),*][..], by_hand, &crate::dead_letters::INBOX].concat();
            assert_eq!(crash_points::ALL, tested);
        }
    };
}

points! {
    a_crash_after_the_claim_loses_nothing AFTER_CLAIM;
    a_crash_before_the_commit_loses_nothing BEFORE_COMMIT;
    a_crash_after_the_commit_posts_nothing_twice AFTER_COMMIT;
    a_crash_after_the_mark_posts_nothing_twice AFTER_MARK;
    a_crash_after_settling_loses_nothing AFTER_SETTLE;
    a_crash_after_publishing_repeats_the_same_bytes AFTER_PUBLISH;
    a_crash_after_mirroring_repeats_the_same_bytes AFTER_MIRROR;
    a_crash_after_parking_keeps_one_dead_letter AFTER_PARK;
}

/// Crashes that never happen prove nothing: without the variable the same load runs through.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_crash_point_the_same_load_comes_to_rest() {
    let world = World::with("no_crash", Setup { tenants: TENANTS, ..Setup::default() }).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    world.publish_through_trouble(&mix("no_crash", 200), 25).await;
    wait_within("it still runs", Duration::from_secs(1), async || {
        if run.is_running() { Ok(()) } else { Err("it ended".to_owned()) }
    })
    .await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// A fault of ours that only one event meets, and that takes the process with it each time.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_kills_the_process_ends_in_the_dead_letters_alone_and_its_neighbours_are_posted() {
    const LIVES_MAX: u32 = 60;
    let world = World::new("killer").await;
    let order_or_killer = |n: u32| match n {
        120 => order("killer").rejected("delivery_limit"),
        n => order(&format!("evt-{n}")),
    };
    world.publish(&(0..250).map(order_or_killer).collect::<Vec<_>>()).await;
    for life in 1.. {
        assert!(life <= LIVES_MAX, "it is delivered for ever");
        let mut run = world.spawn(&[("FIS_FAILPOINT", "event:killer")]);
        let given_up = wait_within("it dies, or gives the event up", Duration::from_secs(60), async || {
            let given_up = world.count("select count(*) from fis_dead_letter").await > 0;
            let posted = world.count("select count(*) from fis_journal_entry").await;
            match (run.is_running(), given_up && posted == 249) {
                (_, true) => Ok(true),
                (false, false) => Ok(false),
                (true, false) => Err(format!("{posted} posted in life {life}")),
            }
        });
        if given_up.await {
            world.rest(&mut run).await;
            break;
        }
    }
    let letters = "select count(*) from fis_dead_letter where not (event_id is null and reason = 'delivery_limit')";
    assert_eq!(world.count(letters).await, 0, "only the killer, which nobody looked into");
    world.invariants().await;
}
