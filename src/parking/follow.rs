//! Following a replay: how far it is, what is held, what is left; and taking back what is still on its way.

use sqlx::{PgConnection, PgPool};

use super::replay::message_id;
use crate::domain::letter::ReplayState;
use crate::domain::operator::Operator;
use crate::store::{StoreError, dead_letters, operator_log, replays};

/// The progress of a replay. Every number is read from the tables, so that it is true after a crash too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    pub selected: i64,
    /// Not sent yet; they are still parked.
    pub left: i64,
    pub sent: i64,
    pub skipped: i64,
    /// In the books, ignored by a rule, or found to be there already.
    pub resolved: i64,
    /// Parked again, with the new reason.
    pub failed: i64,
    /// Sent; may succeed later, and will be tried again without anybody's help.
    pub held: i64,
}

impl Progress {
    /// The letters that came to an end, or are held until they do.
    #[must_use]
    pub fn heard(&self) -> i64 {
        self.resolved + self.failed + self.held
    }

    /// The letters that were sent and not heard of.
    #[must_use]
    pub fn under_way(&self) -> i64 {
        (self.sent - self.heard()).max(0)
    }
}

/// The progress of a replay, counted anew.
///
/// # Errors
/// The database is away.
pub async fn progress(db: &mut PgConnection, replay: i64) -> Result<Progress, StoreError> {
    let replays::Places { selected, waiting, sent } = replays::places(&mut *db, replay).await?;
    let skipped = selected - waiting - sent;
    let sent = Progress { selected, left: waiting, sent, skipped, ..Progress::default() };
    heard(db, replay, sent).await
}

/// The progress so far, with what is heard by now of the letters that were sent: the part that others make. Cheap, however long the
/// replay is.
///
/// # Errors
/// The database is away.
pub async fn heard(db: &mut PgConnection, replay: i64, so_far: Progress) -> Result<Progress, StoreError> {
    let replays::Unresolved { replaying, failed, held } = replays::unresolved(db, replay).await?;
    // A letter is sent once in a replay, and leaves `replaying` for resolved or failed.
    let resolved = (so_far.sent - replaying - failed).max(0);
    Ok(Progress { resolved, failed, held, ..so_far })
}

/// Letters that one transaction of a release moves.
const RELEASE_STEP: i64 = 1_000;

/// Gives a replay up: what is not sent stays parked and is not selected any more; what is sent and not heard of is parked again,
/// its outbox row removed where it has not left. A message that is under way all the same resolves its letter when it
/// is booked. Held events keep their own retry, and stay.
///
/// # Errors
/// What was released until then is parked; the rest is as it was.
pub async fn release(pool: &PgPool, replay: i64, who: &Operator) -> Result<u64, StoreError> {
    // First of all, so that a command that still feeds it finds nothing more to send.
    let mut db = pool.acquire().await?;
    replays::skip_waiting(&mut db, replay).await?;
    replays::set_state(&mut db, replay, ReplayState::Cancelled).await?;
    drop(db);
    let mut released = 0;
    loop {
        let mut transaction = pool.begin().await?;
        operator_log::sign(&mut transaction, who).await?;
        let ids = dead_letters::lock_replaying(&mut transaction, replay, RELEASE_STEP).await?;
        if ids.is_empty() {
            transaction.rollback().await?;
            return Ok(released);
        }
        let messages: Vec<String> = ids.iter().map(|id| message_id(replay, id)).collect();
        replays::withdraw(&mut transaction, &messages).await?;
        let step = dead_letters::park_again(&mut transaction, &ids).await?;
        transaction.commit().await?;
        released += step;
    }
}
