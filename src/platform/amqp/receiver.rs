//! Batches: deliveries enter one by one, batches leave, closed by count, bytes or age. A delivery that has failed several
//! times goes alone, so that it can take nobody with it. Nothing is settled here.

use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::{AmqpError, Consumer, Delivery, Prefetch};
use crate::platform::config;

/// The silence after which a consumer is renewed (ADR 42). RabbitMQ 3.10 takes the consumers of a queue that is deleted and declared again
/// at once along to the new one, without a word, and what it gives them never arrives: only a new consumer hears.
const SILENCE: Duration = Duration::from_secs(10);

/// From this delivery count on, a delivery goes alone: it may be what ended the process before.
pub const ALONE_FROM: i64 = 3;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub events_max: usize,
    pub bytes_max: usize,
    pub linger: Duration,
}

impl Limits {
    #[must_use]
    pub fn new(config: &config::Intake) -> Self {
        Self {
            events_max: usize::from(config.batch_events_max),
            bytes_max: config.batch_bytes_max,
            linger: Duration::from_millis(config.batch_ms),
        }
    }
}

pub struct Receiver {
    consumer: Consumer,
    limits: Limits,
    /// For the time being a batch has no more events than this.
    bound: usize,
    /// Taken from the stream but not yet part of a batch.
    pending: Option<Delivery>,
    /// The last batch was large: there is load, and waiting a moment fills the next one.
    under_load: bool,
    prefetch: Option<Prefetch>,
    /// The bound that would be better than the present one.
    better: Option<u16>,
}

impl Receiver {
    #[must_use]
    pub fn new(consumer: Consumer, limits: Limits) -> Self {
        Self { consumer, limits, bound: usize::MAX, pending: None, under_load: false, prefetch: None, better: None }
    }

    /// Lets the prefetch follow the load.
    #[must_use]
    pub fn adapting(mut self, prefetch: Prefetch) -> Self {
        self.prefetch = Some(prefetch);
        self
    }

    /// From now on batches have at most so many events, and never more than the configuration says.
    pub fn bound(&mut self, events_max: usize) {
        self.bound = events_max;
    }

    /// The last batch was large.
    #[must_use]
    pub fn is_under_load(&self) -> bool {
        self.under_load
    }

    /// Another prefetch would be better; whoever drives this may `cancel`, settle everything and `restart`.
    #[must_use]
    pub fn wants_restart(&self) -> bool {
        self.better.is_some()
    }

    /// Consumes again, with the better prefetch where there is one, after `cancel` and when everything is settled. Returns the bound.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn restart(&mut self) -> Result<u16, AmqpError> {
        let better = self.better.take();
        let bound = better.unwrap_or(self.consumer.prefetch());
        self.consumer.restart(bound).await?;
        if let (Some(bound), Some(prefetch)) = (better, &mut self.prefetch) {
            prefetch.set(bound);
        }
        Ok(bound)
    }

    #[must_use]
    pub fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// The next batch; `None` once `stop` is cancelled and nothing was taken. An empty one: nothing has come for a while, and whoever holds
    /// nothing had better `cancel` and `restart`.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn next_batch(&mut self, stop: &CancellationToken) -> Result<Option<Vec<Delivery>>, AmqpError> {
        let first = match self.pending.take() {
            Some(delivery) => delivery,
            // Nothing is held here, so this is the one place where stopping may win.
            None => tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(None),
                delivery = self.consumer.next() => delivery?,
                () = tokio::time::sleep(SILENCE) => return Ok(Some(Vec::new())),
            },
        };
        if first.delivery_count() >= ALONE_FROM {
            return Ok(Some(vec![first]));
        }
        let mut bytes = first.memory();
        let mut batch = vec![first];
        let age = tokio::time::sleep(if self.under_load { self.limits.linger } else { Duration::ZERO });
        tokio::pin!(age);
        let events_max = self.limits.events_max.min(self.bound);
        while batch.len() < events_max && bytes < self.limits.bytes_max {
            // First whatever is there already; only then, and only under load, wait for more.
            let delivery = match self.consumer.next().now_or_never() {
                Some(delivery) => delivery,
                None if self.under_load => tokio::select! {
                    delivery = self.consumer.next() => delivery,
                    () = &mut age => break,
                },
                None => break,
            };
            let delivery = match delivery {
                Ok(delivery) => delivery,
                // After a cancel the stream ends, but what came before is still ours to settle; the end is told next time.
                Err(AmqpError::Cancelled { .. }) => break,
                // A lost session makes the deliveries in hand worthless too: the broker has taken them back.
                Err(error) => return Err(error),
            };
            if delivery.delivery_count() >= ALONE_FROM {
                self.pending = Some(delivery);
                break;
            }
            bytes += delivery.memory();
            batch.push(delivery);
        }
        self.under_load = batch.len() * 2 > events_max;
        let better = self.prefetch.as_mut().and_then(|prefetch| prefetch.learn(batch.len(), bytes));
        // A wish stays until it is granted: whoever heard it has cancelled, and takes what is left before the restart.
        self.better = better.or(self.better);
        Ok(Some(batch))
    }
}
