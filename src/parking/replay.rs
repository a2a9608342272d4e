//! Acts on a replay: start, pause, go on, stop. Each moves the state of its row and signs a line of the operators' log, in one transaction;
//! the service reads the state and does the rest. No letter is moved here, and a replay that nobody confirmed never runs.

use sqlx::PgPool;

use crate::domain::letter::{LetterAct, ReplayState};
use crate::domain::operator::Operator;
use crate::faults::crash_points::{self, crash_point};
use crate::store::replays::{self, Replay, ReplayPace};
use crate::store::{StoreError, operator_log};

/// Lets the service take a replay that was chosen.
///
/// # Errors
/// Nothing was done: there is none, it is not chosen, or the database is away. Or the commit got no answer.
pub async fn start(pool: &PgPool, replay: i64, who: &Operator) -> Result<(), StoreError> {
    let mut transaction = pool.begin().await?;
    let chosen = replays::start(&mut transaction, replay).await?;
    let detail = format!("{} letters: {}", chosen.letters, chosen.selection);
    operator_log::record_replay(&mut transaction, LetterAct::Replay, replay, who, &detail).await?;
    crash_point(crash_points::BEFORE_START);
    transaction.commit().await?;
    crash_point(crash_points::AFTER_START);
    Ok(())
}

/// Halts a running replay behind the letters that are decided.
///
/// # Errors
/// Nothing was done: there is none, it does not run, or the database is away. Or the commit got no answer.
pub async fn pause(pool: &PgPool, replay: i64, who: &Operator) -> Result<(), StoreError> {
    let mut transaction = pool.begin().await?;
    let running = replays::pause(&mut transaction, replay, &by_hand(who)).await?;
    operator_log::record_replay(&mut transaction, LetterAct::Pause, replay, who, &so_far(&running)).await?;
    crash_point(crash_points::BEFORE_PAUSE);
    transaction.commit().await?;
    crash_point(crash_points::AFTER_PAUSE);
    Ok(())
}

/// Lets a paused replay go on, in another manner where one is given.
///
/// # Errors
/// Nothing was done: there is none, it is not paused, `TooManyFailed`, or the database is away. Or the commit got no answer.
pub async fn resume(pool: &PgPool, replay: i64, manner: ReplayPace, who: &Operator) -> Result<(), ResumeError> {
    let mut transaction = pool.begin().await?;
    let going = replays::resume(&mut transaction, replay, manner).await?;
    if let Some(most) = going.max_failures.filter(|most| going.failed > *most) {
        // It would be paused again before anything is decided.
        transaction.rollback().await?;
        return Err(ResumeError::TooManyFailed { replay, failed: going.failed, most });
    }
    operator_log::record_replay(&mut transaction, LetterAct::Resume, replay, who, &so_far(&going)).await?;
    transaction.commit().await?;
    Ok(())
}

/// The outcome of a resumption that was not done.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The limit that paused the replay still holds.
    #[error("{failed} letters of replay {replay} have failed again, and {most} may; it goes on with a greater limit")]
    TooManyFailed { replay: i64, failed: i64, most: i64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for ResumeError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Gives a replay up, for the cause that `note` tells: letters that are not decided stay parked. Held events keep their own retry. The
/// selection of a replay that never ran is of no interest any more.
///
/// # Errors
/// Nothing was done: there is none, it has ended, or the database is away. Or the commit got no answer.
pub async fn stop(pool: &PgPool, replay: i64, who: &Operator, note: &str) -> Result<(), StoreError> {
    let mut transaction = pool.begin().await?;
    let going = replays::stop(&mut transaction, replay, note).await?;
    match going.state {
        ReplayState::Chosen => replays::forget_places(&mut transaction, replay).await?,
        ReplayState::Running | ReplayState::Paused | ReplayState::Stopped | ReplayState::Done => {}
    }
    operator_log::record_replay(&mut transaction, LetterAct::Stop, replay, who, &so_far(&going)).await?;
    transaction.commit().await?;
    Ok(())
}

/// The cause of what somebody does by hand.
#[must_use]
pub fn by_hand(who: &Operator) -> String {
    let (by, why) = (who.by(), who.why());
    if why.is_empty() { format!("by {by}") } else { format!("by {by} ({why})") }
}

fn so_far(replay: &Replay) -> String {
    format!("{} of {} letters decided", replay.decided, replay.letters)
}
