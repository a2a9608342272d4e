//! `fis status`.

use std::process::ExitCode;

use serde_json::{Value, json};
use sqlx::Row;

use crate::intake::Lane;
use crate::outbox;
use crate::parking::DEAD_LETTER_QUEUE;
use crate::platform::amqp::Connection;
use crate::platform::config::Config;
use crate::service;
use crate::store::dead_letters;

#[derive(clap::Args)]
pub struct Status {
    #[arg(long)]
    json: bool,
}

impl Status {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = super::database(config).await?;
        let queues = queues(config).await?;
        let mut db = postgres.pool.acquire().await?;
        let backlog = outbox::backlog(&mut db).await?;
        let reasons = dead_letters::open_by_reason(&mut db).await?;
        let open: i64 = reasons.iter().map(|(_, count)| count).sum();
        let counts = sqlx::query("select (select count(*) from fis_held) as held, (select coalesce(sum(seq), 0) from fis_chain_head)::bigint as entries")
            .fetch_one(&mut *db)
            .await?;
        let (held, entries): (i64, i64) = (counts.try_get("held")?, counts.try_get("entries")?);
        let breaker = breaker(config).await;
        if self.json {
            let by_reason: serde_json::Map<String, Value> =
                reasons.into_iter().map(|(reason, count)| (reason, count.into())).collect();
            super::print_json(&json!({
                "queues": queues.iter().map(|(name, ready, unacked)| (name.clone(), json!({ "ready": ready, "unacked": unacked }))).collect::<serde_json::Map<_, _>>(),
                "outbox": { "pending": backlog.pending, "oldestSeconds": backlog.oldest_seconds },
                "deadLetters": { "open": open, "byReason": by_reason },
                "held": held,
                "entries": entries,
                "breaker": breaker,
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = super::table(&["queue", "ready", "unacked"]);
        for (name, ready, unacked) in &queues {
            table.add_row([name.clone(), ready.to_string(), unacked.map_or_else(|| "?".to_owned(), |n| n.to_string())]);
        }
        println!("{table}");
        println!("entries       {entries}");
        println!("outbox        {} pending, oldest {} s", backlog.pending, backlog.oldest_seconds);
        println!("held          {held}");
        println!("dead letters  {open} open");
        for (reason, count) in &reasons {
            println!("              {count} {reason}");
        }
        println!("breaker       {breaker}");
        Ok(ExitCode::SUCCESS)
    }
}

/// Ready messages as the queues themselves say; unacknowledged ones only where the management API can be reached.
async fn queues(config: &Config) -> anyhow::Result<Vec<(String, u64, Option<u64>)>> {
    let connection = Connection::open(&config.amqp, "fis status").await?;
    let management = service::management(config)?;
    let mut queues = Vec::new();
    for queue in Lane::ALL.map(Lane::queue).into_iter().chain([DEAD_LETTER_QUEUE]) {
        let ready = connection.ready_count(queue).await?;
        let counts = management.queue_counts(queue).await.ok().flatten();
        queues.push((queue.to_owned(), u64::from(ready), counts.map(|counts| counts.unacked)));
    }
    connection.close().await;
    Ok(queues)
}

/// The breaker is the running service's: asked at its `/readyz`, unknown where none answers there.
async fn breaker(config: &Config) -> &'static str {
    match crate::platform::http::get(&config.http.addr, "/readyz").await {
        Ok((_, body)) => match serde_json::from_str::<Value>(&body) {
            Ok(ready) if ready.pointer("/parts/postgres").is_some_and(|state| state == "ok") => "closed",
            Ok(_) => "open",
            Err(_) => "unknown",
        },
        Err(_) => "unknown",
    }
}
