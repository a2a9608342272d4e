//! Batch progress, without SQL: members and their verdicts enter, counters and completions leave. A member counts once however
//! often it comes, held members are not done yet, and a batch is told to be complete once, whatever comes after.

use std::collections::{BTreeMap, BTreeSet};

use super::verdict::Verdict;
use crate::domain::batch::{BatchKey, BatchMember, BatchProgress, Ending, Progress, Tally};
use crate::domain::ids::EventId;

/// The batch progress that is to be written.
#[derive(Default)]
pub struct TallyPlan {
    pub batches: BTreeSet<BatchKey>,
    pub members: BTreeMap<(BatchKey, EventId), Ending>,
    /// Complete since just now.
    pub completed: Vec<BatchProgress>,
}

impl TallyPlan {
    /// The batches that changed, as they are now.
    pub(super) fn changed(&self, tally: &Tally) -> Vec<BatchProgress> {
        let changed = tally.batches.iter().filter(|(key, _)| self.batches.contains(*key));
        let progress = |((tenant, batch), progress): (&BatchKey, &Progress)| BatchProgress {
            tenant_id: tenant.clone(),
            batch_id: batch.clone(),
            progress: *progress,
        };
        changed.map(progress).collect()
    }
}

/// Counts one member.
pub fn count(member: BatchMember, verdict: &Verdict, tally: &mut Tally, plan: &mut TallyPlan) {
    let BatchMember { tenant_id, event_id, batch } = member;
    let key = (tenant_id, batch.id);
    let progress = tally.batches.entry(key.clone()).or_default();
    if plan.batches.insert(key.clone()) {
        progress.revision += 1;
    }
    progress.size = progress.size.max(batch.size);
    let ending = match verdict {
        Verdict::Posted(_) | Verdict::Duplicate(_) => Some(Ending::Posted),
        Verdict::Rejected { .. } => Some(Ending::Rejected),
        Verdict::Ignored => Some(Ending::Ignored),
        Verdict::Held(_) | Verdict::Gone => None,
    };
    if let Some(ending) = ending {
        let place = (key.clone(), event_id);
        let before = tally.members.get(&place).copied();
        // Posted is posted, also where the same id came again with other content and was rejected.
        if before != Some(Ending::Posted) && before != Some(ending) {
            if let Some(before) = before {
                progress.count(before, -1);
            }
            progress.count(ending, 1);
            tally.members.insert(place.clone(), ending);
            plan.members.insert(place, ending);
        }
    }
    if !progress.completed && progress.size.is_some_and(|size| progress.done() >= size) {
        progress.completed = true;
        let (tenant_id, batch_id) = key;
        plan.completed.push(BatchProgress { tenant_id, batch_id, progress: *progress });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::disposition::{Failure, Reason};
    use crate::domain::event::BatchRef;
    use crate::domain::ids::TenantId;

    fn play(rows: &[(&str, Option<i64>, &str)]) -> (Progress, Vec<Progress>) {
        let (mut tally, mut completed) = (Tally::default(), Vec::new());
        let key = (TenantId::parse("acme").unwrap(), EventId::parse("b").unwrap());
        for (event, size, verdict) in rows {
            let failure = || Failure::new(Reason::BadAmount, "");
            let verdict = match *verdict {
                "posted" => Verdict::Duplicate(None),
                "rejected" => Verdict::Rejected { failure: failure(), posted: None },
                "ignored" => Verdict::Ignored,
                _ => Verdict::Held(failure()),
            };
            let batch = BatchRef { id: key.1.clone(), size: *size };
            let member = BatchMember { tenant_id: key.0.clone(), event_id: EventId::parse(event).unwrap(), batch };
            let mut plan = TallyPlan::default();
            count(member, &verdict, &mut tally, &mut plan);
            completed.extend(plan.completed.into_iter().map(|completed| completed.progress));
        }
        (tally.batches.remove(&key).unwrap(), completed)
    }

    #[test]
    fn a_batch_completes_once_whatever_its_members_do() {
        type Rows = &'static [(&'static str, Option<i64>, &'static str)];
        type Case = (Rows, [i64; 3], Option<[i64; 3]>);
        // Rows; then posted, rejected, ignored at the end, and at the completion, where there is one.
        let cases: &[Case] = &[
            (&[("a", Some(2), "posted"), ("b", Some(2), "posted")], [2, 0, 0], Some([2, 0, 0])),
            (&[("a", Some(2), "posted"), ("a", Some(2), "posted")], [1, 0, 0], None),
            (&[("a", Some(2), "posted"), ("b", Some(2), "held")], [1, 0, 0], None),
            (&[("a", None, "posted"), ("b", None, "posted")], [2, 0, 0], None),
            (&[("a", None, "posted"), ("b", Some(2), "ignored")], [1, 0, 1], Some([1, 0, 1])),
            // The size comes with a copy, grows before the end, and grows after it.
            (&[("a", None, "posted"), ("a", Some(1), "posted")], [1, 0, 0], Some([1, 0, 0])),
            (&[("a", Some(1), "held"), ("b", Some(3), "posted"), ("a", Some(1), "posted")], [2, 0, 0], None),
            (&[("a", Some(1), "posted"), ("b", Some(3), "posted"), ("c", None, "posted")], [3, 0, 0], Some([1, 0, 0])),
            // More than were told.
            (&[("a", None, "posted"), ("b", None, "rejected"), ("c", Some(1), "held")], [1, 1, 0], Some([1, 1, 0])),
            // A rejected member that is posted later moves, also after the end; a posted one never moves.
            (&[("a", Some(2), "rejected"), ("a", Some(2), "posted")], [1, 0, 0], None),
            (&[("a", Some(1), "rejected"), ("a", Some(1), "posted")], [1, 0, 0], Some([0, 1, 0])),
            (&[("a", Some(2), "posted"), ("a", Some(2), "rejected")], [1, 0, 0], None),
        ];
        for (rows, end, completed) in cases {
            let (progress, completions) = play(rows);
            let counts = |p: &Progress| [p.posted, p.rejected, p.ignored];
            assert_eq!(counts(&progress), *end, "{rows:?}");
            assert_eq!(completions.iter().map(counts).collect::<Vec<_>>(), Vec::from_iter(*completed), "{rows:?}");
            assert_eq!(progress.revision, i64::try_from(rows.len()).unwrap());
        }
    }
}
