//! Fuzzing at the broker's edge: whatever the broker takes of a stranger (any bytes, every property, header tables of every type, depth and width, bodies of
//! all sizes) goes to a running service, among orders that must be posted. After each round the service lives, the queues are empty, each message that
//! the broker confirmed is exactly one of posted, duplicate, ignored, held or a letter with its bytes, and little memory was taken.
//!
//! `tests/support/fuzz.rs` tells how it is run and how inputs are kept.

mod message;
mod oracle;

use std::time::Duration;

use message::Sent;
use oracle::Places;

use crate::support::events::{BACKFILL, LIVE, URGENT, order_of};
use crate::support::fuzz::{Fuzz, Target};
use crate::support::load::TENANTS;
use crate::support::process::Run;
use crate::support::raw::Raw;
use crate::support::world::{Setup, World};

const TARGET: Target = Target {
    name: "edge",
    share: 4,
    folders: &["tests/corpus/edge"],
    // Of the service, for a whole round.
    cpu_max: Duration::from_secs(60),
};
/// Messages of a round, and rounds of a world: what a world has is looked through after each round.
const MESSAGES: usize = 60;
const ROUNDS: usize = 10;
/// The most memory of the service in MiB. Messages of up to 8 MiB and headers of 100,000 values are among them.
const MEMORY_MAX: u64 = 200;
/// What is held stays held: no round waits for a retry.
const NO_RETRIES: [(&str, &str); 2] =
    [("FIS__RETRY__BASE_DELAY_SECONDS", "86400"), ("FIS__RETRY__MAX_DELAY_SECONDS", "86400")];
/// The kernel's clock ticks.
const TICKS_PER_SECOND: u64 = 100;

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_broker_takes_finds_its_place_and_stops_nothing() {
    let mut fuzz = Fuzz::begin(TARGET);
    let mut corpus: Vec<Sent> = fuzz.pool.iter().filter_map(|bytes| Sent::decode(bytes)).collect();
    assert_eq!(corpus.len(), fuzz.pool.len(), "the corpus has what is no message");
    let mut is_first = true;
    while is_first || fuzz.has_time() {
        campaign(&mut fuzz, std::mem::take(&mut corpus)).await;
        is_first = false;
    }
    fuzz.report(0);
}

/// Some rounds in a world of their own.
async fn campaign(fuzz: &mut Fuzz, mut corpus: Vec<Sent>) {
    let world = World::with("edge", Setup { tenants: TENANTS, ..Setup::default() }).await;
    let mut run = world.run_with(&NO_RETRIES).await;
    let mut places = Places::default();
    // Those of the corpus have ids of other runs.
    let tag = fuzz.random.u32(..);
    for round in 0..ROUNDS {
        if round > 0 && !fuzz.has_time() {
            break;
        }
        let mut sent = std::mem::take(&mut corpus);
        for number in 0..MESSAGES {
            sent.push(message::message(&mut fuzz.random, &fuzz.pool, &format!("f{tag:08x}-{round}-{number}")));
        }
        publish(&world, &mut places, sent, round).await;
        judge(fuzz, &world, &mut run, &mut places).await;
    }
    world.rest(&mut run).await;
    if let Err(breach) = places.check_letters(&world).await {
        fuzz.found(places.inputs().iter().map(Vec::as_slice), &breach);
    }
    world.invariants().await;
}

/// Publishes them, with orders between them.
async fn publish(world: &World, places: &mut Places, sent: Vec<Sent>, round: usize) {
    let mut raw = Raw::open(world).await;
    for (number, sent) in sent.into_iter().enumerate() {
        if number % 10 == 5 {
            let (tenant, lane) = (TENANTS[number / 10 % 2], [LIVE, URGENT, BACKFILL][number / 10 % 3]);
            world
                .publish(&[order_of(tenant, &format!("good-{round}-{number}"), "EUR", "119.00", "19.00").on(lane)])
                .await;
        }
        let offered = raw.offer(sent.exchange, &sent.routing_key, &sent.header, &sent.body);
        let answer = tokio::time::timeout(Duration::from_secs(30), offered).await.expect("the broker answers");
        match answer {
            Ok(()) => places.add(sent),
            // Nobody has to answer for what the broker did not take.
            Err(_) => raw = Raw::open(world).await,
        }
    }
}

async fn judge(fuzz: &mut Fuzz, world: &World, run: &mut Run, places: &mut Places) {
    let (before, _) = run.usage();
    let judged = places.judged(world, run).await;
    let all = |places: &Places| places.inputs();
    if !run.is_running() {
        fuzz.found(all(places).iter().map(Vec::as_slice), "the service ended");
    }
    match judged {
        Err(breach) => fuzz.found(all(places).iter().map(Vec::as_slice), &breach),
        Ok(shapes) => {
            for (input, shape) in shapes {
                if fuzz.count(&input, shape, Duration::ZERO) {
                    fuzz.keep(&input);
                }
            }
        }
    }
    let peak = run.memory_peak();
    if peak > MEMORY_MAX {
        fuzz.found(all(places).iter().map(Vec::as_slice), &format!("the service took {peak} MiB"));
    }
    let cpu = Duration::from_millis((run.usage().0 - before) * 1000 / TICKS_PER_SECOND);
    fuzz.cpu += cpu;
    if cpu > TARGET.cpu_max {
        fuzz.found(all(places).iter().map(Vec::as_slice), &format!("a round took {cpu:?} of processor time"));
    }
}
