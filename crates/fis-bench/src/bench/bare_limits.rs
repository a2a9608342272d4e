//! The limits: the best that this machine and these servers do, each alone, and the rate of a listener that takes one event at a
//! time. The service's own figures stand beside them.

use std::time::{Duration, Instant};

use anyhow::Context;
use fis::domain::names::INGESTION_QUEUE;
use fis::platform::amqp::{Connection, Consumer, Delivery};
use futures::StreamExt;
use sqlx::PgPool;

use super::bare_posting::{BATCH, Chain};
use super::orders;
use super::rate;
use super::results::Results;
use super::sandbox::Sandbox;

/// The tables whose rows a posting writes; the balances are three rows.
const TABLES: [&str; 3] = ["fis_journal_entry", "fis_journal_line", "fis_outbox"];
/// More rows than this are not copied: they are held in memory on the way.
const COPY_EVENTS_MAX: usize = 100_000;
const COPY_CHUNK_BYTES: usize = 64 * 1024;
/// Enough to know the rate of something slow; a twentieth of the others' events where that is less.
const NAIVE_EVENTS_MAX: usize = 2_000;
const PREFETCH: u16 = 2000;
const SILENCE: Duration = Duration::from_secs(30);

/// The bare posting loop alone, in an empty database; then with the usual outbox.
pub async fn posting(sandbox: &Sandbox, events: usize, results: &mut Results) -> anyhow::Result<()> {
    let pool = &sandbox.postgres.pool;
    let rate = Chain::read(pool, &sandbox.name).await?.post_all(pool, events, BATCH).await?;
    results.add("posting", rate);
    let messages = format!("{}-messages", sandbox.name);
    let rate = Chain::read(pool, &messages).await?.with_messages().post_all(pool, events, BATCH).await?;
    results.add("posting_messages", rate);
    // The rows that `copy` takes are those of the service.
    sqlx::query("delete from fis_outbox where seq is null").execute(pool).await?;
    Ok(())
}

/// Every limit, one after another.
pub async fn all(sandbox: &Sandbox, events: usize, results: &mut Results) -> anyhow::Result<()> {
    let pool = &sandbox.postgres.pool;
    posting(sandbox, events, results).await?;
    results.add("copy", copy(pool, events.min(COPY_EVENTS_MAX)).await?);
    results.add("publish", rate(events, orders::publish(sandbox, 0..events).await?));
    results.add("consume", consume(sandbox, INGESTION_QUEUE, events, |_| Ok(())).await?);
    let few = (events / 20).min(NAIVE_EVENTS_MAX);
    orders::publish(sandbox, 0..few).await?;
    results.add("naive", naive(sandbox, few).await?);
    Ok(())
}

/// The rows that the loop has written, copied into empty tables of the same shape, in one transaction.
async fn copy(pool: &PgPool, events: usize) -> anyhow::Result<u64> {
    let mut db = pool.acquire().await?;
    let mut loads = Vec::new();
    for table in TABLES {
        // A generated column cannot be given.
        let columns: String = sqlx::query_scalar(
            "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
              where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''",
        )
        .bind(table)
        .fetch_one(&mut *db)
        .await?;
        let twin = format!("bench_{table}");
        // Our own names, none from outside.
        sqlx::raw_sql(&format!("create table {twin} (like {table} including all)")).execute(&mut *db).await?;
        let from = format!("copy (select {columns} from {table} where seq <= {events}) to stdout");
        let rows: Vec<_> = db.copy_out_raw(&from).await?.collect().await;
        let rows: Vec<u8> = rows.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
        loads.push((format!("copy {twin} ({columns}) from stdin"), rows));
    }
    let started = Instant::now();
    sqlx::raw_sql("begin").execute(&mut *db).await?;
    for (statement, rows) in loads {
        let mut load = db.copy_in_raw(&statement).await?;
        // Not row by row, as they came: each sending is a write to the socket.
        for chunk in rows.chunks(COPY_CHUNK_BYTES) {
            load.send(chunk).await?;
        }
        load.finish().await?;
    }
    sqlx::raw_sql("commit").execute(&mut *db).await?;
    Ok(rate(events, started.elapsed()))
}

/// Takes that many messages off a queue, acknowledging them by the batch, and shows each to `look`.
pub async fn consume(
    sandbox: &Sandbox,
    queue: &str,
    events: usize,
    mut look: impl FnMut(&Delivery) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let connection = Connection::open(&sandbox.config.amqp, "fis-bench").await?;
    let mut consumer = Consumer::open(&connection, queue, PREFETCH).await?;
    let started = Instant::now();
    let mut left = events;
    while left > 0 {
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH.min(left) {
            let delivery = next(&mut consumer).await?;
            look(&delivery)?;
            batch.push(delivery);
        }
        consumer.settler().settle(&batch, |_| false).await?;
        left -= batch.len();
    }
    let time = started.elapsed();
    connection.close().await;
    Ok(rate(events, time))
}

async fn next(consumer: &mut Consumer) -> anyhow::Result<Delivery> {
    let delivery = tokio::time::timeout(SILENCE, consumer.next()).await;
    Ok(delivery.context("a queue has fewer messages than were published")??)
}

/// One delivery, one claim, one transaction, one mark, one acknowledgement, then the next. Written as a patient hand would
/// write it: prepared statements, no needless round trip, deliveries waiting in memory.
async fn naive(sandbox: &Sandbox, events: usize) -> anyhow::Result<u64> {
    let pool = &sandbox.postgres.pool;
    let connection = Connection::open(&sandbox.config.amqp, "fis-bench").await?;
    let mut consumer = Consumer::open(&connection, INGESTION_QUEUE, PREFETCH).await?;
    let mut chain = Chain::read(pool, &sandbox.name).await?;
    let started = Instant::now();
    for _ in 0..events {
        let delivery = next(&mut consumer).await?;
        let event: serde_json::Value = serde_json::from_slice(&delivery.body)?;
        let key = format!("fis:ik:bench:{}", event.get("eventId").and_then(|id| id.as_str()).unwrap_or_default());
        sandbox.redis_text(&["SET", &key, "PROCESSING", "NX", "EX", "600"]).await?;
        chain.post(pool, 1).await?;
        sandbox.redis_text(&["SET", &key, "COMPLETED", "XX", "EX", "600"]).await?;
        consumer.settler().settle(&[delivery], |_| false).await?;
    }
    let time = started.elapsed();
    connection.close().await;
    Ok(rate(events, time))
}
