//! After the storm: everything heals, comes to rest and is checked.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use deadpool_redis::redis;
use serde_json::Value;

use crate::check::{Breach, books, feed, places};
use crate::operator;
use crate::reader::QUEUE;
use crate::snapshot::Snapshot;
use crate::weather::note;
use crate::world::World;

const QUEUES: [&str; 5] =
    ["fis.ingestion.queue", "fis.urgent.queue", "fis.backfill.queue", "fis.ingestion.dlq.queue", QUEUE];
/// For a machine that has other things to do as well.
const REST: Duration = Duration::from_secs(900);
/// Everything is well by now: what does not change for so long although there is work never will. Longer than any timeout of fis.
const STUCK: Duration = Duration::from_secs(90);
/// The same where nothing is under way: longer than a held event waits for its next attempt.
const STUCK_AT_REST: Duration = Duration::from_secs(40);
/// Looks in a row that find nothing left to do: what is in somebody's hands cannot be seen from outside.
const LOOKS: u32 = 3;

/// Rows that leave, held events that are due, and letters of replays that run.
const DUE: &str = "select (select count(*) from fis_outbox)
                        + (select count(*) from fis_held where due_at <= now())
                        + (select coalesce(sum(letters - decided), 0)::bigint from fis_replay where state = 'running')";

/// Waits for rest, stops fis, and checks everything.
pub async fn verdict(world: &World) -> Result<(Vec<Breach>, Snapshot)> {
    world.publisher.hushed.store(false, Ordering::SeqCst);
    world.publisher.hurried.store(true, Ordering::SeqCst);
    let deadline = Instant::now() + REST;
    while world.publisher.left() > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    world.publisher.hush().await;
    note(world, "everything is published").await;
    while world.apply_books(2).await.is_err() {
        anyhow::ensure!(Instant::now() < deadline, "the books cannot be applied");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    if let Err(error) = operator::finish(world).await {
        note(world, &format!("the last replay: {error:#}")).await;
    }
    // What fis itself did wrong comes behind what became of the events.
    let mut late = Vec::new();
    let restless = rest(world, Instant::now() + REST).await;
    note(world, "at rest").await;
    for number in world.instances.all() {
        match world.instances.terminate(number).await {
            Ok(Some(status)) if status.success() => {}
            Ok(status) => late.push(Breach::new(8, format!("fis {number} ended with {status:?} after SIGTERM"))),
            Err(error) => late.push(Breach::new(8, error.to_string())),
        }
    }
    if look(world).await.is_ok_and(|(left, _)| !left.is_empty()) {
        // What it could not finish because it was stopped.
        if let Err(error) = world.instances.fis(&["run", "--once"]).await {
            late.push(Breach::new(8, format!("{error:#}")));
        }
    }
    let (mut breaches, snapshot) = look(world).await.context("the last look")?;
    breaches.extend(books::check(&snapshot));
    let scars = *world.scars.lock().unwrap();
    let told = world.reader.told.lock().unwrap().clone();
    breaches.extend(feed::check(&world.script, &snapshot, &told, scars));
    breaches.extend(keys(world, &snapshot).await?);
    breaches.extend(operator::check(world).await?);
    breaches.extend(logs(world));
    breaches.extend(late);
    if breaches.is_empty() {
        breaches.extend(restless);
    }
    Ok((breaches, snapshot))
}

/// Waits until nothing moves any more. Returns what moved at the end of its patience.
async fn rest(world: &World, deadline: Instant) -> Vec<Breach> {
    let mut quiet = 0;
    let (mut before, mut since) = ((String::new(), 0), Instant::now());
    loop {
        operator::mend(world).await;
        // What is under way is cheap to see; everything is looked at only when nothing is.
        let looked = match under_way(world).await {
            Ok(moving) if moving.is_empty() => look(world).await.map(|(breaches, _)| breaches),
            other => other,
        };
        let restless = looked.unwrap_or_else(|error| vec![Breach::new(8, format!("cannot look: {error:#}"))]);
        quiet = if restless.is_empty() { quiet + 1 } else { 0 };
        if quiet == LOOKS {
            return Vec::new();
        }
        let under_way = restless.iter().any(|breach| breach.invariant == 8);
        let posted = world.posted().await.unwrap_or(before.1);
        // What comes back again and again only to be held again is no progress.
        let missing = restless.iter().map(|breach| breach.what.as_str()).collect::<Vec<_>>().join("\n");
        let now = (if under_way { before.0.clone() } else { missing }, posted);
        if now != before {
            (before, since) = (now, Instant::now());
        }
        let stuck = since.elapsed() > if under_way { STUCK } else { STUCK_AT_REST };
        if stuck || Instant::now() > deadline {
            return restless;
        }
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }
}

/// Invariant 8, as far as it can be seen while fis runs.
async fn under_way(world: &World) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for (queue, ready) in world.ready(QUEUES).await? {
        if ready > 0 {
            breaches.push(Breach::new(8, format!("{ready} messages are left in {queue}")));
        }
    }
    let mut session = world.servers.sql(&world.database).await?;
    let asking = sqlx::query_scalar::<_, i64>(DUE).fetch_one(&mut session);
    let due = tokio::time::timeout(Duration::from_secs(60), asking).await??;
    if due > 0 {
        breaches.push(Breach::new(8, format!("{due} rows of outbox and inbox are due")));
    }
    Ok(breaches)
}

/// Invariants 1 and 8.
async fn look(world: &World) -> Result<(Vec<Breach>, Snapshot)> {
    let mut session = world.servers.sql(&world.database).await?;
    let snapshot = tokio::time::timeout(Duration::from_secs(120), Snapshot::take(&mut session)).await??;
    let sent = world.publisher.sent.lock().unwrap().clone();
    let discarded = world.operator.discarded.lock().unwrap().clone();
    let mut breaches = places::check(&world.script, &sent, &snapshot, &discarded);
    breaches.extend(under_way(world).await?);
    Ok((breaches, snapshot))
}

/// No text of an event drives the terminal of whoever reads the log, or turns a line of it around.
fn logs(world: &World) -> Vec<Breach> {
    let is_unfit =
        |c: &char| *c != '\n' && c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut breaches = Vec::new();
    for number in world.instances.all() {
        let log = std::fs::read(world.instances.log(number)).unwrap_or_default();
        if let Some(unfit) = String::from_utf8_lossy(&log).chars().find(is_unfit) {
            breaches.push(Breach::new(8, format!("the log of fis {number} has a raw {unfit:?}")));
        }
    }
    breaches
}

/// Invariant 8: no PROCESSING key of a posted event; and a COMPLETED key never lies.
async fn keys(world: &World, snapshot: &Snapshot) -> Result<Vec<Breach>> {
    let scars = *world.scars.lock().unwrap();
    // A Redis that a busy machine makes slow is left alone as well, and fis says so.
    let slow = world.instances.all().any(|number| {
        std::fs::read_to_string(world.instances.log(number)).unwrap_or_default().contains("cannot use Redis at")
    });
    let mut breaches = Vec::new();
    let entries = snapshot.entry_of();
    let forged = world.forger.forged.lock().unwrap().clone();
    let mut connection = world.servers.redis().await?;
    let names: Vec<String> = redis::cmd("KEYS").arg("fis:ik:*").query_async(&mut connection).await?;
    let names: Vec<String> = names.into_iter().filter(|name| !forged.contains(name)).collect();
    for chunk in names.chunks(500) {
        let values: Vec<Option<String>> = redis::cmd("MGET").arg(chunk).query_async(&mut connection).await?;
        for (name, value) in chunk.iter().zip(values) {
            let value: Value = serde_json::from_str(&value.unwrap_or_default()).unwrap_or_default();
            let mut parts = name.splitn(4, ':').skip(2);
            let (tenant, event) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let posted = entries.get(&(tenant, event));
            let status = value["status"].as_str().unwrap_or_default();
            // Two contents under one id, in two lanes: the word that the other one failed may come last. It proves nothing.
            if status == "FAILED" && posted.is_some_and(|entry| value["payloadHash"] != entry.payload_hash.as_str()) {
                continue;
            }
            match (status, posted) {
                ("PROCESSING" | "FAILED", Some(entry)) if !scars.redis && !slow && !scars.forgot => {
                    let what = format!("{name} says {value}, the event is posted as {}", entry.entry_id);
                    breaches.push(Breach::new(8, what).of(tenant, event));
                }
                ("COMPLETED", None) if !scars.forgot => {
                    let what = format!("{name} says COMPLETED, the event is not posted");
                    breaches.push(Breach::new(8, what).of(tenant, event));
                }
                _ => {}
            }
        }
    }
    Ok(breaches)
}
