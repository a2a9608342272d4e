//! A finance consumer in Rust: reads every journal entry, misses none, books none twice. It uses nothing of fis itself.
//!
//!     FIS_AMQP_URL=amqp://user:password@127.0.0.1:5672/%2Ffis cargo run --example finance_reader QUEUE [COUNT]
//!
//! Declares QUEUE, binds it to the feed, and handles entries until it is stopped, or until COUNT messages have come.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;

use futures::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties};
use serde_json::Value;

/// How far one tenant has been read. Keep it in your own database, written in the transaction that books the entry: then a
/// crash between booking and acknowledging repeats a message, and `sequence` tells that it is a repetition.
#[derive(Default)]
struct Tenant {
    last: i64,
    missing: BTreeSet<i64>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let queue = std::env::args().nth(1).ok_or("usage: finance_reader QUEUE [COUNT]")?;
    let count: usize = std::env::args().nth(2).map_or(Ok(usize::MAX), |text| text.parse())?;
    let connection = Connection::connect(&std::env::var("FIS_AMQP_URL")?, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let mut quorum = FieldTable::default();
    quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let (name, none) = (queue.as_str(), FieldTable::default);
    channel.queue_declare(name.into(), durable, quorum).await?;
    let (exchange, key) = ("fis.domain.exchange".into(), "fis.journal.*".into());
    channel.queue_bind(name.into(), exchange, key, QueueBindOptions::default(), none()).await?;
    channel.basic_qos(100, BasicQosOptions::default()).await?;

    let mut tenants: HashMap<String, Tenant> = HashMap::new();
    let (mut handled, mut duplicates, mut gaps) = (0, 0, 0);
    if count > 0 {
        let consumer = channel.basic_consume(name.into(), "".into(), BasicConsumeOptions::default(), none()).await?;
        let mut deliveries = consumer.take(count);
        while let Some(delivery) = deliveries.next().await {
            let delivery = delivery?;
            let event: Value = serde_json::from_slice(&delivery.data)?;
            let data = event.get("data").ok_or("no data")?;
            let tenant = data["tenantId"].as_str().ok_or("no tenantId")?;
            let sequence = data["sequence"].as_i64().ok_or("no sequence")?;
            let state = tenants.entry(tenant.to_owned()).or_default();
            let first = state.last + 1;
            if sequence < first && !state.missing.remove(&sequence) {
                duplicates += 1;
                println!("duplicate {tenant} {sequence}");
            } else {
                if sequence > first {
                    state.missing.extend(first..sequence);
                    gaps += 1;
                    let to = sequence - 1;
                    let again = format!("fis feed resend --tenant {tenant} --from {first} --to {to} --queue {queue}");
                    println!("gap {tenant} {first}..{to}: {again}");
                }
                // Book it here. Amounts are strings: parse them as decimals, never as floats.
                println!("entry {tenant} {sequence} {} {}", data["accountingDate"], data["eventId"]);
                state.last = state.last.max(sequence);
                handled += 1;
            }
            delivery.ack(BasicAckOptions::default()).await?; // after the work, never before
        }
    }
    connection.close(200, "done".into()).await?;
    let missing: usize = tenants.values().map(|state| state.missing.len()).sum();
    println!("summary handled={handled} duplicates={duplicates} gaps={gaps} missing={missing}");
    Ok(())
}
