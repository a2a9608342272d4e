//! The relay alone: a backlog of rows in the outbox, made by the bare posting loop, leaves while nothing comes in. Beside it a
//! bare publisher of the same messages to the same exchange and queues: on one channel, which alone keeps their order, and on two,
//! which RabbitMQ takes faster, because it lets a channel have only so much under way in a quorum queue.

use std::time::Instant;

use fis::domain::names::DOMAIN_EXCHANGE;
use fis::platform::amqp::OutMessage;
use fis::store::outbox;
use serde_json::json;

use super::bare_limits;
use super::bare_posting::{BATCH, Chain};
use super::drain::{all_relayed, start, stop};
use super::orders::{self, HALF_WINDOW};
use super::rate;
use super::results::Results;
use super::sandbox::Sandbox;

/// Where a finance team would read.
const FINANCE: &str = "bench.finance.queue";
/// Messages kept for the bare publisher, which sends them again and again: some twenty megabytes, in whole windows.
const KEPT_MAX: usize = 20_000;

pub async fn measure(sandbox: &Sandbox, rows: usize, results: &mut Results) -> anyhow::Result<()> {
    let quorum = json!({ "durable": true, "arguments": { "x-queue-type": "quorum" } });
    sandbox.management.put_json(&sandbox.path("queues", FINANCE), &quorum).await?;
    let binding = sandbox.path("bindings", &format!("e/{DOMAIN_EXCHANGE}/q/{FINANCE}"));
    sandbox.management.post_json(&binding, &json!({ "routing_key": "fis.#" })).await?;
    let pool = &sandbox.postgres.pool;
    Chain::read(pool, &sandbox.name).await?.post_all(pool, rows, BATCH).await?;

    let mut services = start(sandbox, 1).await?;
    let started = Instant::now();
    let left = outbox::backlog(&mut *pool.acquire().await?).await?.pending;
    all_relayed(pool, &services, rows).await?;
    let time = started.elapsed();
    stop(sandbox, &mut services).await?;
    results.add("relay", rate(usize::try_from(left)?, time));

    let (mut last, mut kept) = (0, Vec::with_capacity(KEPT_MAX.min(rows)));
    bare_limits::consume(sandbox, FINANCE, rows, |delivery| {
        let sequence = delivery.properties.header_number("x-fis-sequence").unwrap_or(0);
        anyhow::ensure!(sequence == last + 1, "{sequence} came after {last} on the feed");
        last = sequence;
        if kept.len() < KEPT_MAX {
            kept.push(OutMessage {
                exchange: DOMAIN_EXCHANGE.to_owned(),
                routing_key: delivery.routing_key.clone(),
                hidden_key: None,
                message_id: delivery.properties.message_id().unwrap_or_default().to_owned(),
                properties: delivery.properties.carried(),
                body: delivery.body.clone(),
            });
        }
        Ok(())
    })
    .await?;
    let windows = kept.chunks(HALF_WINDOW).cycle().take(rows / HALF_WINDOW);
    let published = rows / HALF_WINDOW * HALF_WINDOW;
    results.add("relay_limit", rate(published, orders::publish_in_order(sandbox, windows.clone()).await?));
    bare_limits::consume(sandbox, FINANCE, published, |_| Ok(())).await?;
    results.add("relay_limit_unordered", rate(published, orders::publish_all(sandbox, windows).await?));
    Ok(())
}
