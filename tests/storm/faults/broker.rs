//! What the broker does to its clients, short of dying.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use lapin::options::{ExchangeDeleteOptions, QueueDeleteOptions};
use lapin::types::FieldTable;

use super::{Wound, postgres};
use crate::reader::{FEED, QUEUE};
use crate::world::World;

const LIVE: &str = "fis.ingestion.queue";
const STREAM: &str = "fis.journal.stream";
/// What `./dev` gives its broker.
const WATERMARK: &str = "2GB";
const DISK_LIMIT: &str = "200MB";
/// RabbitMQ's own, in milliseconds.
const CONSUMER_TIMEOUT: u64 = 1_800_000;
const CHANNEL_TICK: u64 = 60_000;

pub async fn apply(world: &World, name: &str, wound: &mut Wound) -> Result<()> {
    let servers = &world.servers;
    match name {
        "rabbitmq_memory_alarm" => {
            servers.rabbitmqctl(&["set_vm_memory_high_watermark", "absolute", "1"]).await?;
        }
        "rabbitmq_disk_alarm" => drop(servers.rabbitmqctl(&["set_disk_free_limit", "100000GB"]).await?),
        "rabbitmq_close" => drop(servers.rabbitmqctl(&["close_all_connections", "--global", "storm"]).await?),
        "rabbitmq_queue_deleted" => {
            world.publisher.hush().await;
            empty(world).await?;
            let connection = servers.amqp(&world.vhost).await?;
            let channel = connection.create_channel().await?;
            channel.queue_delete(LIVE.into(), QueueDeleteOptions::default()).await?;
        }
        "rabbitmq_feed_deleted" => {
            let connection = servers.amqp(&world.vhost).await?;
            let channel = connection.create_channel().await?;
            channel.exchange_delete(FEED.into(), ExchangeDeleteOptions::default()).await?;
        }
        "rabbitmq_feed_unbound" => {
            let connection = servers.amqp(&world.vhost).await?;
            let channel = connection.create_channel().await?;
            // Our own reader last: what reaches anybody counts as told, and must reach us.
            for queue in [STREAM, QUEUE] {
                channel.queue_unbind(queue.into(), FEED.into(), "fis.#".into(), FieldTable::default()).await?;
            }
        }
        "rabbitmq_consumer_timeout" => {
            timeouts(world, 3_000, 1_000).await?;
            // New channels look at their clocks more often.
            servers.rabbitmqctl(&["close_all_connections", "--global", "storm"]).await?;
            // Where another fault has PostgreSQL down, acknowledgements wait for that.
            wound.sessions.extend(postgres::lock(world).await.ok());
        }
        other => bail!("nobody knows how to do {other}"),
    }
    Ok(())
}

pub async fn heal(world: &World, name: &str, wound: &mut Wound) -> Result<()> {
    let servers = &world.servers;
    match name {
        "rabbitmq_memory_alarm" => {
            servers.rabbitmqctl(&["set_vm_memory_high_watermark", "absolute", WATERMARK]).await?;
        }
        "rabbitmq_disk_alarm" => drop(servers.rabbitmqctl(&["set_disk_free_limit", DISK_LIMIT]).await?),
        "rabbitmq_close" => {}
        "rabbitmq_queue_deleted" => {
            world.instances.fis(&["topology", "apply"]).await?;
            world.publisher.hushed.store(false, std::sync::atomic::Ordering::SeqCst);
        }
        "rabbitmq_feed_deleted" | "rabbitmq_feed_unbound" => {
            // The reader first: what the stream alone receives would be missing in our record.
            if name == "rabbitmq_feed_deleted" {
                let body = r#"{"type": "topic", "durable": true}"#;
                servers.management("PUT", &format!("exchanges/{}/{FEED}", world.vhost), body).await?;
            }
            world.reader.bind().await?;
            world.instances.fis(&["topology", "apply"]).await?;
        }
        "rabbitmq_consumer_timeout" => {
            wound.sessions.clear();
            timeouts(world, CONSUMER_TIMEOUT, CHANNEL_TICK).await?;
        }
        other => bail!("nobody knows how to undo {other}"),
    }
    Ok(())
}

async fn timeouts(world: &World, consumer: u64, tick: u64) -> Result<()> {
    let text = format!(
        "application:set_env(rabbit, consumer_timeout, {consumer}), application:set_env(rabbit, channel_tick_interval, {tick})."
    );
    world.servers.rabbitmqctl(&["eval", &text]).await.map(drop)
}

/// Waits until the live lane is empty and nothing of it is in anybody's hands: the journal stands still.
async fn empty(world: &World) -> Result<()> {
    // A machine that is busy elsewhere takes its time.
    let deadline = Instant::now() + Duration::from_secs(180);
    let (mut still, mut before) = (0, 0);
    while still < 5 {
        ensure!(Instant::now() < deadline, "the live lane does not become empty");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = world.posted().await?;
        let [(_, ready)] = world.ready([LIVE]).await?;
        still = if ready == 0 && now == before { still + 1 } else { 0 };
        before = now;
    }
    Ok(())
}
