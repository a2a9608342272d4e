//! Dead letters in a posting. Letters whose turn has come are locked before anything is decided; verdicts enter, and in the
//! same transaction each letter is resolved, with the entry that proves it, or waits with its held event, or is parked again.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::PgConnection;

use super::item::{Came, Item};
use super::plan::Plan;
use super::received::{Counts, OwnLetter};
use super::verdict::Verdict;
use crate::domain::chain::ChainedEntry;
use crate::domain::letter::{LetterStatus, Resolution};
use crate::store;
use crate::store::dead_letters::{self, Ended};
use crate::store::held::LetterCopy;
use crate::store::received::Outcome;

/// The states of a letter whose event may come to an end.
const OPEN: [LetterStatus; 2] = [LetterStatus::Parked, LetterStatus::Replaying];

/// The letters that stand for items, locked in id order until the end, so that what is decided about them stays true.
pub(super) async fn lock<'c>(
    db: &mut PgConnection,
    came: impl Iterator<Item = &'c Came>,
) -> Result<HashMap<String, dead_letters::LockedLetter>, sqlx::Error> {
    let ids: Vec<&str> = came.filter_map(|came| Some(came.letter()?.letter_id.as_str())).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let locked = dead_letters::lock_letters(db, &ids).await?;
    Ok(locked.into_iter().map(|letter| (letter.id.clone(), letter)).collect())
}

/// The letter that stands for an item; `None`: there is none, or it is gone.
pub(super) fn own(item: &Item<'_>, locked: &HashMap<String, dead_letters::LockedLetter>) -> Option<OwnLetter> {
    let letter = locked.get(&item.came.letter()?.letter_id)?;
    Some(OwnLetter { open: letter.status.is_open(), day: letter.received_on })
}

/// Tells whether a letter that is to be replayed is still parked. A letter is decided once in a batch.
pub(super) fn is_parked(came: &Came, locked: &HashMap<String, dead_letters::LockedLetter>) -> bool {
    let Came::FromLetter { copy, .. } = came else { return true };
    locked.get(&copy.letter_id).is_some_and(|letter| letter.status == LetterStatus::Parked)
}

/// The letter of an item as the inbox has read it: parked, and counted on that day.
pub(super) fn as_read(came: &Came) -> Option<OwnLetter> {
    match came {
        Came::FromLetter { day, .. } => Some(OwnLetter { open: true, day: *day }),
        Came::FromBroker | Came::FromHeld { .. } => None,
    }
}

/// Resolves the letters of a step in which every event is posted. False: one of them is not as the inbox has read it, and nothing may be
/// committed.
pub(super) async fn resolve_as_read(
    db: &mut PgConnection,
    came: &[Came],
    verdicts: &[Verdict],
    counts: &mut Counts,
    replay: i64,
    now: DateTime<Utc>,
) -> Result<bool, sqlx::Error> {
    let mut ended = Vec::with_capacity(came.len());
    for (came, verdict) in came.iter().zip(verdicts) {
        let (Came::FromLetter { copy, day }, Verdict::Posted(receipt)) = (came, verdict) else { continue };
        let (entry_id, how) = (Some(&*receipt.entry_id), Resolution::Posted);
        ended.push((Ended { id: &copy.letter_id, edit_no: copy.edit_no, entry_id, how }, *day));
    }
    // In id order, as every other writer of letters: two batches never wait on each other.
    ended.sort_unstable_by_key(|(letter, _)| letter.id);
    let (ended, days): (Vec<Ended<'_>>, Vec<Option<NaiveDate>>) = ended.into_iter().unzip();
    store::plan_anew(&mut *db).await?;
    let parked = [LetterStatus::Parked];
    let resolved = dead_letters::resolve(db, &ended, &parked, Some(replay), now).await?;
    let days: HashMap<&str, Option<NaiveDate>> = ended.iter().map(|letter| letter.id).zip(days).collect();
    for letter in &resolved {
        let day = letter.counted.as_ref().map(|(_, day)| *day);
        if days.get(letter.id.as_str()) != Some(&day) {
            return Ok(false);
        }
        if let Some((tenant, day)) = &letter.counted {
            // The entry has taken its place on its day.
            counts.add(tenant, *day, Outcome::Parked, -1, letter.money);
        }
    }
    Ok(resolved.len() == days.len())
}

/// Resolves the letters whose events came to an end, lets those wait whose events are held, and parks those again whose held event made way
/// for a copy that did not end in the books, or waits with another letter. Returns the replays of the letters that were parked again.
pub(super) async fn settle(
    db: &mut PgConnection,
    verdicts: &[(Option<LetterCopy>, &Verdict)],
    plan: &mut Plan,
    unheld: Vec<String>,
    replay: Option<i64>,
    now: DateTime<Utc>,
) -> Result<Vec<i64>, sqlx::Error> {
    let mut ended = Vec::new();
    for (letter, verdict) in verdicts {
        let Some(LetterCopy { letter_id, edit_no }) = letter else { continue };
        let (entry_id, how) = match verdict {
            Verdict::Posted(receipt) => (Some(&*receipt.entry_id), Resolution::Posted),
            Verdict::Duplicate(receipt) => (receipt.as_ref().map(|r| &*r.entry_id), Resolution::Duplicate),
            Verdict::Ignored => (None, Resolution::Ignored),
            Verdict::Held(_) | Verdict::Rejected { .. } | Verdict::Gone => continue,
        };
        ended.push(Ended { id: letter_id, edit_no: *edit_no, entry_id, how });
    }
    if !ended.is_empty() {
        for letter in dead_letters::resolve(&mut *db, &ended, &OPEN, replay, now).await? {
            let (Some((tenant, day)), money) = (&letter.counted, letter.money) else { continue };
            let day = *day;
            match letter.how {
                // The entry has taken its place on its day.
                Resolution::Posted => plan.counts.add(tenant, day, Outcome::Parked, -1, money),
                Resolution::Ignored => {
                    plan.counts.move_over(tenant, Some(day), money, Outcome::Parked, Outcome::Ignored);
                }
                Resolution::Duplicate | Resolution::Superseded => {
                    plan.counts.move_over(tenant, Some(day), money, Outcome::Parked, Outcome::Duplicate);
                }
            }
        }
    }
    let held: HashSet<&str> =
        plan.held.iter().filter_map(|row| Some(row.letter.as_ref()?.letter_id.as_str())).collect();
    if !held.is_empty() {
        dead_letters::hold(&mut *db, &held.iter().copied().collect::<Vec<_>>(), replay).await?;
    }
    let left = unheld.iter().chain(&plan.replaced).map(String::as_str).filter(|id| !held.contains(id));
    let left: Vec<&str> = left.collect();
    if left.is_empty() { Ok(Vec::new()) } else { dead_letters::park_again(db, &left).await }
}

/// The letters of a step whose event waits with a later letter of the same step: they are parked, as they were.
pub(super) fn replaced_in_step(plan: &Plan, locked: &HashMap<String, dead_letters::LockedLetter>) -> i64 {
    let of_step = |id: &&String| locked.get(*id).is_some_and(|letter| letter.status == LetterStatus::Parked);
    i64::try_from(plan.replaced.iter().filter(of_step).count()).unwrap_or(i64::MAX)
}

/// The replays of the letters that were held and are rejected now.
pub(super) fn failed_after_hold(plan: &Plan, locked: &HashMap<String, dead_letters::LockedLetter>) -> Vec<i64> {
    let rejected = plan.rejected.iter().filter_map(|row| locked.get(&row.letter.id));
    rejected.filter(|letter| letter.status == LetterStatus::Replaying).filter_map(|letter| letter.replay_id).collect()
}

/// The event behind an open letter was posted from another message: the publisher has sent it again, as it was or corrected.
pub async fn supersede(
    db: &mut PgConnection,
    entries: &[ChainedEntry],
    now: DateTime<Utc>,
    counts: &mut Counts,
) -> Result<(), sqlx::Error> {
    if entries.is_empty() {
        return Ok(());
    }
    for letter in dead_letters::supersede(db, entries, now).await? {
        counts.move_over(&letter.tenant_id, letter.received_on, letter.money, Outcome::Parked, Outcome::Duplicate);
    }
    Ok(())
}
