//! The long parts, each asked for by its own flag: a ledger that is full already, a backlog that is long, an outbox that has
//! seen millions.

use std::time::Duration;

use fis::platform::config::Config;

use super::bare_posting::Chain;
use super::drain::{self, Backlog, backlog};
use super::orders;
use super::resources;
use super::results::{Results, as_u64};
use super::sandbox::Sandbox;
use super::{in_sandbox, interruptible};

/// Filling is not measured: large transactions.
const FILL_BATCH: usize = 5_000;
const LOOK: Duration = Duration::from_millis(500);

/// Drains the same backlog into an empty ledger and into one that holds so many entries of the same tenant, in turn.
pub async fn full_ledger(
    config: &Config,
    entries: usize,
    events: usize,
    rounds: u32,
    results: &mut Results,
) -> anyhow::Result<()> {
    let full = Box::pin(Sandbox::make(config)).await?;
    let measured = async {
        interruptible(Box::pin(fill(&full, entries))).await?;
        results.add("ledger_entries", as_u64(entries));
        for round in 0..usize::try_from(rounds)? {
            let empty = in_sandbox(config, async |empty| backlog(empty, Backlog::of(events)).await).await?;
            results.add("empty_ledger", empty.drain);
            let drained =
                interruptible(Box::pin(backlog(&full, Backlog { first: round * events, ..Backlog::of(events) })))
                    .await?;
            results.add("full_ledger", drained.drain);
        }
        Ok(())
    };
    let measured = Box::pin(measured).await;
    Box::pin(full.remove()).await;
    measured
}

async fn fill(sandbox: &Sandbox, entries: usize) -> anyhow::Result<()> {
    let pool = &sandbox.postgres.pool;
    eprintln!("  filling a ledger with {entries} entries");
    // Under another name: these orders are not those that come.
    let filled = Chain::read(pool, "before").await?.post_all(pool, entries, FILL_BATCH).await?;
    eprintln!("  filled at {filled} entries/s");
    sqlx::raw_sql("truncate fis_outbox").execute(pool).await?;
    // As a ledger that has grown over time: its statistics known, nothing left for the autovacuum to catch up with.
    let mut db = pool.acquire().await?.detach();
    sqlx::raw_sql("set statement_timeout = 0").execute(&mut db).await?;
    sqlx::raw_sql("vacuum (analyze)").execute(&mut db).await?;
    // Nor anything of the filling left to be written while the drain is measured.
    sqlx::raw_sql("checkpoint").execute(&mut db).await?;
    Ok(())
}

/// Drains a backlog of events of a kilobyte, and looks at the memory.
pub async fn memory(config: &Config, events: usize, results: &mut Results) -> anyhow::Result<()> {
    in_sandbox(config, async |sandbox| {
        let drained = backlog(sandbox, Backlog { heavy: true, ..Backlog::of(events) }).await?;
        results.add("backlog_events", as_u64(events));
        results.add("backlog_drain", drained.drain);
        results.add("memory_backlog_kib", drained.memory_kib);
        Ok(())
    })
    .await
}

/// Sends so many events through the outbox, and looks at how large its table gets.
pub async fn outbox(config: &Config, events: usize, results: &mut Results) -> anyhow::Result<()> {
    in_sandbox(config, async |sandbox| {
        let pool = &sandbox.postgres.pool;
        let mut services = drain::start(sandbox, 1).await?;
        let (mut largest, size) = (0, async || resources::relation_bytes(pool, "fis\\_outbox%").await);
        let watching = async {
            loop {
                match size().await {
                    Ok(bytes) => largest = largest.max(bytes),
                    Err(error) => break error,
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let through = async {
            orders::publish(sandbox, 0..events).await?;
            drain::all_relayed(pool, &services, events).await
        };
        // Nothing is held by the watching: it only asks.
        tokio::select! {
            error = watching => return Err(error),
            done = through => done?,
        }
        results.add("outbox_events", as_u64(events));
        let end = size().await?;
        results.add("outbox_largest_kib", largest.max(end) / 1024);
        results.add("outbox_end_kib", end / 1024);
        drain::stop(sandbox, &mut services).await
    })
    .await
}
