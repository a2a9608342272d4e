//! Replaying. A selection is frozen once (`selection`), then fed in steps (`step`); each step is one transaction that moves letters
//! from parked to replaying and writes the outbox rows that carry them back. Whether a letter is sent is decided by its
//! own state under its own lock, so two admins cannot double it, and a crash leaves every state true.

use sqlx::{PgConnection, PgPool};

use super::letter::fresh;
use crate::domain::letter::{LetterStatus, ReplayState};
use crate::domain::names::{BACKFILL_EXCHANGE, EDIT_HEADER, LETTER_HEADER, MESSAGE_ID_HEADER};
use crate::domain::operator::Operator;
use crate::platform::faults::{self, crash_point};
use crate::store::replays::{self, Sending, Turn, TurnLetter};
use crate::store::{StoreError, dead_letters, operator_log};

/// Moves a replay into a state. The selection of one that is cancelled before anything of it was sent is of no interest any more.
///
/// # Errors
/// The database is away.
pub async fn set_state(pool: &PgPool, replay: i64, state: ReplayState) -> Result<(), StoreError> {
    let mut db = pool.acquire().await?;
    replays::set_state(&mut db, replay, state).await?;
    match state {
        ReplayState::Cancelled => replays::forget_waiting(&mut db, replay).await?,
        ReplayState::Chosen | ReplayState::Open | ReplayState::Done => {}
    }
    Ok(())
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayStep {
    pub sent: i64,
    /// Not parked any more when their turn came: somebody else has replayed or discarded them, or they are resolved.
    pub skipped: i64,
    /// Locked by somebody this very moment; they wait for the next step.
    pub busy: i64,
}

/// Sends the next letters of a selection, at most `most` of them, in one transaction.
///
/// # Errors
/// Nothing was sent by this step; or its commit got no answer, which the next step finds out.
pub async fn step(pool: &PgPool, replay: i64, who: &Operator, most: i64) -> Result<ReplayStep, StoreError> {
    let mut transaction = pool.begin().await?;
    operator_log::sign(&mut transaction, who).await?;
    let done = send_next(&mut transaction, replay, most).await?;
    crash_point(faults::BEFORE_REPLAY);
    transaction.commit().await?;
    crash_point(faults::AFTER_REPLAY);
    Ok(done)
}

/// Sends the next letters inside the caller's transaction.
pub(super) async fn send_next(db: &mut PgConnection, replay: i64, most: i64) -> Result<ReplayStep, sqlx::Error> {
    let turns = replays::lock_turns(&mut *db, replay, most).await?;
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let all = count(turns.len());
    let (mut sent, mut skipped, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for turn in turns {
        match &turn.letter {
            Some(letter) => match letter.status {
                LetterStatus::Parked => sent.push(sending(replay, &turn, letter)),
                LetterStatus::Replaying | LetterStatus::Resolved | LetterStatus::Discarded => skipped.push(turn.n),
            },
            None => missing.push(turn),
        }
    }
    if !missing.is_empty() {
        // The others of them are locked by somebody.
        let places: Vec<i64> = missing.iter().map(|turn| turn.n).collect();
        let ids: Vec<&str> = missing.iter().map(|turn| turn.letter_id.as_str()).collect();
        skipped.extend(dead_letters::removed(&mut *db, &places, &ids).await?);
    }
    replays::send(db, replay, &sent, &skipped, BACKFILL_EXCHANGE).await?;
    let (sent, skipped) = (count(sent.len()), count(skipped.len()));
    Ok(ReplayStep { sent, skipped, busy: all - sent - skipped })
}

/// The message that carries a letter back.
fn sending(replay: i64, turn: &Turn, letter: &TurnLetter) -> Sending {
    let mut properties = fresh(&letter.properties).with_header(LETTER_HEADER, &turn.letter_id);
    if let Some(original) = &letter.message_id {
        properties = properties.with_header(MESSAGE_ID_HEADER, original);
    }
    if let Some(edit) = turn.edit_no {
        properties = properties.with_number(EDIT_HEADER, i64::from(edit));
    }
    Sending {
        n: turn.n,
        letter_id: turn.letter_id.clone(),
        edit_no: turn.edit_no,
        properties: properties.to_text(),
        message_id: message_id(replay, &turn.letter_id),
    }
}

/// The message id of a letter's replay: a letter is sent once in a replay.
pub(super) fn message_id(replay: i64, letter: &str) -> String {
    format!("replay/{replay}/{letter}")
}
