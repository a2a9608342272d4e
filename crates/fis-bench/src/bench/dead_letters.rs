//! Dead letters by the hundred thousand: parked from the queue, looked at, and replayed to *resolved* beside a live lane. What an
//! admin types is measured as an admin types it: the built program, from its start to its end.

use std::process::Stdio;
use std::time::{Duration, Instant};

use fis::domain::names::DEAD_LETTER_QUEUE;
use fis::platform::amqp::OutMessage;
use fis::platform::metrics;
use tokio::process::Command;
use tokio::sync::watch;

use super::drain::{self, Backlog, until};
use super::latency::{self, microseconds, rank};
use super::orders::{HALF_WINDOW, Order, TENANT, publish_all};
use super::rate;
use super::results::{Results, as_u64};
use super::sandbox::Sandbox;
use crate::service::{Service, product};

/// Replayed beside the live lane; the others without it.
const BESIDE: usize = 100_000;
/// Events per second on the live lane.
const LIVE_RATE: usize = 500;
/// At most so many seconds of it. Long enough that one hiccup of the disk is not the worst hundredth: whenever the broker deletes a file
/// of its log, everything waits for 100 to 200 ms.
const LIVE_SECONDS_MAX: usize = 30;
/// A second for so many letters; a replay of few does not last as long.
const LETTERS_A_SECOND: usize = 2_000;
/// Orders that are not letters: their numbers must differ, or they would be duplicates.
const LIVE_FIRST: usize = 100_000_000;
const DRAIN_FIRST: usize = 200_000_000;
/// The selection of the replay beside the live lane, and what follows it.
const ORDINARY: &str = "ecommerce.order.completed";
const IMPORTED: &str = "ecommerce.order.imported";
const SHIPPED: &str = "ecommerce.order.shipped";
/// An exchange that leads every routing key to the dead-letter queue.
const EXCHANGE: &str = "fis.bench.exchange";
/// Each look is taken so often, and the worst counts.
const LOOKS: usize = 3;

pub async fn measure(sandbox: &Sandbox, letters: usize, events: usize, results: &mut Results) -> anyhow::Result<()> {
    let drained =
        drain::backlog(sandbox, Backlog { first: DRAIN_FIRST, relay_waits: true, ..Backlog::of(events) }).await?;
    results.add("dlq_drain", drained.drain);
    results.add("dlq_letters", as_u64(letters));
    let beside = BESIDE.min(letters / 2);
    dead_letter(sandbox, letters, beside).await?;
    let mut services = drain::start(sandbox, 1).await?;
    park(&services, letters, results).await?;
    drain::all_relayed(&sandbox.postgres.pool, &services, letters).await?;
    look(sandbox, letters, results).await?;

    let seconds = (letters / LETTERS_A_SECOND).clamp(5, LIVE_SECONDS_MAX);
    results.add("dlq_live_alone_p99", live(sandbox, LIVE_FIRST, seconds).await?);
    let (took, (p99, resolved, live_took)) =
        tokio::try_join!(replay(sandbox, ORDINARY, beside), beside_a_replay(sandbox, LIVE_FIRST + BESIDE, seconds))?;
    // Only while there is live traffic; a small replay ends before.
    results.add("dlq_replay", if took < live_took { rate(beside, took) } else { rate(resolved, live_took) });
    results.add("dlq_live_beside_p99", p99);
    let imported = (letters - beside) / 2;
    let rest = replay(sandbox, IMPORTED, imported).await?;
    results.add("dlq_replay_relay", rate(imported, rest));
    drain::stop(sandbox, &mut services).await?;
    // As the drain is measured: the relay waits.
    let owner = drain::own_relay(sandbox).await?;
    let mut services = drain::start(sandbox, 1).await?;
    let left = letters - beside - imported;
    let last = replay(sandbox, SHIPPED, left).await?;
    results.add("dlq_replay_rest", rate(left, last));
    results.add("dlq_replay_all_us", microseconds(took + rest + last));
    owner.close().await;
    drain::stop(sandbox, &mut services).await
}

/// Puts orders into the dead-letter queue, as if the broker had given them up; the service does not run yet.
async fn dead_letter(sandbox: &Sandbox, letters: usize, beside: usize) -> anyhow::Result<()> {
    let message = |number: usize| {
        let order = Order { run: &sandbox.name, number };
        // The broker keeps the routing key of a letter in its `x-death`; here it comes with the key itself.
        let mut message = order.message();
        message.exchange = EXCHANGE.to_owned();
        let key = match number {
            number if number < beside => ORDINARY,
            number if number < beside + (letters - beside) / 2 => IMPORTED,
            _ => SHIPPED,
        };
        message.routing_key = key.to_owned();
        message
    };
    bind(sandbox).await?;
    let windows = (0..letters)
        .step_by(HALF_WINDOW)
        .map(|first| (first..letters.min(first + HALF_WINDOW)).map(message).collect::<Vec<OutMessage>>());
    publish_all(sandbox, windows).await?;
    Ok(())
}

async fn bind(sandbox: &Sandbox) -> anyhow::Result<()> {
    let exchange = serde_json::json!({ "type": "topic", "durable": true });
    sandbox.management.put_json(&sandbox.path("exchanges", EXCHANGE), &exchange).await?;
    let binding = serde_json::json!({ "routing_key": "#" });
    let path = sandbox.path("bindings", &format!("e/{EXCHANGE}/q/{DEAD_LETTER_QUEUE}"));
    sandbox.management.post_json(&path, &binding).await?;
    Ok(())
}

/// From the start of the service, which parks at once, until the last letter is in the table and acknowledged: the counter tells
/// that, and asking for it costs the database nothing.
async fn park(services: &[Service], letters: usize, results: &mut Results) -> anyhow::Result<()> {
    let parked = async || drain::counted(services, metrics::PARKING_PARKED, "").await;
    let (started, ahead) = (Instant::now(), parked().await?);
    until("every letter is parked", letters, async || Ok(parked().await? >= as_u64(letters))).await?;
    let time = started.elapsed();
    results.add("dlq_parking", rate(letters.saturating_sub(usize::try_from(ahead)?), time));
    Ok(())
}

/// The looks of an admin: the worst of each, from the start of the program to its end.
async fn look(sandbox: &Sandbox, letters: usize, results: &mut Results) -> anyhow::Result<()> {
    // As autovacuum does it within its minute; without it the index alone does not answer.
    sqlx::raw_sql("vacuum analyze fis_dead_letter").execute(&sandbox.postgres.pool).await?;
    let looks: [(&str, &[&str]); 3] = [
        ("dlq_list_us", &["dlq", "list"]),
        ("dlq_groups_us", &["dlq", "groups"]),
        (
            "dlq_filter_us",
            &["dlq", "list", "--text", "nowhere", "--tenant", TENANT, "--min-amount", "10", "--sort", "amount"],
        ),
    ];
    for (name, args) in looks {
        let mut worst = Duration::ZERO;
        for _ in 0..LOOKS {
            worst = worst.max(fis(sandbox, args).await?.0);
        }
        results.add(name, microseconds(worst));
    }
    let (_, said) = fis(sandbox, &["dlq", "list", "--json", "--limit", "1"]).await?;
    anyhow::ensure!(
        said.pointer("/total").is_some_and(|total| *total == letters),
        "not all letters are listed: {said}"
    );
    Ok(())
}

/// Replays to the end; every letter must be resolved.
async fn replay(sandbox: &Sandbox, key: &str, letters: usize) -> anyhow::Result<Duration> {
    let (took, said) = fis(sandbox, &["dlq", "replay", "--routing-key", key, "--yes", "--json"]).await?;
    let resolved = said.pointer("/progress/resolved").is_some_and(|resolved| *resolved == letters);
    anyhow::ensure!(resolved, "not all of {letters} letters are resolved: {said}");
    Ok(took)
}

/// Publishes to the live lane at its rate; the worst hundredth from the moment an event was due to its commit.
async fn live(sandbox: &Sandbox, first: usize, seconds: usize) -> anyhow::Result<u64> {
    let pool = &sandbox.postgres.pool;
    let base = drain::posted(pool).await?;
    let (finished, finish) = watch::channel(false);
    let looking = tokio::spawn(latency::look(pool.clone(), finish));
    let events = LIVE_RATE * seconds;
    let publishing = latency::publish(sandbox.config.clone(), sandbox.name.clone(), first, LIVE_RATE, events);
    let due = publishing.await?;
    let target = i64::try_from(events)?;
    let count = "select count(*) from fis_journal_entry where tenant_id = $1 and seq > $2 and lane = 'live'";
    until("the live lane is empty", events, async || {
        Ok(sqlx::query_scalar::<_, i64>(count).bind(TENANT).bind(base).fetch_one(pool).await? >= target)
    })
    .await?;
    drop(finished);
    let looks = looking.await??;
    let mut times = Vec::with_capacity(events);
    for (number, seq) in latency::sequences(pool, &sandbox.name, base).await? {
        let Some(due) = number.checked_sub(first).and_then(|index| due.get(index)) else { continue };
        times.push(microseconds(latency::committed(&looks, seq)? - *due));
    }
    anyhow::ensure!(times.len() == events, "{} of {events} live events were posted", times.len());
    times.sort_unstable();
    Ok(rank(&times, 990))
}

/// The live lane beside a replay: its worst hundredth, and how many letters were resolved in how long a time meanwhile.
async fn beside_a_replay(sandbox: &Sandbox, first: usize, seconds: usize) -> anyhow::Result<(u64, usize, Duration)> {
    let started = Instant::now();
    let p99 = live(sandbox, first, seconds).await?;
    let took = started.elapsed();
    let resolved: i64 = sqlx::query_scalar("select count(*) from fis_dead_letter where status = 'resolved'")
        .fetch_one(&sandbox.postgres.pool)
        .await?;
    Ok((p99, usize::try_from(resolved)?, took))
}

/// The time that the built program took to its end, and its output where that is JSON.
async fn fis(sandbox: &Sandbox, args: &[&str]) -> anyhow::Result<(Duration, serde_json::Value)> {
    let mut command = Command::new(product()?);
    command
        .args(args)
        .env("FIS_DATABASE_URL", sandbox.config.database.url.expose())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let started = Instant::now();
    let output = command.output().await?;
    let took = started.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "fis {} failed: {said}", args.join(" "));
    Ok((took, serde_json::from_slice(&output.stdout).unwrap_or_default()))
}
