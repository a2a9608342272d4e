//! The end of a posting transaction: everything behind the entries. Decisions enter, the rows that follow from them are written, and what the caller
//! is to know leaves.

use std::collections::HashMap;

use sqlx::PgConnection;

use super::plan::LedgerView;
use super::prepare::{Decided, Heads};
use super::verdict::Verdict;
use super::{letters, rejected, waiting};
use crate::domain::batch::BatchProgress;
use crate::domain::chain::ChainedEntry;
use crate::domain::ids::EventKey;
use crate::journal::held::free_waiting_for;
use crate::store::dead_letters::LockedLetter;
use crate::store::held::LetterCopy;
use crate::store::journal::write::Seen;
use crate::store::outbox::PropertiesText;
use crate::store::replays::step::ReplayTurn;
use crate::store::replays::{self, StepVerdicts};
use crate::store::{self, batches};

/// The results that a posting leaves behind.
#[derive(Debug, Default)]
pub struct Committed {
    /// One for each item, in order.
    pub verdicts: Vec<Verdict>,
    pub entries: Vec<ChainedEntry>,
    /// The publishers' batches that the items belong to.
    pub batches: Vec<BatchProgress>,
    /// The position that the write-ahead log had come to; `None` where no chain moved.
    pub position: Option<i64>,
    /// The ends of the chains of the batch's tenants, as they are now.
    pub heads: Heads,
    /// The batch was decided ahead, for other ends of the chains.
    pub moved: bool,
    /// Held events became due.
    pub freed: bool,
}

/// The things that a batch of the inbox brings along: the letters that stand for its items, by place and by id, and the step of a replay that it is.
#[derive(Default)]
pub(super) struct Waited<'t> {
    pub copies: Vec<Option<LetterCopy>>,
    pub letters: HashMap<String, LockedLetter>,
    pub turn: Option<&'t ReplayTurn>,
}

/// Everything behind the entries: mostly nothing.
pub(super) async fn finish(
    db: &mut PgConnection,
    decided: Decided,
    known: LedgerView,
    waited: Waited<'_>,
    seen: Option<Seen>,
    properties: PropertiesText,
) -> Result<Committed, sqlx::Error> {
    let Decided { verdicts, mut plan, now, .. } = decided;
    let Waited { copies, letters, turn } = waited;
    let replay = turn.map(|turn| turn.replay_id);
    let awaited = seen.is_some_and(|seen| seen.awaited);
    let finds = known.any_held || awaited || !plan.held.is_empty() || !plan.rejected.is_empty();
    if letters.is_empty() && (finds || seen.is_some_and(|seen| seen.letters)) {
        store::plan_anew(&mut *db).await?;
    }
    // Mostly nothing is held for these tenants and no letter is open, for nobody. What is held cannot change meanwhile: their
    // heads are locked. Before the letters are written: one whose event is still held waits with it.
    let unheld = match known.any_held {
        true => store::held::remove(&mut *db, &plan.released).await?,
        false => Vec::new(),
    };
    let letters_before = rejected::forget_told(&mut *db, &mut plan.rejected).await?;
    // Before their announcements: drawing an id gives a transaction no number yet, and without one the relay does not wait
    // for it (`outbox::floor`). Where no head is locked, this does.
    rejected::upsert_dead_letters(&mut *db, &plan.rejected, &letters_before, replay, now, &mut plan.counts).await?;
    waiting::insert_announcements(&mut *db, &plan, now, properties).await?;
    waiting::upsert_held(&mut *db, &plan.held, now).await?;
    let mut freed = plan.held.iter().any(|held| held.due_at <= now);
    // After `upsert_held`: an event may wait for a later one of the same batch.
    if !plan.entries.is_empty() && (known.any_held || awaited || !plan.held.is_empty()) {
        freed |= free_waiting_for(&mut *db, &plan.entries).await? > 0;
        // Other content under the id of an entry has lost, and is to hear of it.
        let key = |entry: &ChainedEntry| (entry.origin.tenant_id.clone(), entry.origin.event_id.clone());
        let lost: Vec<EventKey> = plan.entries.iter().map(key).filter(|key| known.held.any(key)).collect();
        if !lost.is_empty() {
            freed |= store::held::free_ids(&mut *db, &lost).await? > 0;
        }
    }
    let decided: Vec<(Option<LetterCopy>, &Verdict)> =
        copies.into_iter().chain(std::iter::repeat(None)).zip(&verdicts).collect();
    let mut failed = letters::settle(&mut *db, &decided, &mut plan, unheld, replay, now).await?;
    failed.extend(letters::failed_after_hold(&plan, &letters));
    if seen.is_some_and(|seen| seen.letters) || !plan.rejected.is_empty() {
        letters::supersede(&mut *db, &plan.entries, now, &mut plan.counts).await?;
    }
    if let Some(turn) = turn {
        let mut step = step_verdicts(&verdicts);
        step.failed += letters::replaced_in_step(&plan, &letters);
        replays::advance(&mut *db, turn, step).await?;
    }
    replays::count_failed(&mut *db, &failed).await?;
    store::ignored::upsert(&mut *db, &plan.ignored).await?;
    let batches = plan.tally.changed(&known.tally);
    batches::write(&mut *db, &batches, &plan.tally.members, now).await?;
    let is_plain = seen.is_some_and(|seen| !seen.letters)
        && !known.any_held
        && !awaited
        && plan.has_entries_alone()
        && batches.is_empty()
        && turn.is_none();
    plan.counts.totals().write(&mut *db).await?;
    if !is_plain {
        store::is_whole(&mut *db).await?;
    }
    let position = seen.map(|seen| seen.position);
    Ok(Committed { verdicts, entries: plan.entries, batches, position, heads: known.heads, moved: false, freed })
}

/// The verdicts on the letters of a step.
fn step_verdicts(verdicts: &[Verdict]) -> StepVerdicts {
    let count = |is: fn(&Verdict) -> bool| i64::try_from(verdicts.iter().filter(|verdict| is(verdict)).count());
    StepVerdicts {
        decided: i64::try_from(verdicts.len()).unwrap_or(i64::MAX),
        failed: count(|verdict| matches!(verdict, Verdict::Rejected { .. })).unwrap_or(i64::MAX),
        held: count(|verdict| matches!(verdict, Verdict::Held(_))).unwrap_or(i64::MAX),
    }
}
