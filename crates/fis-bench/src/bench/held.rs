//! Held events by the hundred thousand: all of them wait for one rate, a backlog is drained beside them while none is due, the rate comes, and they are
//! posted from where they wait.

use std::time::Instant;

use super::drain::{self, Backlog, until};
use super::orders::publish_without_rate;
use super::rate;
use super::results::Results;
use super::sandbox::{BOOKS, Sandbox};

/// Orders that are not letters and not of the live lane: their numbers must differ, or they would be duplicates.
const FIRST: usize = 300_000_000;
const DRAIN_FIRST: usize = 400_000_000;
/// The rate that the orders wait for.
const RATE: &str = "\n[[rates]]\nfrom = \"SEK\"\nto = \"EUR\"\ndate = 2026-01-01\nrate = \"0.09\"\n";

/// From the moment at which the books with the rate are applied until nothing is held, the relay waiting, as in the drain.
pub async fn measure(sandbox: &Sandbox, events: usize, beside: usize, results: &mut Results) -> anyhow::Result<()> {
    let pool = &sandbox.postgres.pool;
    let empty = Backlog { first: DRAIN_FIRST, relay_waits: true, ..Backlog::of(beside) };
    results.add("held_drain_before", drain::backlog(sandbox, empty).await?.drain);
    let held =
        async || anyhow::Ok(sqlx::query_scalar::<_, i64>("select count(*) from fis_held").fetch_one(pool).await?);
    let owner = drain::own_relay(sandbox).await?;
    let mut services = drain::start(sandbox, 1).await?;
    publish_without_rate(sandbox, FIRST..FIRST + events).await?;
    let all = i64::try_from(events)?;
    until("every event is held", events, async || Ok(held().await? == all)).await?;
    // None is to be due by itself meanwhile.
    sqlx::raw_sql("update fis_held set due_at = due_at + interval '1 day'").execute(pool).await?;
    sqlx::raw_sql("vacuum analyze fis_held").execute(pool).await?;
    drain::stop(sandbox, &mut services).await?;
    owner.close().await;
    let waiting = Backlog { first: DRAIN_FIRST + beside, ..empty };
    results.add("held_drain", drain::backlog(sandbox, waiting).await?.drain);
    let owner = drain::own_relay(sandbox).await?;
    let mut services = drain::start(sandbox, 1).await?;
    let (base, started) = (drain::posted(pool).await?, Instant::now());
    let applied = fis::journal::books::apply(pool, &format!("{BOOKS}{RATE}"), "fis-bench").await?;
    anyhow::ensure!(applied.released == events as u64, "{} of {events} were released", applied.released);
    until("everything is posted", events, async || Ok(drain::posted(pool).await? >= base + all)).await?;
    results.add("held_release", rate(events, started.elapsed()));
    anyhow::ensure!(held().await? == 0, "something is still held");
    owner.close().await;
    drain::stop(sandbox, &mut services).await
}
