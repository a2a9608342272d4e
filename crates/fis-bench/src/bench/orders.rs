//! The events of the bench: orders with three lines, each made from its number alone, so that the bare loops can write the
//! same rows that the service writes.

use std::cell::RefCell;
use std::ops::Range;
use std::time::{Duration, Instant};

use fis::domain::names::{EVENTS_EXCHANGE, TENANT_HEADER};
use fis::platform::amqp::{Connection, OutMessage, Properties, PublishOutcome, Publisher};
use futures::future::try_join_all;
use rust_decimal::Decimal;

use super::sandbox::Sandbox;

pub const TENANT: &str = "acme-shop";
/// Publishes under way: the half of them on each of two channels of one connection, so that one has something to send while the
/// other waits for its confirms.
const WINDOW: usize = 1000;
/// The messages that wait for their confirms together.
pub const HALF_WINDOW: usize = WINDOW / 2;
/// The size that an event is filled up to where a long backlog is to be heavy.
const HEAVY_BYTES: usize = 1024;

/// One order. The run is in the event id: Redis still knows the events of the run before.
pub struct Order<'a> {
    pub run: &'a str,
    pub number: usize,
}

impl Order<'_> {
    pub fn event_id(&self) -> String {
        format!("{}-{}", self.run, self.number)
    }

    pub fn correlation_id(&self) -> String {
        format!("ord-{}", self.number)
    }

    pub fn message_id(&self) -> String {
        format!("bench-{}", self.number)
    }

    /// Net and tax, in cents.
    fn cents(&self) -> (usize, usize) {
        let net = 500 + (self.number * 7919) % 100_000;
        (net, net * 19 / 100)
    }

    /// Total, net and tax: what the three lines say.
    pub fn amounts(&self) -> [Decimal; 3] {
        let (net, tax) = self.cents();
        [net + tax, net, tax].map(|cents| Decimal::new(i64::try_from(cents).unwrap_or(i64::MAX), 2))
    }

    pub fn body(&self) -> String {
        let (run, number) = (self.run, self.number);
        let [total, net, tax] = self.amounts();
        format!(
            r#"{{"eventId":"{run}-{number}","tenantId":"{TENANT}","eventType":"ecommerce.order.completed","occurredAt":"2026-02-25T10:00:00Z","correlationId":"ord-{number}","schemaVersion":1,"payload":{{"orderId":"ord-{number}","currency":"EUR","total":"{total}","tax":"{tax}","customer":{{"id":"c-{}","country":"DE","email":"customer@example.com"}},"items":[{{"sku":"A-100","quantity":2,"net":"{net}"}},{{"sku":"B-200","quantity":1,"net":"1.00"}}]}}}}"#,
            number % 1000
        )
    }

    pub fn message(&self) -> OutMessage {
        OutMessage {
            exchange: EVENTS_EXCHANGE.to_owned(),
            routing_key: "ecommerce.order.completed".to_owned(),
            hidden_key: None,
            message_id: self.message_id(),
            properties: Properties::default().with_content_type("application/json"),
            body: self.body().into_bytes(),
        }
    }

    /// The order as a message of a kilobyte: a note in the payload fills it up.
    fn heavy(&self) -> OutMessage {
        let mut message = self.message();
        let note = HEAVY_BYTES.saturating_sub(message.body.len() + 10);
        // The body ends with the payload's brace and its own.
        message.body.truncate(message.body.len() - 2);
        message.body.extend_from_slice(format!(r#","note":"{}"}}}}"#, "x".repeat(note)).as_bytes());
        message
    }
}

/// Publishes the orders, confirmed; says how long it took.
pub async fn publish(sandbox: &Sandbox, numbers: Range<usize>) -> anyhow::Result<Duration> {
    publish_as(sandbox, numbers, |order| order.message()).await
}

pub async fn publish_heavy(sandbox: &Sandbox, numbers: Range<usize>) -> anyhow::Result<Duration> {
    publish_as(sandbox, numbers, |order| order.heavy()).await
}

/// Publishes orders whose header says whose they are.
pub async fn publish_with_tenant(sandbox: &Sandbox, numbers: Range<usize>) -> anyhow::Result<Duration> {
    publish_as(sandbox, numbers, |order| {
        let message = order.message();
        OutMessage { properties: message.properties.clone().with_header(TENANT_HEADER, TENANT), ..message }
    })
    .await
}

/// Publishes orders in a currency for which the books have no rate.
pub async fn publish_without_rate(sandbox: &Sandbox, numbers: Range<usize>) -> anyhow::Result<Duration> {
    publish_as(sandbox, numbers, |order| OutMessage {
        body: order.body().replace(r#""currency":"EUR""#, r#""currency":"SEK""#).into_bytes(),
        ..order.message()
    })
    .await
}

async fn publish_as(
    sandbox: &Sandbox,
    numbers: Range<usize>,
    message: impl Fn(Order<'_>) -> OutMessage,
) -> anyhow::Result<Duration> {
    let windows = numbers.clone().step_by(HALF_WINDOW).map(|start| {
        let window = start..numbers.end.min(start + HALF_WINDOW);
        window.map(|number| message(Order { run: &sandbox.name, number })).collect::<Vec<_>>()
    });
    publish_all(sandbox, windows).await
}

/// Publishes the windows on one channel, in order: while one half of the window is confirmed, the other is on its way.
pub async fn publish_in_order<W: AsRef<[OutMessage]>>(
    sandbox: &Sandbox,
    windows: impl Iterator<Item = W>,
) -> anyhow::Result<Duration> {
    let connection = Connection::open_to_publish(&sandbox.config.amqp, "fis-bench").await?;
    let mut publisher = Publisher::open(&connection).await?;
    let started = Instant::now();
    for (number, window) in windows.enumerate() {
        if number >= 2 {
            all_taken(&publisher.confirmed().await?)?;
        }
        publisher.send(window.as_ref().to_vec());
    }
    while publisher.waiting_since().is_some() {
        all_taken(&publisher.confirmed().await?)?;
    }
    let time = started.elapsed();
    // Beside whoever measures more than this: a goodbye is in nobody's clock.
    tokio::spawn(connection.close());
    Ok(time)
}

/// Publishes the windows on two channels that take turns.
pub async fn publish_all<W: AsRef<[OutMessage]>>(
    sandbox: &Sandbox,
    windows: impl Iterator<Item = W>,
) -> anyhow::Result<Duration> {
    let connection = Connection::open_to_publish(&sandbox.config.amqp, "fis-bench").await?;
    let channels = [Publisher::open(&connection).await?, Publisher::open(&connection).await?];
    let windows = RefCell::new(windows);
    let take_turns = async |mut publisher: Publisher| {
        loop {
            let next = windows.borrow_mut().next();
            let Some(window) = next else { return anyhow::Ok(()) };
            publish_window(&mut publisher, window.as_ref()).await?;
        }
    };
    let started = Instant::now();
    try_join_all(channels.map(take_turns)).await?;
    let time = started.elapsed();
    // Beside whoever measures more than this: a goodbye is in nobody's clock.
    tokio::spawn(connection.close());
    Ok(time)
}

/// Publishes and waits for the confirms.
pub async fn publish_window(publisher: &mut Publisher, window: &[OutMessage]) -> anyhow::Result<()> {
    all_taken(&publisher.publish(window).await?)
}

fn all_taken(outcomes: &[PublishOutcome]) -> anyhow::Result<()> {
    let taken = outcomes.iter().all(|outcome| *outcome == PublishOutcome::Confirmed);
    anyhow::ensure!(taken, "the broker did not take every event");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_json_and_a_heavy_one_a_kilobyte() {
        for number in [0, 1, 99_999, 4_999_999] {
            let order = Order { run: "fis_bench_00000000", number };
            for body in [order.message().body, order.heavy().body] {
                let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(json["eventId"], order.event_id());
                let [total, net, tax] = order.amounts();
                assert_eq!(total, net + tax);
                assert_eq!(json["payload"]["total"], total.to_string());
            }
            assert_eq!(order.heavy().body.len(), HEAVY_BYTES);
        }
    }
}
