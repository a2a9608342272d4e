//! A road's batches, several under way at once: while one commits, the next is read, claimed and mapped, and the last one is
//! marked and settled. Each is a task of its own that owns its deliveries; batons keep them in the order they came: a batch
//! is decided ahead after the one before it was, posts after that one has posted, and settles after it has settled.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Pipeline, PipelineError};
use crate::intake::Lane;
use crate::intake::roads::Road;
use crate::intake::turns::Precedence;
use crate::platform::amqp::{ALONE_FROM, AmqpError, Delivery, Receiver, Settler};
use crate::platform::metrics;

/// One is settled, one commits, one is made ready. More would only hold more deliveries.
const UNDER_WAY_MAX: usize = 3;

/// The largest batch of a lane while one of greater weight is at work: its batch delays that one by a few milliseconds.
const GIVING_WAY_EVENTS_MAX: usize = 100;
/// The largest batch of the backfill lane beside a lane without a backlog, which it is not to delay: most of what so few cost is the commit.
const BACKFILL_EVENTS_MAX: usize = 25;
/// The longest pause of the backfill lane, whatever its last batch has waited for.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Passed from a batch to the one behind it. Dropped without a word where the batch failed.
pub struct Baton {
    before: Option<oneshot::Receiver<()>>,
    behind: Option<oneshot::Sender<()>>,
}

impl Baton {
    /// Behind the last one, in whose place it comes.
    pub fn behind(last: &mut Option<oneshot::Receiver<()>>) -> Self {
        let (sender, receiver) = oneshot::channel();
        Self { before: last.replace(receiver), behind: Some(sender) }
    }

    /// Waits for the batch before this one. Who gives up waiting may wait again.
    ///
    /// # Errors
    /// It failed: nothing behind it may go on.
    pub async fn take(&mut self) -> Result<(), PipelineError> {
        let Some(before) = &mut self.before else { return Ok(()) };
        let passed = before.await;
        // Whoever asks again hears the same: of a sender that is gone nobody hears anything but that.
        self.before = passed.is_err().then(|| oneshot::channel().1);
        passed.map_err(|_| PipelineError::Stopped)
    }

    pub fn pass(&mut self) {
        if let Some(behind) = self.behind.take() {
            // Nobody may be behind.
            let _ = behind.send(());
        }
    }
}

/// The batons of a batch, which keep it in its place in the lane.
pub struct Batons {
    pub prepared: Baton,
    pub posted: Baton,
    pub settled: Baton,
}

/// The batons that the batch that was sent last will pass on.
#[derive(Default)]
struct Last {
    prepared: Option<oneshot::Receiver<()>>,
    posted: Option<oneshot::Receiver<()>>,
    settled: Option<oneshot::Receiver<()>>,
}

/// Counts what is taken and not yet settled.
pub(super) struct InHand(Arc<Pipeline>, usize);

impl InHand {
    pub fn take(pipeline: Arc<Pipeline>, events: usize) -> Self {
        pipeline.in_hand.fetch_add(events, Ordering::SeqCst);
        Self(pipeline, events)
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.in_hand.fetch_sub(self.1, Ordering::SeqCst);
    }
}

/// The batches of one road that are under way.
pub struct LaneBatches {
    pipeline: Arc<Pipeline>,
    road: Arc<Road>,
    settler: Settler,
    stop: CancellationToken,
    /// One of the batches failed: nothing more may be taken.
    pub broken: CancellationToken,
    batches: JoinSet<Result<(), PipelineError>>,
    last: Last,
    end: Result<(), PipelineError>,
    panic: Option<JoinError>,
}

impl LaneBatches {
    pub fn new(pipeline: Arc<Pipeline>, road: Arc<Road>, receiver: &Receiver, stop: CancellationToken) -> Self {
        Self {
            pipeline,
            road,
            settler: receiver.consumer().settler(),
            stop,
            broken: CancellationToken::new(),
            batches: JoinSet::new(),
            last: Last::default(),
            end: Ok(()),
            panic: None,
        }
    }

    /// Sends a batch on its way as soon as there is room. What may have ended the process before travels the road alone, from
    /// the first look at it until the broker has heard of its end: whatever dies with it then is itself.
    pub async fn send(&mut self, batch: Vec<Delivery>) {
        if let Some(limit) = &self.road.limit {
            limit.take(batch.len(), Instant::now());
        }
        let suspect = batch.iter().any(|delivery| delivery.delivery_count() >= ALONE_FROM);
        if suspect {
            self.clear().await;
        }
        self.start(batch).await;
        if suspect {
            self.clear().await;
            if let (Err(error), Ok(())) = (self.settler.flush().await, &self.end) {
                self.broken.cancel();
                self.end = Err(error.into());
            }
        }
    }

    async fn start(&mut self, batch: Vec<Delivery>) {
        let in_hand = InHand::take(Arc::clone(&self.pipeline), batch.len());
        while self.batches.len() >= UNDER_WAY_MAX {
            self.join().await;
        }
        let batons = Batons {
            prepared: Baton::behind(&mut self.last.prepared),
            posted: Baton::behind(&mut self.last.posted),
            settled: Baton::behind(&mut self.last.settled),
        };
        let (pipeline, settler, stop) = (Arc::clone(&self.pipeline), self.settler.clone(), self.stop.clone());
        let (road, broken) = (Arc::clone(&self.road), self.broken.clone());
        self.batches.spawn(async move {
            // Also where it panics: whoever waits for the next delivery would otherwise not hear of it.
            let broken = broken.drop_guard();
            #[cfg(feature = "mutants")]
            let settler = if pipeline.tells_too_early(road.lane(), &batch) {
                settler.told_already(&batch).await
            } else {
                settler
            };
            let end = pipeline.travel(&road, &batch, batons, &settler, &stop).await;
            if end.is_ok() {
                broken.disarm();
            }
            drop(in_hand);
            end
        });
    }

    async fn join(&mut self) {
        if let Some(ended) = self.batches.join_next().await {
            self.joined(ended);
        }
    }

    fn joined(&mut self, ended: Result<Result<(), PipelineError>, JoinError>) {
        match ended {
            Ok(Ok(())) => {}
            // A batch that ended because of another one's trouble says less than that other one.
            Ok(Err(error)) if matches!(self.end, Ok(()) | Err(PipelineError::Stopped)) => self.end = Err(error),
            Ok(Err(_)) => {}
            Err(error) => {
                self.broken.cancel();
                self.panic = Some(error);
            }
        }
    }

    /// Waits for everything that is under way: a transaction must not be dropped in the middle.
    pub async fn clear(&mut self) {
        while !self.batches.is_empty() {
            self.join().await;
        }
    }

    /// Follows what the receiver gives until `until`, or until a batch fails.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn follow(&mut self, receiver: &mut Receiver, until: &CancellationToken) -> Result<(), AmqpError> {
        // A batch that fails must also wake whoever waits for the next delivery.
        let until = until.child_token();
        let failed = (self.broken.clone(), until.clone());
        let watch = tokio::spawn(async move {
            tokio::select! {
                () = failed.0.cancelled() => failed.1.cancel(),
                () = failed.1.cancelled() => {}
            }
        });
        let followed = self.drive(receiver, &until).await;
        watch.abort();
        followed
    }

    async fn drive(&mut self, receiver: &mut Receiver, until: &CancellationToken) -> Result<(), AmqpError> {
        let lane = self.road.lane();
        loop {
            let room = self.room(until).await;
            let (bound, pause) = match (self.pipeline.poster.turns.precedence(lane), lane) {
                (Precedence::Free, _) => (usize::MAX, None),
                (Precedence::Pausing(times), Lane::Backfill) => (BACKFILL_EVENTS_MAX, Some(times)),
                (Precedence::Pausing(_) | Precedence::Short, _) => (GIVING_WAY_EVENTS_MAX, None),
            };
            receiver.bound(bound.min(room));
            let Some(batch) = receiver.next_batch(until).await? else { return Ok(()) };
            if batch.is_empty() {
                // Where PostgreSQL is away, the lane is silent because it holds what it has.
                if self.holds_nothing() {
                    self.restart(receiver).await?;
                }
                continue;
            }
            let taken = Instant::now();
            self.send(batch).await;
            if pause.is_some() || !receiver.is_under_load() {
                self.last_posted().await;
            }
            if let Some(times) = pause {
                // By time and not by events: the busier the database and the broker are, the longer it has taken. And half as
                // much again, because feeding and relaying cost the others time too, behind the batch.
                let pause = (taken.elapsed().saturating_mul(times.saturating_mul(3)) / 2).min(PAUSE_MAX);
                // Nothing is held here that waits: what was taken is posted.
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = until.cancelled() => {}
                }
            }
            if receiver.wants_restart() && !until.is_cancelled() {
                self.restart(receiver).await?;
            }
        }
    }

    /// Waits until the tenant's limit has room; the events that may be taken then.
    async fn room(&self, until: &CancellationToken) -> usize {
        let (Some(limit), Some(tenant)) = (&self.road.limit, self.road.label()) else { return usize::MAX };
        let begun = Instant::now();
        loop {
            match limit.room(Instant::now()) {
                Ok(events) => {
                    metrics::limited(tenant, limit.waited(begun.elapsed()));
                    return events;
                }
                // Nothing is held here but what the broker has sent ahead: a second's worth.
                Err(wait) => tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    // Whoever stops takes what the broker has sent ahead, and no more.
                    () = until.cancelled() => return 1,
                },
            }
        }
    }

    /// Lets the lane consume anew, when what it has taken is settled.
    async fn restart(&mut self, receiver: &mut Receiver) -> Result<(), AmqpError> {
        self.finish(receiver).await?;
        // A batch that failed has left its deliveries unsettled: the session ends with it.
        if self.broken.is_cancelled() {
            return Ok(());
        }
        let bound = receiver.restart().await?;
        self.settler = receiver.consumer().settler();
        metrics::prefetch(self.road.lane().name(), self.road.label(), bound);
        Ok(())
    }

    /// Tells whether every batch that was sent has come to its end.
    fn holds_nothing(&mut self) -> bool {
        while let Some(ended) = self.batches.try_join_next() {
            self.joined(ended);
        }
        self.batches.is_empty()
    }

    /// Without load a batch is closed as late as can be, when the one before it has posted: an event that comes meanwhile need not
    /// wait for a batch that was closed too early.
    async fn last_posted(&mut self) {
        if let Some(before) = self.last.posted.take()
            && before.await.is_err()
        {
            // It failed, and whoever comes behind must hear of it.
            let (_, failed) = oneshot::channel();
            self.last.posted = Some(failed);
        }
    }

    /// Takes no more, and brings what the broker has sent already to its end.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn finish(&mut self, receiver: &mut Receiver) -> Result<(), AmqpError> {
        receiver.consumer().cancel().await?;
        let broken = self.broken.clone();
        loop {
            match receiver.next_batch(&broken).await {
                Ok(Some(batch)) if batch.is_empty() => {}
                Ok(Some(batch)) => self.send(batch).await,
                Ok(None) | Err(AmqpError::Cancelled { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        self.clear().await;
        Ok(())
    }

    /// Tells how the lane ended, with `own` as the receiver's side of the end.
    pub async fn end(mut self, own: Result<(), AmqpError>) -> Result<(), PipelineError> {
        self.clear().await;
        if let Some(panic) = self.panic.take().and_then(|error| error.try_into_panic().ok()) {
            std::panic::resume_unwind(panic);
        }
        match (self.end, own) {
            (Err(PipelineError::Stopped) | Ok(()), Err(error)) => Err(error.into()),
            (end, _) => end,
        }
    }
}
