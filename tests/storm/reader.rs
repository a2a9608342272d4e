//! The finance team's reader: a queue of its own behind the feed, read with acknowledgements, through any trouble.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};

use crate::servers::Servers;

pub const QUEUE: &str = "storm.finance";
pub const FEED: &str = "fis.domain.exchange";

#[derive(Debug, Clone)]
pub struct Told {
    pub at: Duration,
    pub routing_key: String,
    pub message_id: String,
    pub redelivered: bool,
    pub body: Vec<u8>,
}

pub struct Reader {
    servers: Servers,
    vhost: String,
    begun: Instant,
    pub told: Mutex<Vec<Told>>,
}

impl Reader {
    pub fn new(servers: &Servers, vhost: &str) -> Arc<Self> {
        Arc::new(Self {
            servers: servers.clone(),
            vhost: vhost.to_owned(),
            begun: Instant::now(),
            told: Mutex::default(),
        })
    }

    /// Declares the queue and its binding; harmless to repeat.
    pub async fn bind(&self) -> Result<()> {
        let connection = self.servers.amqp(&self.vhost).await?;
        let channel = connection.create_channel().await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(QUEUE.into(), durable, arguments).await?;
        let everything = "fis.#".into();
        channel
            .queue_bind(QUEUE.into(), FEED.into(), everything, QueueBindOptions::default(), FieldTable::default())
            .await?;
        let _ = connection.close(200, "bound".into()).await;
        Ok(())
    }

    pub async fn run(self: Arc<Self>) {
        loop {
            let _ = self.session().await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    async fn session(&self) -> Result<()> {
        let connection = self.servers.amqp(&self.vhost).await?;
        let channel = connection.create_channel().await?;
        channel.basic_qos(200, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        let mut consumer =
            channel.basic_consume(QUEUE.into(), "finance".into(), options, FieldTable::default()).await?;
        while let Some(delivery) = consumer.next().await {
            let delivery = delivery?;
            let message_id = delivery.properties.message_id().as_ref().map_or("", |id| id.as_str()).to_owned();
            self.told.lock().unwrap().push(Told {
                at: self.begun.elapsed(),
                routing_key: delivery.routing_key.as_str().to_owned(),
                message_id,
                redelivered: delivery.redelivered,
                body: delivery.data.clone(),
            });
            delivery.ack(BasicAckOptions::default()).await?;
        }
        Ok(())
    }
}
