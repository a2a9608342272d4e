//! Deliveries come in, verdicts go out. A delivery is settled exactly once, by the consumer it came from, in the order it
//! came. Nothing is ever acknowledged on a channel other than its own.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::Fuse;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;

use super::link::Link;
use super::message::{Properties, short};
use super::{AmqpError, Connection, within};

/// A message that the broker waits to hear about.
#[derive(Debug)]
pub struct Delivery {
    tag: u64,
    pub routing_key: String,
    pub properties: Properties,
    pub body: Vec<u8>,
    redelivered: bool,
    /// The first delivery of its consumer: if a delivery ended the last session, it is this one.
    pub is_first: bool,
}

impl Delivery {
    fn from_lapin(delivery: lapin::message::Delivery, is_first: bool) -> Self {
        Self {
            tag: delivery.delivery_tag,
            routing_key: delivery.routing_key.as_str().to_owned(),
            properties: Properties::from_lapin(delivery.properties),
            body: delivery.data,
            redelivered: delivery.redelivered,
            is_first,
        }
    }

    /// About how many bytes it takes in memory.
    pub(super) fn memory(&self) -> usize {
        self.body.len() + self.properties.memory()
    }

    pub(super) fn tag(&self) -> u64 {
        self.tag
    }

    /// A message that did not come off the broker: nobody waits to hear about it.
    #[must_use]
    pub fn imagined(routing_key: String, properties: Properties, body: Vec<u8>) -> Self {
        Self { tag: 0, routing_key, properties, body, redelivered: false, is_first: false }
    }

    /// The number of times the broker has delivered the message before. On a first delivery the header is not the broker's: whoever forwarded
    /// the message has copied it.
    #[must_use]
    pub fn delivery_count(&self) -> i64 {
        if self.redelivered { self.properties.header_number("x-delivery-count").unwrap_or(0) } else { 0 }
    }
}

pub struct Consumer {
    queue: String,
    link: Arc<Link>,
    channel: Arc<lapin::Channel>,
    /// lapin tells the end once and then waits for ever; a batch may have met it before `next` is asked again.
    stream: Fuse<lapin::Consumer>,
    tag: String,
    timeout: std::time::Duration,
    prefetch: u16,
    /// Something was delivered.
    begun: bool,
}

impl Consumer {
    /// Starts consuming with a bound on what is unsettled. The prefetch is also the bound on memory.
    ///
    /// # Errors
    /// The broker is away or has no such queue.
    pub async fn open(connection: &Connection, queue: &str, prefetch: u16) -> Result<Self, AmqpError> {
        Self::open_with(connection, queue, prefetch, FieldTable::default()).await
    }

    pub(super) async fn open_with(
        connection: &Connection,
        queue: &str,
        prefetch: u16,
        arguments: FieldTable,
    ) -> Result<Self, AmqpError> {
        let channel = connection.channel().await?;
        // Per consumer: a quorum queue closes the connection over a global limit.
        connection.within("set the prefetch", channel.basic_qos(prefetch, BasicQosOptions { global: false })).await?;
        let stream = connection.within("consume", consume(&channel, queue, arguments)).await?;
        let tag = stream.tag().as_str().to_owned();
        let (queue, link, timeout) = (queue.to_owned(), connection.link(), connection.timeout());
        Ok(Self { queue, link, channel, stream: stream.fuse(), tag, timeout, prefetch, begun: false })
    }

    /// A reader of its own: a queue that lives as long as the connection, bound to an exchange.
    ///
    /// # Errors
    /// The broker is away or has no such exchange.
    pub async fn attach(connection: &Connection, exchange: &str, key: &str, prefetch: u16) -> Result<Self, AmqpError> {
        let channel = connection.channel().await?;
        let options = QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
        let queue = connection
            .within("declare a queue", channel.queue_declare("".into(), options, FieldTable::default()))
            .await?;
        let name = queue.name().as_str();
        let bind = channel.queue_bind(
            short(name),
            short(exchange),
            short(key),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        connection.within("bind a queue", bind).await?;
        Self::open(connection, name, prefetch).await
    }

    /// The next delivery. Dropping the future loses nothing: the delivery stays in the stream.
    ///
    /// # Errors
    /// The session is lost. The stream's end is one too: the broker cancels consumers whose queue went away.
    pub async fn next(&mut self) -> Result<Delivery, AmqpError> {
        match self.stream.next().await {
            Some(Ok(delivery)) => Ok(Delivery::from_lapin(delivery, !std::mem::replace(&mut self.begun, true))),
            Some(Err(error)) => Err(AmqpError::from_lapin("deliver")(error)),
            None => Err(AmqpError::Cancelled { queue: self.queue.clone() }),
        }
    }

    /// Tells the broker to send no more. What it has sent can still be taken with `next`, until `Cancelled`.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn cancel(&self) -> Result<(), AmqpError> {
        let cancel = self.channel.basic_cancel(short(&self.tag), BasicCancelOptions::default());
        within(self.timeout, "cancel the consumer", cancel).await
    }

    /// Consumes again after `cancel`, with another bound, on a new channel. Only when everything that was delivered is settled: whatever
    /// the old channel still holds goes back to the queue, and is counted as delivered once.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn restart(&mut self, prefetch: u16) -> Result<(), AmqpError> {
        within(self.timeout, "close a channel", self.channel.close(200, "restart".into())).await?;
        self.channel = within(self.timeout, "open a channel", self.link.channel()).await?;
        let qos = self.channel.basic_qos(prefetch, BasicQosOptions { global: false });
        within(self.timeout, "set the prefetch", qos).await?;
        let stream =
            within(self.timeout, "consume", consume(&self.channel, &self.queue, FieldTable::default())).await?;
        self.tag = stream.tag().as_str().to_owned();
        self.stream = stream.fuse();
        self.prefetch = prefetch;
        Ok(())
    }

    /// The bound on what is unsettled.
    #[must_use]
    pub fn prefetch(&self) -> u16 {
        self.prefetch
    }

    /// The settler of the deliveries that this consumer took since it started, or restarted.
    #[must_use]
    pub fn settler(&self) -> Settler {
        Settler {
            channel: Arc::clone(&self.channel),
            timeout: self.timeout,
            prefetch: self.prefetch,
            #[cfg(feature = "mutants")]
            is_mute: false,
        }
    }
}

/// An empty tag lets the broker choose: a tag that is used again can lose deliveries on 3.x.
async fn consume(channel: &lapin::Channel, queue: &str, arguments: FieldTable) -> lapin::Result<lapin::Consumer> {
    channel.basic_consume(short(queue), "".into(), BasicConsumeOptions::default(), arguments).await
}

/// The broker's ear for one consumer's deliveries.
#[derive(Clone)]
pub struct Settler {
    channel: Arc<lapin::Channel>,
    timeout: std::time::Duration,
    prefetch: u16,
    /// A deliberate bug has told the broker everything already.
    #[cfg(feature = "mutants")]
    is_mute: bool,
}

impl Settler {
    /// Acknowledges a batch, and says nothing more: a deliberate bug.
    #[cfg(feature = "mutants")]
    pub async fn told_already(mut self, batch: &[Delivery]) -> Self {
        if self.settle(batch, |_| false).await.is_ok() {
            self.is_mute = true;
        }
        self
    }

    /// Acknowledges everything up to this tag.
    pub(super) async fn acknowledge(&self, tag: u64) -> Result<(), AmqpError> {
        within(self.timeout, "acknowledge", self.channel.basic_ack(tag, BasicAckOptions { multiple: true })).await
    }

    /// Waits until the broker has heard everything said so far: an answer on the same channel comes after it.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn flush(&self) -> Result<(), AmqpError> {
        let question = self.channel.basic_qos(self.prefetch, BasicQosOptions { global: false });
        within(self.timeout, "hear of an end", question).await
    }

    /// Settles a batch: rejects the rejected one by one, then acknowledges the rest with one word. `batch` must be
    /// what `next` gave, in that order, since the last call; then everything up to its last tag is ours to settle.
    ///
    /// # Errors
    /// The session is lost; the broker will deliver again what it did not hear about.
    pub async fn settle(&self, batch: &[Delivery], rejected: impl Fn(usize) -> bool) -> Result<(), AmqpError> {
        #[cfg(feature = "mutants")]
        if self.is_mute {
            return Ok(());
        }
        let mut last_taken = None;
        for (index, delivery) in batch.iter().enumerate() {
            if rejected(index) {
                let reject = self.channel.basic_reject(delivery.tag, BasicRejectOptions { requeue: false });
                within(self.timeout, "reject", reject).await?;
            } else {
                last_taken = Some(delivery.tag);
            }
        }
        // The broker closes the channel over a tag it does not know, so the word goes to a tag that was not rejected.
        if let Some(tag) = last_taken {
            self.acknowledge(tag).await?;
        }
        Ok(())
    }
}
