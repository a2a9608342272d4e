//! Mending: an edited copy beside the untouched original, letters given up or restored, and retention. Every act is one
//! transaction and signed; nothing but retention ever deletes, and retention only what is settled.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};

use crate::domain::letter::ReplayState;
use crate::domain::operator::Operator;
use crate::faults::crash_points::{self, crash_point};
use crate::store::dead_letters::{self, Filter};
use crate::store::letter_edits::{self, Edit, StoredEdit};
use crate::store::replays::{self, Replay, ReplayPace};
use crate::store::{StoreError, operator_log};

/// Stores the copies of those letters that are parked now and starts the replay that books them instead of their originals, in one
/// transaction: either copy is booked, never both. Returns the replay, which has a place for each copy that was stored.
///
/// # Errors
/// Nothing was stored and nothing is replayed; `Changed`: none of the letters is parked any more. Or the commit got no answer.
pub async fn edit(pool: &PgPool, edits: &[Edit], who: &Operator) -> Result<Replay, StoreError> {
    let mut transaction = pool.begin().await?;
    operator_log::sign(&mut transaction, who).await?;
    let stored = letter_edits::insert(&mut transaction, edits, who).await?;
    if stored.is_empty() {
        transaction.rollback().await?;
        return Err(StoreError::Changed { what: "every one of the letters".to_owned() });
    }
    let replay = replay_edits(&mut transaction, &stored, who).await?;
    crash_point(crash_points::BEFORE_EDIT);
    transaction.commit().await?;
    crash_point(crash_points::AFTER_EDIT);
    Ok(replay)
}

/// Writes the replay of the copies.
async fn replay_edits(db: &mut PgConnection, stored: &[StoredEdit], who: &Operator) -> Result<Replay, StoreError> {
    let selection = format!("{} edited", stored.len());
    let id = replays::insert(&mut *db, who, &selection, ReplayPace::default(), ReplayState::Running).await?;
    replays::freeze_edited(&mut *db, id, stored).await?;
    replays::set_letters(&mut *db, id, i64::try_from(stored.len()).unwrap_or(i64::MAX)).await?;
    replays::find(db, id).await
}

/// Letters that one statement discards.
const DISCARD_STEP: usize = 1_000;

/// Discards what the filter means, in one transaction, if it is exactly `expected` letters: what was shown is what is discarded.
///
/// # Errors
/// Nothing was discarded; `Changed`: the filter means other letters by now.
pub async fn discard(
    pool: &PgPool,
    filter: &Filter,
    who: &Operator,
    expected: i64,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let mut transaction = pool.begin().await?;
    operator_log::sign(&mut transaction, who).await?;
    let ids = dead_letters::lock_chosen(&mut transaction, filter).await?;
    if i64::try_from(ids.len()) != Ok(expected) {
        transaction.rollback().await?;
        return Err(StoreError::Changed { what: "the selection".to_owned() });
    }
    let mut discarded = 0;
    // In parts, so that no statement runs into its limit; in one transaction, so that all of them go or none.
    for part in ids.chunks(DISCARD_STEP) {
        discarded += dead_letters::discard(&mut transaction, part, now).await?;
    }
    crash_point(crash_points::BEFORE_DISCARD);
    transaction.commit().await?;
    crash_point(crash_points::AFTER_DISCARD);
    Ok(discarded)
}

/// Parks discarded letters again, in one transaction.
///
/// # Errors
/// Nothing was restored; `Changed`: one of them is gone or not discarded any more.
pub async fn restore(pool: &PgPool, ids: &[String], who: &Operator) -> Result<u64, StoreError> {
    let mut transaction = pool.begin().await?;
    operator_log::sign(&mut transaction, who).await?;
    let mut restored = 0;
    for part in ids.chunks(DISCARD_STEP) {
        restored += dead_letters::restore(&mut transaction, part).await?;
    }
    if u64::try_from(ids.len()) != Ok(restored) {
        transaction.rollback().await?;
        return Err(StoreError::Changed { what: "one of the letters".to_owned() });
    }
    transaction.commit().await?;
    Ok(restored)
}

/// Rows that one statement of the retention removes, so that none runs into a limit.
const PRUNE_STEP: i64 = 10_000;

/// Removes letters that were resolved or discarded before `older_than`; the table says of each in the log who did, and why.
///
/// # Errors
/// What was removed until then stays removed, and is in the log.
pub async fn prune(pool: &PgPool, older_than: DateTime<Utc>, who: &Operator) -> Result<u64, StoreError> {
    let mut pruned = 0;
    loop {
        let mut transaction = pool.begin().await?;
        operator_log::sign(&mut transaction, who).await?;
        let step = dead_letters::prune(&mut transaction, older_than, PRUNE_STEP).await?;
        if step == 0 {
            transaction.rollback().await?;
            replays::forget_selections(&mut *pool.acquire().await?, older_than).await?;
            return Ok(pruned);
        }
        transaction.commit().await?;
        pruned += u64::try_from(step).unwrap_or_default();
    }
}
