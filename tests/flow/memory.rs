//! Messages that are larger than any event, or only in memory: they end as letters, and the service never holds many of them.

use crate::support::broker::{DLQ, Publisher};
use crate::support::events::{LIVE, order};
use crate::support::process::Run;
use crate::support::raw::Raw;
use crate::support::tree::{entry, tagged};
use crate::support::wait::{same, wait_until, wait_within};
use crate::support::world::World;

const KEY: &[u8] = b"ecommerce.order.completed";
const LONG: std::time::Duration = std::time::Duration::from_secs(120);
/// The bytes of a body that a letter keeps.
const KEPT: usize = 256 * 1024;

/// The letters that parking has met in their queue.
async fn met(run: &Run) -> i64 {
    let (_, metrics) = run.get("/metrics").await;
    let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<i64>().ok());
    metrics.lines().filter(|line| line.starts_with("fis_parking_parked_total{")).filter_map(count).sum()
}

/// All of these are letters for their size, each once, and the order behind them is posted.
async fn wait_for_letters(world: &World, run: &Run, letters: i64) {
    wait_within("they are letters, and the order behind them is posted", LONG, async || {
        same(world.count("select count(*) from fis_dead_letter where reason = 'too_large'").await, letters)?;
        same(world.count("select count(*) from fis_journal_entry where event_id = 'behind'").await, 1)?;
        same(met(run).await, letters)?;
        same(world.ready_count(DLQ).await, 0)
    })
    .await;
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, letters, "the lane and the parking agree");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_are_large_only_in_memory_take_little_of_it() {
    let world = World::new("voids").await;
    let mut raw = Raw::open(&world).await;
    for number in 0..60 {
        // Each void is one byte on the wire.
        let headers = entry(b"voids", &tagged(b'A', &b"V".repeat(100_000)));
        raw.publish(LIVE, KEY, b"m", &headers, &order(&format!("void-{number}")).body).await;
    }
    world.publish(&[order("behind")]).await;
    let mut run = world.run().await;
    wait_for_letters(&world, &run, 60).await;
    let peak = run.memory_peak();
    assert!(peak < 120, "{peak} MiB");
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_beyond_every_event_are_not_held_by_the_dozen() {
    const BODIES: i64 = 24;
    let world = World::new("bodies").await;
    let publisher = Publisher::open(&world).await.unwrap();
    for number in 0..BODIES {
        let mut large = order("large");
        large.body = format!("{{\"{number}\": \"{}\"}}", "x".repeat(5_000_000)).into_bytes();
        assert_eq!(publisher.send(&[large]).await.unwrap(), [true]);
    }
    publisher.close().await;
    world.publish(&[order("behind")]).await;
    let mut run = world.run().await;
    wait_for_letters(&world, &run, BODIES).await;
    let peak = run.memory_peak();
    assert!(peak < 140, "{peak} MiB");
    let kept = world.count("select sum(octet_length(body))::bigint from fis_dead_letter").await;
    assert_eq!(kept, BODIES * i64::try_from(KEPT).unwrap());
    world.rest(&mut run).await;
    world.invariants().await;
}

/// What is kept of it looks like an event that could be booked.
#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_has_only_the_beginning_of_its_body_says_so_and_is_never_booked() {
    let world = World::new("cut").await;
    let mut run = world.run().await;
    let mut padded = order("padded");
    padded.body.resize(300_000, b' ');
    let hash = format!("sha256:{}", hex::encode(<sha2::Sha256 as sha2::Digest>::digest(&padded.body)));
    world.publish(&[padded.clone().rejected("too_large"), order("behind")]).await;
    wait_for_letters(&world, &run, 1).await;
    let (id, body): (String, Vec<u8>) =
        sqlx::query_as("select id, body from fis_dead_letter").fetch_one(&world.pool).await.unwrap();
    assert!(body == padded.body[..KEPT], "the beginning of the body");
    let wide = [("COLUMNS", "300")];
    let words = ["262144 bytes, the beginning of 300000 bytes", &hash, "cannot be booked", "fis dlq discard"];
    world.fis_with(&["dlq", "show", &id], &wide).await.expect(0, &words);
    let shown = world.fis(&["dlq", "show", &id, "--json"]).await.expect(0, &[]).json();
    assert_eq!(shown["wholeBody"], serde_json::json!(format!("300000 bytes, {hash}")));
    let words = ["only the beginning of its body was kept, of 300000 bytes", "it cannot be booked"];
    world.fis_with(&["dlq", "replay", &id, "--dry-run"], &wide).await.expect(1, &words);
    world.fis(&["dlq", "replay", &id, "--yes"]).await.expect(1, &["0 of 1 dead letter resolved"]);
    world.fis_with(&["dlq", "show", &id], &wide).await.expect(0, &words);
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 1);
    // Sent again whole, it is one more attempt of the same letter.
    world.publish(&[padded.rejected("too_large")]).await;
    wait_until("another attempt", async || {
        same(world.count("select max(attempts)::bigint from fis_dead_letter").await, 3)
    })
    .await;
    world.rest(&mut run).await;
    world.invariants().await;
}
