//! The batches of the inbox on their road: read, map, post, mark. While one is posted the next is mapped; they are posted in the order in which they
//! were read. Beside a lane of greater weight that has no backlog, each batch is followed by a pause.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Inbox;
use crate::faults::mutants::{self, mutant};
use crate::intake::Lane;
use crate::intake::claim;
use crate::intake::turns::Precedence;
use crate::journal::Came;
use crate::pipeline::lane::{Baton, InHand};
use crate::pipeline::map::Share;
use crate::pipeline::mark;
use crate::pipeline::message::WaitingMessage;
use crate::pipeline::read::Event;
use crate::pipeline::{Pipeline, PipelineError};
use crate::platform::postgres::Work;
use crate::store::held;
use crate::store::replays::step::ReplayTurn;

/// Batches under way at once: one is told to Redis, one commits, one is mapped.
const UNDER_WAY_MAX: usize = 3;
/// The longest pause, whatever the last batch has waited for.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Messages that are decided in one transaction.
pub(super) struct Batch {
    messages: Vec<WaitingMessage>,
    /// The step of a replay that it is.
    turn: Option<ReplayTurn>,
}

impl Batch {
    /// Cuts what was read into batches of at most `size`. A step is cut behind the place of a batch's last letter, so that each batch is a
    /// step of its own.
    pub fn cut(messages: Vec<WaitingMessage>, turn: Option<ReplayTurn>, size: usize) -> Vec<Self> {
        let mut batches = Vec::new();
        let mut rest = messages;
        let mut from = turn.as_ref().map_or(0, |turn| turn.from);
        loop {
            let behind = rest.split_off(size.min(rest.len()));
            let border = if behind.is_empty() { None } else { rest.last().and_then(|message| message.place) };
            let own = turn.as_ref().map(|turn| ReplayTurn { from, to: border.unwrap_or(turn.to), ..turn.clone() });
            from = own.as_ref().map_or(0, |own| own.to);
            batches.push(Self { messages: std::mem::replace(&mut rest, behind), turn: own });
            if rest.is_empty() {
                return batches;
            }
        }
    }
}

/// The batches that are under way, in the order in which they were read. One that fails ends those behind it.
#[derive(Default)]
pub(super) struct Road {
    batches: JoinSet<Result<(), PipelineError>>,
    /// Of the last batch: that it is decided ahead, and that it has posted.
    last: [Option<oneshot::Receiver<()>>; 2],
    failed: Option<PipelineError>,
}

impl Road {
    /// Waits for one batch. One that ended because of another one's trouble says less than that other one.
    async fn join(&mut self) {
        match self.batches.join_next().await {
            None | Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => {
                if matches!(self.failed, None | Some(PipelineError::Stopped)) {
                    self.failed = Some(error);
                }
            }
            Some(Err(error)) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => self.failed = Some(PipelineError::Stopped),
            },
        }
    }

    /// Waits for everything that is under way.
    pub async fn end(mut self) -> Result<(), PipelineError> {
        while !self.batches.is_empty() {
            self.join().await;
        }
        self.failed.map_or(Ok(()), Err)
    }
}

impl Inbox {
    /// Sends batches on their road, one behind the other. False: one has failed, and no more may be sent.
    pub(super) async fn travel(&self, road: &mut Road, batches: Vec<Batch>, stop: &CancellationToken) -> bool {
        for batch in batches {
            let pausing = matches!(self.pipeline.poster.turns.precedence(Lane::Inbox), Precedence::Pausing(_));
            // One is posted, one is mapped, one is read; beside a lane that should not wait, one at a time.
            while road.batches.len() >= if pausing { 1 } else { UNDER_WAY_MAX } {
                road.join().await;
            }
            if road.failed.is_some() || stop.is_cancelled() {
                return false;
            }
            let begun = Instant::now();
            let (pipeline, batons) = (Arc::clone(&self.pipeline), road.last.each_mut().map(Baton::behind));
            let (in_hand, stop_batch) = (InHand::take(Arc::clone(&self.pipeline), batch.messages.len()), stop.clone());
            road.batches.spawn(async move {
                let ended = pipeline.travel_waiting(&batch, batons, &stop_batch).await;
                drop(in_hand);
                ended
            });
            if pausing {
                road.join().await;
                // By time and not by events: the busier the database is, the longer it has taken.
                let pause = begun.elapsed().min(PAUSE_MAX);
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
        road.failed.is_none()
    }
}

impl Pipeline {
    /// Brings a batch of the inbox to its end: a verdict for every message, committed and marked.
    async fn travel_waiting(
        &self,
        batch: &Batch,
        mut batons: [Baton; 2],
        stop: &CancellationToken,
    ) -> Result<(), PipelineError> {
        let [prepared, posting] = &mut batons;
        let events: Vec<Event<'_>> = self.reader.read_all_waiting(&batch.messages).await;
        let connections = self.postgres.connections();
        let ledger = self.ledger().await;
        let events: Vec<&Event<'_>> = events.iter().collect();
        let keys: Vec<_> = events.iter().filter_map(|event| event.key()).collect();
        claim::forget(&self.keys.redis, &keys).await;
        // One share, also of no event: a step whose letters are all gone moves its replay on.
        let (places, items) = ((0..events.len()).collect(), Some(self.mapper.items(&events).await));
        let mut shares = vec![Share { places, events: events.clone(), items, prepared: None }];
        prepared.take().await?;
        let is_sure = self.prepare(&mut shares);
        if is_sure {
            prepared.pass();
        }
        let is_free = self.poster.turns.precedence(Lane::Inbox) == Precedence::Free;
        let step = match &mut *shares {
            [share] if is_sure && is_free => batch.turn.as_ref().zip(share.prepared.take()),
            _ => None,
        };
        let posted = match step {
            Some((turn, step)) => self.post_step_ahead(*step, turn, events.len(), posting).await,
            None => None,
        };
        posting.take().await?;
        if mutant(mutants::INBOX_REMOVED_EARLY) {
            self.remove_early(batch).await;
        }
        let mut posted = match posted {
            Some(posted) => posted,
            None => self.post(Lane::Inbox.into(), shares, batch.turn.as_ref(), stop).await?,
        };
        prepared.pass();
        posting.pass();
        let is_same_ledger = self.postgres.connections() == connections;
        self.handover.give(is_same_ledger.then_some(connections), std::mem::take(&mut posted.entries));
        if posted.freed {
            self.due.notify_one();
        }
        self.mark(&ledger, is_same_ledger, &events, &posted).await;
        self.tell_rejected(Lane::Inbox, &events, &posted.verdicts);
        mark::count(Lane::Inbox, None, &posted.verdicts);
        Ok(())
    }

    /// The deliberate bug: what is held goes before the transaction that decides it.
    async fn remove_early(&self, batch: &Batch) {
        let row = |message: &WaitingMessage| match &message.came {
            Came::FromHeld { row, .. } => Some(row.clone()),
            Came::FromBroker | Came::FromLetter { .. } => None,
        };
        let rows: Vec<_> = batch.messages.iter().filter_map(row).collect();
        let _ = self.postgres.run(Work::of("mutant"), async |db| held::remove(db, &rows).await).await;
    }
}
