//! `fis-bench demo`: ten thousand sample events through the whole service, as its three users would see it: a publisher with
//! confirms, a finance reader on the feed, an admin with the figures. Succeeds only if every figure adds up.

mod figures;
mod finance;
mod samples;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fis::domain::names::{EVENTS_EXCHANGE, INGESTION_QUEUE};
use fis::journal::books::apply;
use fis::platform::amqp::topology::{Outcome, Topology};
use fis::platform::amqp::{Connection, OutMessage, Properties, PublishOutcome, Publisher};
use fis::platform::config::Config;
use fis::platform::postgres::Postgres;
use fis::store::schema;
use indicatif::{ProgressBar, ProgressStyle};

use crate::rights;
use crate::service::Service;
use figures::Figures;
use finance::Finance;
use samples::Sample;

const BOOKS: [&str; 2] = [include_str!("../../../../books/shop.toml"), include_str!("../../../../books/payroll.toml")];
const WINDOW: usize = 500;
/// Without any progress for this long, something is wrong and the figures will say what.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub struct Demo {
    /// How many events
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    events: u32,
    /// Leave the service running
    #[arg(long)]
    keep: bool,
}

impl Demo {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = Postgres::new(&config.database)?;
        let restricted = Config { database: rights::restricted(&config.database, &postgres).await?, ..config.clone() };
        prepare(config, &postgres).await?;
        let finance_connection = Connection::open(&config.amqp, "fis-bench demo finance").await?;
        anyhow::ensure!(
            finance_connection.consumer_count(INGESTION_QUEUE).await? == 0,
            "another `fis run` is taking events from these servers; stop it first"
        );
        let mut finance = Finance::attach(&finance_connection).await?;
        let mut service = Service::start(&restricted, "fis-demo.log", self.keep).await?;
        let samples = samples::samples(usize::try_from(self.events)?);
        let before = Figures::read(&postgres, &service).await?;

        let bar = progress_bar(samples.expected.announced());
        let started = Instant::now();
        let published =
            tokio::join!(publish(config, &samples.samples), follow(&mut finance, samples.expected.announced(), &bar));
        let seconds = started.elapsed();
        bar.finish_and_clear();
        let confirmed = published.0?;

        let after = Figures::awaited(&postgres, &service, &before, &samples.expected, PATIENCE).await?;
        let right = figures::show(&postgres, confirmed, &samples.expected, &before, &after, &finance, seconds).await?;
        if !self.keep {
            service.stop().await?;
        }
        finance_connection.close().await;
        figures::farther(config, &service, self.keep)?;
        Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

async fn prepare(config: &Config, postgres: &Postgres) -> anyhow::Result<()> {
    schema::migrate(postgres).await?;
    let connection = Connection::open(&config.amqp, "fis-bench demo").await?;
    for applied in connection.apply_topology(&Topology::embedded()?).await? {
        if let Outcome::Differs { remedy, .. } = applied.outcome {
            anyhow::bail!("{} is not as it should be: {remedy}", applied.object);
        }
    }
    connection.close().await;
    for source in BOOKS {
        let applied = apply(&postgres.pool, source, "fis-bench demo").await?;
        println!("books of {} in version {}", applied.tenant_id, applied.version);
    }
    Ok(())
}

fn progress_bar(length: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} on the feed, {per_sec}, {elapsed}");
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Publishes as `fis publish` does; returns how many the broker confirmed.
async fn publish(config: &Config, samples: &[Sample]) -> anyhow::Result<u64> {
    let connection = Connection::open(&config.amqp, "fis-bench demo publisher").await?;
    let mut publisher = Publisher::open(&connection).await?;
    let mut confirmed = 0;
    for (number, window) in samples.chunks(WINDOW).enumerate() {
        let messages: Vec<OutMessage> = window
            .iter()
            .enumerate()
            .map(|(index, sample)| OutMessage {
                exchange: EVENTS_EXCHANGE.to_owned(),
                routing_key: sample.routing_key.to_owned(),
                hidden_key: None,
                message_id: format!("demo-{number}-{index}"),
                properties: Properties::default().with_content_type("application/json"),
                body: sample.body.clone(),
            })
            .collect();
        let outcomes = publisher.publish(&messages).await?;
        confirmed += outcomes.iter().filter(|outcome| **outcome == PublishOutcome::Confirmed).count() as u64;
    }
    connection.close().await;
    Ok(confirmed)
}

/// Reads the feed until everything expected was announced, or nothing comes any more.
async fn follow(finance: &mut Finance, expected: u64, bar: &ProgressBar) {
    while finance.seen() < expected {
        match tokio::time::timeout(PATIENCE, finance.next()).await {
            Ok(Ok(())) => bar.set_position(finance.seen()),
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
