//! THE STORY: receive → claim → map → post → mark → settle. Read this first.
//!
//! | # | phase | here | a crash right after it |
//! |---|---|---|---|
//! | 1 | receive | `Receiver::next_batch`, then `read` decodes | redelivered |
//! | 2 | claim | `claim::claim` in Redis | redelivered; the key says PROCESSING, which proves nothing |
//! | 3 | map | `items`: the tenant's books turn events into balanced entries or reasons | redelivered |
//! | 4 | post | `journal::post`: one transaction | redelivered; the ledger knows it: duplicate |
//! | 5 | mark | `claim::mark` in Redis | redelivered: duplicate |
//! | 6 | settle | `Consumer::settle`: reject the rejected, acknowledge the rest | – |
//!
//! Redis hurries, PostgreSQL decides, the broker is told last. Here, and only here, a disposition (ledger word) becomes a
//! settlement (AMQP word).

mod origin;
mod posting;
mod verdicts;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::domain::books::{Books, Mapped};
use crate::domain::disposition::{Disposition, Failure, Reason};
use crate::domain::event::{Identity, InboundEvent, PROPERTIES_BYTES_MAX, RawMessage, Undecodable, decode};
use crate::domain::ids::TenantId;
use crate::domain::retry::RetryPolicy;
use crate::intake::Lane;
use crate::intake::claim::{self, Key};
use crate::journal::books::BooksShelf;
use crate::journal::{Item, Step, Verdict};
use crate::platform::amqp::{AmqpError, Delivery, Receiver};
use crate::platform::faults::{self, crash_point};
use crate::platform::health::Health;
use crate::platform::metrics;
use crate::platform::postgres::Postgres;
use crate::platform::redis::Redis;
use crate::platform::time;
use origin::Origin;
use verdicts::{count, mark};

/// At this delivery count an event is rejected before any work: it has ended the process, or its session, too often.
const DELIVERIES_MAX: i64 = 20;

pub struct Pipeline {
    pub postgres: Postgres,
    pub redis: Redis,
    pub books: BooksShelf,
    pub policy: RetryPolicy,
    pub default_tenant: Option<TenantId>,
    /// How long deliveries are held while PostgreSQL is away before the session is given up once.
    pub hold: Duration,
    /// Rung after a commit, for the relay.
    pub wake: Arc<Notify>,
    pub health: Health,
    /// Deliveries taken and not yet settled.
    pub in_hand: AtomicUsize,
    /// How often this process gave deliveries back because PostgreSQL was away: the broker counted that, we do not.
    pub forgiven: AtomicI64,
}

#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    #[error(transparent)]
    Amqp(#[from] AmqpError),
    #[error("PostgreSQL has been away for too long to hold deliveries: {0}")]
    HeldTooLong(String),
    #[error("told to stop while PostgreSQL is away")]
    Stopped,
}

/// One delivery and what its bytes say.
struct Event<'a> {
    origin: Origin<'a>,
    read: Result<InboundEvent<'a>, Box<Undecodable>>,
}

impl Pipeline {
    /// Follows one lane until `stop`, then finishes what the broker has sent already.
    ///
    /// # Errors
    /// The session is lost. What was not settled comes again.
    pub async fn follow(
        &self,
        lane: Lane,
        receiver: &mut Receiver,
        stop: &CancellationToken,
    ) -> Result<(), PipelineError> {
        while let Some(batch) = receiver.next_batch(stop).await? {
            self.take(lane, receiver, &batch, stop).await?;
        }
        receiver.consumer().cancel().await?;
        let never = CancellationToken::new();
        loop {
            match receiver.next_batch(&never).await {
                Ok(Some(batch)) => self.take(lane, receiver, &batch, stop).await?,
                Ok(None) | Err(AmqpError::Cancelled { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn take(
        &self,
        lane: Lane,
        receiver: &Receiver,
        batch: &[Delivery],
        stop: &CancellationToken,
    ) -> Result<(), PipelineError> {
        metrics::batch(batch.len());
        self.in_hand.fetch_add(batch.len(), Ordering::SeqCst);
        let settled = self.process_and_settle(lane, receiver, batch, stop).await;
        self.in_hand.fetch_sub(batch.len(), Ordering::SeqCst);
        settled
    }

    async fn process_and_settle(
        &self,
        lane: Lane,
        receiver: &Receiver,
        batch: &[Delivery],
        stop: &CancellationToken,
    ) -> Result<(), PipelineError> {
        let verdicts = self.process(lane, batch, stop).await?;
        receiver
            .consumer()
            .settle(batch, |index| matches!(verdicts.get(index), Some(Verdict::Rejected { .. })))
            .await?;
        crash_point(faults::AFTER_SETTLE);
        count(lane, &verdicts);
        Ok(())
    }

    /// Brings a batch to its end: a verdict for every delivery, in order, committed. One event is the batch of one.
    ///
    /// # Errors
    /// Nothing of this batch may be settled.
    pub async fn process(
        &self,
        lane: Lane,
        batch: &[Delivery],
        stop: &CancellationToken,
    ) -> Result<Vec<Verdict>, PipelineError> {
        let events: Vec<Event<'_>> = batch.iter().map(|delivery| self.read(lane, delivery)).collect();

        let (places, keys): (Vec<usize>, Vec<Key<'_>>) =
            events.iter().enumerate().filter_map(|(i, e)| Some((i, e.key()?))).unzip();
        let now = time::now();
        let known = claim::claim(&self.redis, &self.postgres.epoch(), &keys, now).await;
        crash_point(faults::AFTER_CLAIM);

        let mut verdicts: Vec<Option<Verdict>> = vec![None; events.len()];
        for (place, _) in places.iter().zip(&known).filter(|(_, known)| **known) {
            if let Some(verdict) = verdicts.get_mut(*place) {
                *verdict = Some(Verdict::Duplicate(None));
            }
        }
        let rest: Vec<usize> = (0..events.len()).filter(|index| matches!(verdicts.get(*index), Some(None))).collect();
        if !rest.is_empty() {
            let rest_events: Vec<&Event<'_>> = rest.iter().filter_map(|index| events.get(*index)).collect();
            let posted = self.post(&rest_events, stop).await?;
            self.wake.notify_one();
            self.mark(&rest_events, &posted).await;
            crash_point(faults::AFTER_MARK);
            for (index, verdict) in rest.into_iter().zip(posted) {
                if let Some(place) = verdicts.get_mut(index) {
                    *place = Some(verdict);
                }
            }
        }
        Ok(verdicts
            .into_iter()
            .map(|verdict| verdict.unwrap_or_else(|| unreachable!("every event was posted or known")))
            .collect())
    }

    /// Phase 1: what the bytes say.
    fn read<'a>(&self, lane: Lane, delivery: &'a Delivery) -> Event<'a> {
        // Only the first delivery of a session can be what ended the last one: those behind it were never begun, they
        // were only charged for the company.
        let limit = DELIVERIES_MAX + self.forgiven.load(Ordering::SeqCst);
        if delivery.is_first && delivery.delivery_count() >= limit {
            let detail = format!("delivered {} times without an end", delivery.delivery_count());
            let read = Err(unread(Failure::new(Reason::DeliveryLimit, detail)));
            return Event { origin: Origin::new(delivery, lane), read };
        }
        let properties_bytes = delivery.properties.size();
        if properties_bytes > PROPERTIES_BYTES_MAX {
            let detail =
                format!("its properties have {properties_bytes} bytes, at most {PROPERTIES_BYTES_MAX} are taken");
            let read = Err(unread(Failure::new(Reason::TooLarge, detail)));
            return Event { origin: Origin::new(delivery, lane), read };
        }
        let header = |name: &str| delivery.properties.header(name);
        let message = RawMessage {
            body: &delivery.body,
            routing_key: &delivery.routing_key,
            content_type: delivery.properties.content_type(),
            header: &header,
        };
        let read = decode(message, self.default_tenant.as_ref());
        Event { origin: Origin::new(delivery, lane).identified(&read), read }
    }

    /// Phase 3: what the books make of it.
    fn item<'e>(&self, event: &'e Event<'_>, books: &HashMap<TenantId, Arc<Books>>) -> Item<'e> {
        let inbound = match &event.read {
            Ok(inbound) => inbound,
            Err(undecodable) => {
                return Item { facts: None, step: Step::Fail(undecodable.failure.clone()), source: &event.origin };
            }
        };
        let books = books.get(&inbound.tenant_id);
        let step = match books {
            None => {
                let detail = format!("tenant `{}` has no books", inbound.tenant_id);
                Step::Fail(Failure::new(Reason::UnknownTenant, detail))
            }
            Some(books) => match books.map(inbound, event.origin.received_at) {
                Ok(Mapped::Entry { entry, rule }) => Step::Post { entry, rule },
                Ok(Mapped::Reversal(request)) => Step::Reverse { request, books: Arc::clone(books) },
                Ok(Mapped::Ignored) => Step::Ignore,
                Err(failure) => Step::Fail(failure),
            },
        };
        let may_wait = match &step {
            Step::Fail(failure) => failure.reason.disposition() == Disposition::Hold,
            Step::Reverse { .. } => true,
            Step::Post { .. } | Step::Ignore => false,
        };
        let own_policy = books.filter(|_| may_wait).and_then(|books| books.retry_policy(inbound));
        let policy = own_policy.unwrap_or(&self.policy).clone();
        Item {
            facts: Some(event.origin.facts(inbound, books.map(|books| books.version), policy)),
            step,
            source: &event.origin,
        }
    }

    /// Phase 5: tells Redis what was committed.
    async fn mark(&self, events: &[&Event<'_>], verdicts: &[Verdict]) {
        let marks = events.iter().zip(verdicts).filter_map(|(event, verdict)| mark(event.key()?, verdict)).collect();
        claim::mark(&self.redis, &self.postgres.epoch(), marks, time::now()).await;
    }
}

impl Event<'_> {
    fn key(&self) -> Option<Key<'_>> {
        let event = self.read.as_ref().ok()?;
        Some(Key { tenant_id: &event.tenant_id, event_id: &event.event_id, payload_hash: &event.payload_hash })
    }
}

/// A message that is not looked into.
fn unread(failure: Failure) -> Box<Undecodable> {
    Box::new(Undecodable { failure, identity: Identity::default() })
}
