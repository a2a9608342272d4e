//! `fis feed verify`.

use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;
use tokio::time::timeout;

use super::super::{printable, tenant};
use super::against::Ledger;
use super::walk::Walk;
use super::{STREAM, message, offset};
use crate::domain::feed::{FaultAt, Proof};
use crate::domain::ids::TenantId;
use crate::platform::amqp::{Connection, Consumer, Delivery, Offset};
use crate::platform::config::Config;

/// A queue is read without taking anything from it, so all of it is on its way to us at once.
const QUEUE_MESSAGES_MAX: u16 = 65_000;
/// Where a message has been given back so often, reading its queue once more could lose it: a quorum queue of RabbitMQ 4
/// drops a message after twenty times.
const GIVEN_BACK_MAX: i64 = 10;
/// How often the terminal hears something.
const PROGRESS_EVERY: u64 = 1000;

#[derive(clap::Args)]
pub struct FeedVerify {
    /// Read this queue instead of the stream. Nothing is taken from it, but every message is delivered and given back, which
    /// a quorum queue counts; let it have no other consumer meanwhile
    #[arg(long, value_name = "QUEUE", conflicts_with = "from")]
    queue: Option<String>,
    /// Where in the stream to begin: first, last, an offset, or a time such as 2026-02-25T10:00:00Z
    #[arg(long, default_value = "first", value_parser = offset)]
    from: Offset,
    /// Only this tenant
    #[arg(long, value_parser = tenant)]
    tenant: Option<TenantId>,
    /// Also compare with the ledger: the feed must reach everything that was announced
    #[arg(long)]
    against_ledger: bool,
    #[arg(long)]
    json: bool,
}

/// What was read.
struct Reading {
    proof: Proof,
    messages: u64,
    /// The first fault, with the offset or the place of its message.
    fault: Option<(u64, FaultAt)>,
}

impl FeedVerify {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        // Before the feed: what is posted while we read is nobody's debt.
        let ledger = if self.against_ledger { Some(Ledger::read(config).await?) } else { None };
        let connection = Connection::open(&config.amqp, "fis feed verify").await?;
        let proof = Proof::of(self.tenant.clone());
        let reading = Reading { proof, messages: 0, fault: None };
        let reading = match &self.queue {
            Some(queue) => reading.read_queue(&connection, queue).await?,
            None => reading.read_stream(&connection, self.from).await?,
        };
        connection.close().await;
        let short = match &ledger {
            Some(ledger) if reading.fault.is_none() => ledger.compare(&reading.proof).await?,
            _ => Vec::new(),
        };
        self.tell(&reading, &short)?;
        Ok(if reading.fault.is_none() && short.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn tell(&self, reading: &Reading, short: &[String]) -> anyhow::Result<()> {
        let source = self.queue.as_deref().unwrap_or(STREAM);
        let place = if self.queue.is_some() { "message" } else { "offset" };
        if self.json {
            let tenants: Vec<_> = reading
                .proof
                .tenants()
                .map(|(tenant, proof)| {
                    json!({ "tenantId": tenant.as_str(), "first": proof.first, "last": proof.last, "hash": proof.hash,
                            "repeats": proof.repeats, "earlier": proof.earlier })
                })
                .collect();
            let fault = reading.fault.as_ref().map(|(at, fault)| {
                json!({ place: at, "tenantId": fault.tenant_id, "sequence": fault.sequence, "fault": fault.fault.to_string() })
            });
            return super::super::print_json(&json!({
                "source": source, "messages": reading.messages, "others": reading.proof.others, "tenants": tenants,
                "fault": fault, "ledger": short,
            }));
        }
        let mut table = super::super::table(&["tenant", "proven from", "to", "repeated", "from before", "last hash"]);
        for (tenant, proof) in reading.proof.tenants() {
            table.add_row([
                tenant.to_string(),
                proof.first.to_string(),
                proof.last.to_string(),
                proof.repeats.to_string(),
                proof.earlier.to_string(),
                proof.hash.chars().take(16).collect(),
            ]);
        }
        println!("{table}");
        if let Some((at, fault)) = &reading.fault {
            let tenant = fault.tenant_id.as_deref().map_or("?".to_owned(), printable);
            let sequence = fault.sequence.map_or("?".to_owned(), |sequence| sequence.to_string());
            println!(
                "{place} {at}, tenant {tenant}, sequence {sequence}: the message {}",
                printable_all(&fault.fault.to_string())
            );
        }
        for missing in short {
            println!("{}", printable(missing));
        }
        if reading.fault.is_none() {
            println!("read {} messages of {}: no gap, in order, every hash right", reading.messages, printable(source));
        }
        Ok(())
    }
}

/// A fault is shown whole, however long: two hashes do not fit into what a list shows.
fn printable_all(text: &str) -> String {
    text.split(' ').map(printable).collect::<Vec<_>>().join(" ")
}

impl Reading {
    async fn read_stream(mut self, connection: &Connection, from: Offset) -> anyhow::Result<Self> {
        let Some(mut walk) = Walk::to_the_end(connection, from).await? else { return Ok(self) };
        let bar = indicatif::ProgressBar::new(walk.end.unwrap_or(0));
        while let Some((offset, delivery)) = walk.next().await? {
            if self.messages == 0 {
                // A stream begins with the beginning of the ledger, unless its beginning was dropped.
                self.proof.from_the_beginning = offset == 0;
            }
            bar.set_position(offset);
            if !self.take(offset, &delivery) {
                break;
            }
        }
        bar.finish_and_clear();
        Ok(self)
    }

    async fn read_queue(mut self, connection: &Connection, queue: &str) -> anyhow::Result<Self> {
        let (ready, consumers) = (connection.ready_count(queue).await?, connection.consumer_count(queue).await?);
        anyhow::ensure!(
            consumers == 0,
            "{queue} has {consumers} consumers, which would take their share: stop them, or read the stream"
        );
        anyhow::ensure!(
            ready <= u32::from(QUEUE_MESSAGES_MAX),
            "{queue} has {ready} messages, and at most {QUEUE_MESSAGES_MAX} can be read without taking them: read the stream"
        );
        if ready == 0 {
            return Ok(self);
        }
        let mut consumer = Consumer::open(connection, queue, QUEUE_MESSAGES_MAX).await?;
        let bar = indicatif::ProgressBar::new(u64::from(ready));
        for place in 1..=u64::from(ready) {
            let delivery = timeout(connection.timeout(), consumer.next()).await.with_context(|| {
                format!("the broker is silent before message {place} of {ready}; {queue} may have another consumer now")
            })??;
            let count = delivery.delivery_count();
            anyhow::ensure!(
                count < GIVEN_BACK_MAX,
                "message {place} of {queue} was given back {count} times; reading it again and again may lose it"
            );
            if place % PROGRESS_EVERY == 0 {
                bar.set_position(place);
            }
            if !self.take(place, &delivery) {
                break;
            }
        }
        bar.finish_and_clear();
        // Nothing was acknowledged: with the connection's end every message goes back to its place.
        Ok(self)
    }

    /// False: a fault was found.
    fn take(&mut self, place: u64, delivery: &Delivery) -> bool {
        self.messages += 1;
        match self.proof.take(&message(delivery)) {
            Ok(_) => true,
            Err(fault) => {
                self.fault = Some((place, fault));
                false
            }
        }
    }
}
