//! Phase 5: what was committed is told to Redis. Verdicts enter; marks on the idempotency keys, the mirror of publishers' batches and the counters of
//! the metrics leave.

use std::collections::HashMap;

use super::Pipeline;
use super::read::Event;
use crate::domain::batch::BatchProgress;
use crate::domain::disposition::Disposition;
use crate::domain::receipt::Receipt;
use crate::intake::Lane;
use crate::intake::claim::{self, Key, Mark, Response, Status};
use crate::intake::ledger::{Ledger, Reached};
use crate::intake::progress::{self, Numbers};
use crate::journal::{Committed, Verdict};
use crate::platform::{metrics, time};

impl Pipeline {
    /// Marks the keys of a batch. Where the ledger may be another one by now, no key says that its event is posted there.
    pub(super) async fn mark(&self, ledger: &Ledger, is_same_ledger: bool, events: &[&Event<'_>], posted: &Committed) {
        let unknown = Ledger::default();
        let proven = if is_same_ledger { ledger } else { &unknown };
        let verdicts = events.iter().zip(&posted.verdicts);
        let marks = verdicts.filter_map(|(event, verdict)| mark(event.key()?, verdict)).collect();
        claim::mark(&self.keys.redis, proven, reached(events, posted), marks, time::now()).await;
        let batches: Vec<_> = posted.batches.iter().map(numbers).collect();
        progress::mirror(&self.keys.redis, ledger.name(), &batches).await;
    }
}

/// The mark that a verdict makes on a key. A held or ignored event keeps its PROCESSING, which proves nothing.
fn mark<'a>(key: Key<'a>, verdict: &'a Verdict) -> Option<Mark<'a>> {
    let completed = |key, receipt: &'a Receipt| Mark {
        key,
        status: Status::Completed,
        response_body: Response::Posted { entry_id: &receipt.entry_id, sequence: receipt.seq, hash: &receipt.hash },
    };
    match verdict {
        Verdict::Posted(receipt) | Verdict::Duplicate(Some(receipt)) => Some(completed(key, receipt)),
        // The key belongs to what is posted, not to the event that came with other content.
        Verdict::Rejected { posted: Some(posted), .. } => {
            Some(completed(Key { payload_hash: &posted.payload_hash, ..key }, &posted.receipt))
        }
        Verdict::Rejected { posted: None, failure } => Some(Mark {
            key,
            status: Status::Failed,
            response_body: Response::Rejected { reason: failure.reason.code(), detail: &failure.detail },
        }),
        Verdict::Duplicate(None) | Verdict::Ignored | Verdict::Held(_) | Verdict::Gone => None,
    }
}

/// The end that the ledger has come to by what was posted; `None` where no chain moved.
fn reached<'a>(events: &'a [&Event<'_>], posted: &'a Committed) -> Option<Reached<'a>> {
    let position = posted.position?;
    events.iter().zip(&posted.verdicts).rev().find_map(|(event, verdict)| match verdict {
        Verdict::Posted(receipt) => {
            let tenant_id = event.key()?.tenant_id;
            Some(Reached { position, tenant_id, seq: receipt.seq, hash: &receipt.hash })
        }
        _ => None,
    })
}

/// The numbers that the mirror of a batch is to say.
fn numbers(batch: &BatchProgress) -> Numbers<'_> {
    let progress = &batch.progress;
    Numbers {
        tenant_id: &batch.tenant_id,
        batch_id: &batch.batch_id,
        completed: progress.completed,
        total: progress.total().unwrap_or(0),
        done: progress.done(),
        errors: progress.rejected,
        revision: progress.revision,
    }
}

/// Counts the outcomes of a batch for the metrics; with the tenant where it came by a queue of its own.
pub(super) fn count(lane: Lane, tenant: Option<&str>, verdicts: &[Verdict]) {
    let mut outcomes: HashMap<&'static str, u64> = HashMap::new();
    for verdict in verdicts {
        let outcome = match verdict {
            Verdict::Posted(_) => "posted",
            Verdict::Duplicate(_) => "duplicate",
            Verdict::Ignored => "ignored",
            Verdict::Gone => "gone",
            Verdict::Held(failure) => {
                metrics::held(failure.reason.code());
                "held"
            }
            Verdict::Rejected { failure, .. } => {
                debug_assert_eq!(failure.reason.disposition(), Disposition::Reject);
                metrics::rejected(failure.reason.code());
                "rejected"
            }
        };
        *outcomes.entry(outcome).or_default() += 1;
    }
    for (outcome, count) in outcomes {
        metrics::deliveries(lane.name(), tenant, outcome, count);
    }
}
