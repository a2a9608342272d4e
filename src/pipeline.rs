//! THE STORY: receive → claim → map → post → mark → settle. Read this first.
//!
//! | # | phase | here | a crash right after it |
//! |---|---|---|---|
//! | 1 | receive | `Road::follow`: `Receiver::next_batch`, then `read` decodes | redelivered |
//! | 2 | claim | `claim::claim` in Redis | redelivered; the key says PROCESSING, which proves nothing |
//! | 3 | map | `map`: the tenant's books turn events into balanced entries or reasons | redelivered |
//! | 4 | post | `journal::post`: one transaction | redelivered; the ledger knows it: duplicate |
//! | 5 | mark | `claim::mark` in Redis | redelivered: duplicate |
//! | 6 | settle | `Settler::settle`: reject the rejected, acknowledge the rest | – |
//!
//! Several batches of a lane are under way at once, each in another phase (`road`); they are decided ahead (`ahead`), post and
//! settle in the order they came. Batches of all lanes take turns at posting, by the lanes' weights (`intake::turns`).
//!
//! Redis hurries, PostgreSQL decides, the broker is told last. Here, and only here, a disposition (ledger word) becomes a
//! settlement (AMQP word).

mod ahead;
mod make;
mod origin;
mod posting;
mod rehearse;
mod road;
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
use crate::intake::ledger::Ledger;
use crate::intake::progress;
use crate::intake::turns::Turns;
use crate::journal::books::BooksShelf;
use crate::journal::{Committed, Item, Step, Verdict};
use crate::outbox::Recent;
use crate::platform::amqp::{AmqpError, Delivery, Receiver, Settler};
use crate::platform::faults::{self, crash_point};
use crate::platform::health::{Health, Part};
use crate::platform::metrics;
use crate::platform::postgres::Postgres;
use crate::platform::redis::Redis;
use crate::platform::time;
use ahead::Ahead;
use origin::Origin;
use posting::unreadable;
use road::{Place, Road};
use verdicts::{count, mark, numbers, reached};

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
    /// Transactions at once; tenants are shared out among them.
    pub posters: usize,
    pub turns: Turns,
    pub ahead: Ahead,
    pub ledger: Ledger,
    /// Rung after a commit, for the relay.
    pub wake: Arc<Notify>,
    /// What was committed, for the relay.
    pub recent: Arc<Recent>,
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
        self: &Arc<Self>,
        lane: Lane,
        receiver: &mut Receiver,
        stop: &CancellationToken,
    ) -> Result<(), PipelineError> {
        let mut road = Road::new(Arc::clone(self), lane, receiver, stop.clone());
        let mut followed = road.follow(receiver, stop).await;
        if followed.is_ok() && !road.broken.is_cancelled() {
            followed = road.finish(receiver).await;
        }
        road.end(followed).await
    }

    /// Brings a batch to its end: a verdict for every delivery, committed, marked and settled. One event is the batch of one.
    async fn travel(
        &self,
        lane: Lane,
        batch: &[Delivery],
        mut place: Place,
        settler: &Settler,
        stop: &CancellationToken,
    ) -> Result<(), PipelineError> {
        metrics::batch(batch.len());
        let events: Vec<Event<'_>> = batch.iter().map(|delivery| self.read(lane, delivery)).collect();
        let connections = self.postgres.connections();
        let ledger = self.ledger().await;
        let (mut verdicts, is_new) = self.claim(&events, &ledger).await;
        crash_point(faults::AFTER_CLAIM);

        let rest: Vec<usize> = (0..events.len()).filter(|index| matches!(verdicts.get(*index), Some(None))).collect();
        let rest_events: Vec<&Event<'_>> = rest.iter().filter_map(|index| events.get(*index)).collect();
        let too_early = self.tells_too_early(&rest_events);
        if too_early {
            settler.settle(batch, |_| false).await?;
        }
        // Before its turn: while it is mapped, the batch before it commits. Where the books change meanwhile, posting finds out.
        let mut parts = self.map(&rest_events);
        place.drafted.take().await?;
        if is_new && self.draft(&mut parts) {
            place.drafted.pass();
        }
        place.posted.take().await?;
        let mut posted = self.post(lane, parts, stop).await?;
        place.drafted.pass();
        place.posted.pass();
        // The batch behind this one runs on this thread next, and everybody waits for it; what is left of this one can wait.
        tokio::task::yield_now().await;
        // A connection made since may lead to a ledger that was restored meanwhile: that is not the one with this name.
        let is_proven = self.postgres.connections() == connections;
        let proven = if is_proven { ledger.as_str() } else { "" };
        if is_proven {
            self.recent.put(connections, std::mem::take(&mut posted.entries));
        }
        self.wake.notify_one();

        // From here on the next batch may commit; this one is told to Redis and to the broker after the one before it.
        place.settled.take().await?;
        self.mark(proven, &rest_events, &posted).await;
        let batches: Vec<_> = posted.batches.iter().map(numbers).collect();
        progress::mirror(&self.redis, &ledger, &batches).await;
        crash_point(faults::AFTER_MARK);
        for (index, verdict) in rest.into_iter().zip(posted.verdicts) {
            if let Some(place) = verdicts.get_mut(index) {
                *place = Some(verdict);
            }
        }
        let verdicts: Vec<Verdict> = verdicts
            .into_iter()
            .map(|verdict| verdict.unwrap_or_else(|| unreachable!("every event was posted or known")))
            .collect();
        if !too_early {
            settler.settle(batch, |index| matches!(verdicts.get(index), Some(Verdict::Rejected { .. }))).await?;
        }
        crash_point(faults::AFTER_SETTLE);
        place.settled.pass();
        count(lane, &verdicts);
        Ok(())
    }

    /// The ledger's name, as keys carry it. While PostgreSQL is away nobody knows what will come back.
    async fn ledger(&self) -> String {
        if self.health.is_away(Part::Postgres) {
            return String::new();
        }
        self.ledger.name(&self.postgres, &self.redis).await
    }

    /// Phase 2: what Redis knows. A verdict for each event that is known to be posted, none for the others; and whether it has
    /// not heard of a single one before.
    async fn claim(&self, events: &[Event<'_>], ledger: &str) -> (Vec<Option<Verdict>>, bool) {
        let (places, keys): (Vec<usize>, Vec<Key<'_>>) =
            events.iter().enumerate().filter_map(|(i, e)| Some((i, e.key()?))).unzip();
        let claim::Claims { known, all_new } = claim::claim(&self.redis, ledger, &keys, time::now()).await;
        let mut verdicts: Vec<Option<Verdict>> = vec![None; events.len()];
        for (place, _) in places.iter().zip(&known).filter(|(_, known)| **known) {
            // Only PostgreSQL knows whether its batch has counted it, and only there a replayed letter can be resolved.
            if events.get(*place).is_some_and(|event| event.origin.member().is_some() || event.origin.is_replay()) {
                continue;
            }
            if let Some(verdict) = verdicts.get_mut(*place) {
                *verdict = Some(Verdict::Duplicate(None));
            }
        }
        (verdicts, all_new)
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
        if let Ok(event) = &read {
            faults::crash_event(event.event_id.as_str());
        }
        Event { origin: Origin::new(delivery, lane).identified(&read), read }
    }

    /// Phase 3: what the books make of it.
    fn item<'e>(&self, event: &'e Event<'_>, books: &HashMap<TenantId, Arc<Books>>) -> Item<'e> {
        let inbound = match &event.read {
            Ok(inbound) => inbound,
            Err(undecodable) => return unreadable(event, undecodable.failure.clone(), books),
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
        let fails = matches!(step, Step::Fail(_) | Step::Reverse { .. });
        let own_policy = books.filter(|_| may_wait).and_then(|books| books.retry_policy(inbound));
        let policy = own_policy.unwrap_or(&self.policy).clone();
        Item {
            facts: Some(event.origin.facts(inbound, books.map(|books| books.version), policy)),
            step,
            member: event.origin.member(),
            arrival: event.origin.arrival(books.map(AsRef::as_ref), fails.then_some(inbound)),
            source: &event.origin,
        }
    }

    /// Phase 5: tells Redis what was committed.
    async fn mark(&self, ledger: &str, events: &[&Event<'_>], posted: &Committed) {
        let verdicts = events.iter().zip(&posted.verdicts);
        let marks = verdicts.filter_map(|(event, verdict)| mark(event.key()?, verdict)).collect();
        claim::mark(&self.redis, ledger, reached(events, posted), marks, time::now()).await;
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
    Box::new(Undecodable { failure, identity: Identity::default(), batch: None })
}
