//! THE STORY: receive → claim → map → post → mark → settle. Read `travel` first.
//!
//! | # | phase | here | a crash right after it |
//! |---|---|---|---|
//! | 1 | receive | `lane` takes a batch off the queue, `read` decodes it | redelivered |
//! | 2 | claim | `claim`: the idempotency keys in Redis | redelivered; the key says PROCESSING, which proves nothing |
//! | 3 | map | `map`: the tenant's books turn events into balanced entries or reasons | redelivered |
//! | 4 | post | `post`: one transaction (`journal::post`), also under an outage; `ahead` decides a batch before its turn | redelivered; the ledger knows it: duplicate |
//! | 5 | mark | `mark`: the keys in Redis | redelivered: duplicate |
//! | 6 | settle | `Settler::settle`: reject the rejected, acknowledge the rest | – |
//!
//! What waits in PostgreSQL (`inbox`) takes the phases read, map, post and mark: nothing is claimed, and nobody waits to hear of it.
//!
//! Several batches of a road are under way at once, each in another phase (`lane`); they are decided ahead, post and settle in the order
//! they came. Batches of all roads take turns at posting, by their lanes' weights (`intake::turns`).
//!
//! Redis hurries, PostgreSQL decides, the broker is told last. Here, and only here, a disposition (ledger word) becomes a
//! settlement (AMQP word).

mod ahead;
mod breath;
mod claim;
pub mod inbox;
mod lane;
mod make;
mod map;
mod mark;
mod message;
mod post;
mod read;
mod rehearse;
mod rejections;
#[cfg(feature = "mutants")]
mod too_early;

pub use inbox::{Inbox, InboxError};
pub use make::Edges;
pub use message::WaitingMessage;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::faults::crash_points::{self, crash_point};
use crate::faults::mutants::{self, mutant};
use crate::intake::Lane;
use crate::intake::roads::Road;
use crate::journal::Verdict;
use crate::outbox::Handover;
use crate::platform::amqp::{AmqpError, Delivery, Receiver, Settler};
use crate::platform::health::Health;
use crate::platform::metrics;
use crate::platform::postgres::Postgres;
use claim::Keys;
use lane::{Batons, LaneBatches};
use map::Mapper;
use post::Poster;
use read::{Event, Reader};
use rejections::RejectionLog;

/// The road of a batch. Each phase has its own part; what several phases use stands beside them.
pub struct Pipeline {
    reader: Reader,
    keys: Keys,
    mapper: Mapper,
    poster: Poster,
    /// The relay's end of the story.
    handover: Arc<Handover>,
    postgres: Postgres,
    health: Health,
    /// Deliveries taken and not yet settled.
    in_hand: AtomicUsize,
    rejections: RejectionLog,
    /// Rung when held events become due by a posting of this process.
    due: Notify,
}

#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    #[error(transparent)]
    Amqp(#[from] AmqpError),
    #[error("PostgreSQL has been away for too long to hold deliveries: {0}")]
    HeldTooLong(String),
    #[error("told to stop while PostgreSQL is away")]
    Stopped,
    /// A step of a replay came too late: nothing was decided by it.
    #[error("the step of the replay was overtaken")]
    Overtaken,
}

impl Pipeline {
    /// Follows one road until `stop`, then finishes what the broker has sent already.
    ///
    /// # Errors
    /// The session is lost. What was not settled comes again.
    pub async fn follow(
        self: &Arc<Self>,
        road: &Arc<Road>,
        receiver: &mut Receiver,
        stop: &CancellationToken,
    ) -> Result<(), PipelineError> {
        let mut batches = LaneBatches::new(Arc::clone(self), Arc::clone(road), receiver, stop.clone());
        let mut followed = batches.follow(receiver, stop).await;
        if followed.is_ok() && !batches.broken.is_cancelled() {
            followed = batches.finish(receiver).await;
        }
        batches.end(followed).await
    }

    /// Brings a batch to its end: a verdict for every delivery, committed, marked and settled. One event is the batch of one.
    async fn travel(
        &self,
        road: &Road,
        batch: &[Delivery],
        mut batons: Batons,
        settler: &Settler,
        stop: &CancellationToken,
    ) -> Result<(), PipelineError> {
        // 1. receive
        metrics::batch(batch.len());
        let events: Vec<Event<'_>> = self.reader.read_all(road, batch).await;

        // 2. claim
        let connections = self.postgres.connections();
        let claims = self.claim(&events).await;
        crash_point(crash_points::AFTER_CLAIM);
        let unknown: Vec<&Event<'_>> = claims.unknown(&events);

        // 3. map. Before its turn: while it is mapped, the batch before it commits. Where the books change meanwhile, posting finds out.
        let mut shares = self.mapper.map(&unknown, self.poster.posters).await;
        batons.prepared.take().await?;
        if claims.all_new && self.prepare(&mut shares) {
            batons.prepared.pass();
        }

        // 4. post
        batons.posted.take().await?;
        let mut posted = self.post(road.place, shares, None, stop).await?;
        batons.prepared.pass();
        batons.posted.pass();
        // The batch behind this one runs on this thread next, and everybody waits for it; what is left of this one can wait.
        tokio::task::yield_now().await;
        // A connection made since may lead to a ledger that was restored meanwhile: that is not the one with this name.
        let is_same_ledger = self.postgres.connections() == connections;
        self.handover.give(is_same_ledger.then_some(connections), std::mem::take(&mut posted.entries));
        if posted.freed {
            self.due.notify_one();
        }

        // 5. mark. From here on the next batch may commit; this one is told to Redis and to the broker after the one before it.
        batons.settled.take().await?;
        self.mark(&claims.ledger, is_same_ledger, &unknown, &posted).await;
        crash_point(crash_points::AFTER_MARK);

        // 6. settle
        let verdicts = claims.complete(posted.verdicts);
        settler.settle(batch, |index| is_buried(verdicts.get(index), batch.get(index))).await?;
        crash_point(crash_points::AFTER_SETTLE);
        batons.settled.pass();
        self.tell_rejected(road.lane(), &events.iter().collect::<Vec<_>>(), &verdicts);
        mark::count(road.lane(), road.label(), &verdicts);
        Ok(())
    }

    /// The number of deliveries that are taken and not yet settled.
    #[must_use]
    pub fn in_hand(&self) -> usize {
        self.in_hand.load(Ordering::SeqCst)
    }

    fn tell_rejected(&self, lane: Lane, events: &[&Event<'_>], verdicts: &[Verdict]) {
        for (event, verdict) in events.iter().zip(verdicts) {
            if let Verdict::Rejected { failure, .. } = verdict {
                self.rejections.tell(lane, event, failure);
            }
        }
    }

    /// Logs the number of rejections that had no line of their own.
    pub fn tell_left_out(&self, is_last: bool) {
        self.rejections.tell_left_out(is_last);
    }

    /// Forgives every delivery one of its deliveries: this process has given its deliveries back because PostgreSQL was away. The broker
    /// counts that, fis does not.
    pub fn forgive(&self) {
        self.reader.forgiven.fetch_add(1, Ordering::SeqCst);
    }
}

/// Tells whether the broker is to move a delivery to the dead-letter queue. One that bears a record of deaths is only acknowledged: its letter is
/// committed, and the broker would believe, or trip over, what a publisher wrote there (ADR 45).
fn is_buried(verdict: Option<&Verdict>, delivery: Option<&Delivery>) -> bool {
    let died_before = delivery.is_some_and(|delivery| delivery.properties.has_deaths());
    matches!(verdict, Some(Verdict::Rejected { .. })) && (!died_before || mutant(mutants::FORGED_DEATH_BELIEVED))
}
