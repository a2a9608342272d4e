//! `fis publish`: the reference for publishers. Persistent, confirmed, mandatory: an event counts as published only when the
//! broker says that it is in a queue.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::intake::Lane;
use crate::platform::amqp::{Connection, OutMessage, Properties, PublishOutcome, Publisher};
use crate::platform::config::Config;

/// Confirms are awaited a window at a time; the gain beyond a thousand is small.
const WINDOW: usize = 1000;

#[derive(clap::Args)]
pub struct Publish {
    /// Newline-delimited JSON: {"routingKey", "body", "lane"?, "headers"?} per line; `-` for standard input
    file: PathBuf,
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line {
    routing_key: String,
    body: Box<RawValue>,
    lane: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, serde_json::Value>,
}

#[derive(Default)]
struct Tally {
    confirmed: u64,
    failed: Vec<(u64, String)>,
}

impl Publish {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let lines: Box<dyn Iterator<Item = std::io::Result<String>>> = if self.file.as_os_str() == "-" {
            Box::new(BufReader::new(std::io::stdin()).lines())
        } else {
            self.check_all()?;
            Box::new(self.open()?.lines())
        };
        let connection = Connection::open(&config.amqp, "fis publish").await?;
        let mut publisher = Publisher::open(&connection).await?;
        let bar = if std::io::stderr().is_terminal() {
            indicatif::ProgressBar::new_spinner()
        } else {
            indicatif::ProgressBar::hidden()
        };
        let mut tally = Tally::default();
        let mut window = Vec::with_capacity(WINDOW);
        let run = fastrand::u64(..);
        for (number, line) in (1u64..).zip(lines) {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let message = message(&line, run, number).with_context(|| {
                format!(
                    "line {number} is wrong; {} lines before it are published and confirmed, those since then are not",
                    tally.confirmed
                )
            })?;
            window.push((number, message));
            if window.len() == WINDOW {
                send(&mut publisher, &mut window, &mut tally).await?;
                bar.set_message(format!("{} confirmed", tally.confirmed));
                bar.tick();
            }
        }
        send(&mut publisher, &mut window, &mut tally).await?;
        bar.finish_and_clear();
        connection.close().await;
        self.tell(&tally)
    }

    fn open(&self) -> anyhow::Result<BufReader<std::fs::File>> {
        let file = std::fs::File::open(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        Ok(BufReader::new(file))
    }

    /// A file is read twice, so that a mistake in its last line publishes nothing.
    fn check_all(&self) -> anyhow::Result<()> {
        for (number, line) in (1u64..).zip(self.open()?.lines()) {
            let line = line?;
            if !line.trim().is_empty() {
                message(&line, 0, number).with_context(|| format!("line {number} is wrong, nothing was published"))?;
            }
        }
        Ok(())
    }

    fn tell(&self, tally: &Tally) -> anyhow::Result<ExitCode> {
        if self.json {
            let failed: Vec<_> =
                tally.failed.iter().map(|(line, why)| serde_json::json!({ "line": line, "reason": why })).collect();
            super::print_json(&serde_json::json!({ "confirmed": tally.confirmed, "failed": failed }))?;
        } else {
            println!("published and confirmed {} events", tally.confirmed);
            for (line, why) in &tally.failed {
                eprintln!("line {line}: {why}");
            }
        }
        Ok(if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn message(line: &str, run: u64, number: u64) -> anyhow::Result<OutMessage> {
    let line: Line = serde_json::from_str(line)?;
    anyhow::ensure!(line.routing_key.len() <= 255, "`routingKey` is longer than 255 bytes");
    let lane = line.lane.as_deref().unwrap_or("live");
    let lane = Lane::parse(lane).with_context(|| format!("`lane` is `{lane}`, not live, urgent or backfill"))?;
    let mut properties = Properties::default().with_content_type("application/json");
    for (name, value) in &line.headers {
        anyhow::ensure!(name.len() <= 255, "a header's name is longer than 255 bytes");
        properties = match value {
            serde_json::Value::String(text) => properties.with_header(name, text),
            serde_json::Value::Number(number) if number.as_i64().is_some() => {
                properties.with_number(name, number.as_i64().unwrap_or(0))
            }
            _ => anyhow::bail!("header `{name}` is neither text nor a whole number"),
        };
    }
    Ok(OutMessage {
        exchange: lane.exchange().to_owned(),
        routing_key: line.routing_key,
        message_id: format!("{run:016x}-{number}"),
        properties,
        body: line.body.get().as_bytes().to_vec(),
    })
}

async fn send(publisher: &mut Publisher, window: &mut Vec<(u64, OutMessage)>, tally: &mut Tally) -> anyhow::Result<()> {
    let (numbers, messages): (Vec<u64>, Vec<OutMessage>) = window.drain(..).unzip();
    let outcomes = publisher.publish(&messages).await.with_context(|| {
        format!("{} events are confirmed; of the {} after them it is unknown: publish them again, duplicates are recognised", tally.confirmed, messages.len())
    })?;
    for (number, outcome) in numbers.into_iter().zip(outcomes) {
        match outcome {
            PublishOutcome::Confirmed => tally.confirmed += 1,
            PublishOutcome::Returned(reason) => {
                tally
                    .failed
                    .push((number, format!("came back: {reason}; no queue is bound, run `fis topology apply`")));
            }
            PublishOutcome::Refused => {
                tally.failed.push((number, "refused: the queue is full; publish it again later".to_owned()));
            }
        }
    }
    Ok(())
}
