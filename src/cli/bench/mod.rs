//! `fis bench`: how fast a backlog becomes a ledger, beside the limit measured in the same run. Timings are noisy and machines
//! differ, so what counts is the ratio. Works in a database and a virtual host of its own, removed at the end.

mod limit;
mod mapping;
mod place;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use sqlx::PgPool;

use crate::cli::demo::service::Service;
use crate::intake::Lane;
use crate::platform::amqp::{Connection, OutMessage, Properties, PublishOutcome, Publisher};
use crate::platform::config::Config;
use place::Place;

const BOOKS: &str = include_str!("../../../books/shop.toml");
const WINDOW: usize = 1000;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub struct Bench {
    /// Events per round
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1_000..=5_000_000))]
    events: u32,
    /// Rounds; the medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,
    #[arg(long)]
    json: bool,
}

/// Rates in events per second.
#[derive(Default)]
struct Rates {
    limit: Vec<u64>,
    publish: Vec<u64>,
    drain: Vec<u64>,
    announced: Vec<u64>,
}

impl Bench {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let events = usize::try_from(self.events)?;
        let mut rates = Rates::default();
        for round in 1..=self.rounds {
            eprintln!("round {round} of {}", self.rounds);
            let place = Place::make(config).await?;
            let measured = measure(&place, events, &mut rates).await;
            place.remove().await;
            measured?;
        }
        let (limit, drain) = (median(&mut rates.limit), median(&mut rates.drain));
        let costs = mapping::costs(BOOKS, &order("bench", 1).body)?;
        let (publish, announced) = (median(&mut rates.publish), median(&mut rates.announced));
        if self.json {
            super::print_json(&serde_json::json!({
                "events": events, "rounds": self.rounds,
                "eventsPerSecond": { "barePosting": limit, "publish": publish, "drain": drain, "drainAndRelay": announced },
                "drainOfBarePosting": ratio(drain, limit),
                "nanosecondsPerOrder": { "decode": costs.decode, "map": costs.map, "mapWith1000Rules": costs.map_many },
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = super::table(&["", "events/s", "of the limit"]);
        for (name, rate) in [
            ("limit: the same rows, posted in batches of 500 by a bare loop", limit),
            ("publish with confirms, window 1,000", publish),
            ("drain: backlog to committed, rules, Redis and acks included", drain),
            ("drain and relay: backlog to confirmed on the feed", announced),
        ] {
            table.add_row([name.to_owned(), rate.to_string(), ratio(rate, limit)]);
        }
        println!("{table}");
        println!(
            "one order on one core: decode {}, map and validate {}, with 1,000 rules {}",
            microseconds(costs.decode),
            microseconds(costs.map),
            microseconds(costs.map_many)
        );
        println!("medians of {} rounds of {events} orders with three lines, one tenant", self.rounds);
        Ok(ExitCode::SUCCESS)
    }
}

async fn measure(place: &Place, events: usize, rates: &mut Rates) -> anyhow::Result<()> {
    crate::journal::books::apply(&place.postgres.pool, BOOKS, "fis bench").await?;
    rates.limit.push(limit::bare_posting(&place.postgres.pool, events).await?);
    let started = Instant::now();
    publish(&place.config, &place.name, events).await?;
    rates.publish.push(rate(events, started.elapsed()));

    let started = Instant::now();
    let mut service = Service::start_on(&place.config).await?;
    let start_up = started.elapsed();
    let started = Instant::now();
    let posted = async |pool: &PgPool| -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("select seq from fis_chain_head where tenant_id = 'acme-shop'").fetch_one(pool).await
    };
    let relayed = async |pool: &PgPool| -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("select count(*) from (select from fis_outbox limit 1) as any_row").fetch_one(pool).await
    };
    let target = i64::try_from(events)?;
    // The lanes begin while the service reports ready: what was posted by then is not counted as time but as work done.
    let ahead = posted(&place.postgres.pool).await?;
    until("everything is posted", async || Ok(posted(&place.postgres.pool).await? >= target)).await?;
    rates.drain.push(rate(events - usize::try_from(ahead)?, started.elapsed()));
    until("everything is relayed", async || Ok(relayed(&place.postgres.pool).await? == 0)).await?;
    rates.announced.push(rate(events - usize::try_from(ahead)?, started.elapsed()));
    tracing::debug!(start_up_ms = start_up.as_millis(), ahead, "measured");
    service.stop().await
}

async fn until(what: &str, mut done: impl AsyncFnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let waiting = async {
        while !done().await? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE * 10, waiting).await.with_context(|| format!("waited too long until {what}"))?
}

async fn publish(config: &Config, run: &str, events: usize) -> anyhow::Result<()> {
    let connection = Connection::open(&config.amqp, "fis bench").await?;
    let mut publisher = Publisher::open(&connection).await?;
    for start in (0..events).step_by(WINDOW) {
        let window: Vec<OutMessage> = (start..events.min(start + WINDOW)).map(|number| order(run, number)).collect();
        let outcomes = publisher.publish(&window).await?;
        anyhow::ensure!(
            outcomes.iter().all(|outcome| *outcome == PublishOutcome::Confirmed),
            "the broker did not take every event"
        );
    }
    connection.close().await;
    Ok(())
}

/// The run is in the event id: Redis still knows the events of the round before.
fn order(run: &str, number: usize) -> OutMessage {
    let net = 500 + (number * 7919) % 100_000;
    let tax = net * 19 / 100;
    let cents = |amount: usize| format!("{}.{:02}", amount / 100, amount % 100);
    let body = format!(
        r#"{{"eventId":"{run}-{number}","tenantId":"acme-shop","eventType":"ecommerce.order.completed","occurredAt":"2026-02-25T10:00:00Z","correlationId":"ord-{number}","schemaVersion":1,"payload":{{"orderId":"ord-{number}","currency":"EUR","total":"{}","tax":"{}","customer":{{"id":"c-{}","country":"DE","email":"customer@example.com"}},"items":[{{"sku":"A-100","quantity":2,"net":"{}"}},{{"sku":"B-200","quantity":1,"net":"1.00"}}]}}}}"#,
        cents(net + tax),
        cents(tax),
        number % 1000,
        cents(net)
    );
    OutMessage {
        exchange: Lane::Live.exchange().to_owned(),
        routing_key: "ecommerce.order.completed".to_owned(),
        message_id: format!("bench-{number}"),
        properties: Properties::default().with_content_type("application/json"),
        body: body.into_bytes(),
    }
}

fn rate(events: usize, time: Duration) -> u64 {
    let milliseconds = time.as_millis().max(1);
    u64::try_from(events as u128 * 1000 / milliseconds).unwrap_or(u64::MAX)
}

fn median(rates: &mut [u64]) -> u64 {
    rates.sort_unstable();
    rates.get(rates.len() / 2).copied().unwrap_or(0)
}

/// Two decimals, without a float.
fn ratio(rate: u64, limit: u64) -> String {
    let hundredths = rate * 100 / limit.max(1);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

fn microseconds(nanoseconds: u128) -> String {
    format!("{}.{:02} µs", nanoseconds / 1000, nanoseconds % 1000 / 10)
}
