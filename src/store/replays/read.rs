//! The reading of replays: which there are, how far each is, and the places whose turn has come. Nothing here changes a row.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use sqlx::{PgConnection, Row};

use super::super::error::StoreError;
use crate::domain::letter::{LetterStatus, ReplayState};

/// A frozen selection.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Replay {
    pub id: i64,
    pub by: String,
    pub why: String,
    pub selection: String,
    pub letters: i64,
    pub canary: bool,
    pub rate: Option<i32>,
    pub max_failures: Option<i64>,
    pub state: ReplayState,
    pub created_at: DateTime<Utc>,
}

/// The replay with this id.
///
/// # Errors
/// There is none, or the database is away.
pub async fn find(db: &mut PgConnection, id: i64) -> Result<Replay, StoreError> {
    let replay = sqlx::query_as(
        "select id, by, why, selection, letters, canary, rate, max_failures, state, created_at from fis_replay where id = $1",
    );
    let replay = replay.bind(id).fetch_optional(db).await?;
    replay.ok_or_else(|| StoreError::NotFound { what: "replay", name: id.to_string() })
}

/// A replay in a list.
#[derive(Debug, Clone, serde::Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct ReplayLine {
    pub id: i64,
    pub created_at: DateTime<Utc>,
    pub by: String,
    pub why: String,
    pub selection: String,
    pub state: ReplayState,
    pub letters: i64,
    pub left: i64,
    pub replaying: i64,
}

/// The newest replays first.
///
/// # Errors
/// The database is away.
pub async fn newest(db: &mut PgConnection, limit: i64) -> Result<Vec<ReplayLine>, StoreError> {
    let lines = sqlx::query_as(
        "select r.id, r.created_at, r.by, r.why, r.selection, r.state, r.letters,
                (select count(*) from fis_replay_letter l where l.replay_id = r.id and l.state = 'waiting') as left,
                (select count(*) from fis_dead_letter d where d.replay_id = r.id and d.status = 'replaying') as replaying
           from fis_replay r order by r.id desc limit $1",
    );
    Ok(lines.bind(limit).fetch_all(db).await?)
}

/// The money of a selection by currency; `None` is what names none.
///
/// # Errors
/// The database is away.
pub async fn money(
    db: &mut PgConnection,
    replay: i64,
) -> Result<Vec<(Option<String>, i64, Option<Decimal>)>, StoreError> {
    let money = sqlx::query_as(
        "select currency, count(*), sum(amount)
           from fis_replay_letter
          where replay_id = $1
          group by currency
          order by currency nulls last",
    );
    Ok(money.bind(replay).fetch_all(db).await?)
}

/// A place whose turn has come.
#[derive(Debug)]
pub struct Turn {
    pub n: i64,
    pub letter_id: String,
    /// The edited copy to send instead of the original.
    pub edit_no: Option<i32>,
    /// The letter, locked; `None`: it is not there any more, or somebody moves it this very moment.
    pub letter: Option<TurnLetter>,
}

/// The letter of a place, as far as its message is made from it.
#[derive(Debug)]
pub struct TurnLetter {
    pub status: LetterStatus,
    pub properties: String,
    pub message_id: Option<String>,
}

/// The next places that wait, at most `most`, with their letters locked. Never waits for a letter: whoever holds it is about to move it.
///
/// # Errors
/// The database is away.
pub async fn lock_turns(db: &mut PgConnection, replay: i64, most: i64) -> Result<Vec<Turn>, sqlx::Error> {
    let rows = sqlx::query(
        "with turn as materialized (
             select n, edit_no, letter_id
               from fis_replay_letter
              where replay_id = $1 and state = 'waiting'
              order by replay_id, n
              limit $2),
         letter as materialized (
             select turn.n, d.id, d.status, d.properties, d.message_id
               from turn
               join fis_dead_letter d on d.id = turn.letter_id
              order by turn.n
                for update of d skip locked)
         select n, turn.edit_no, turn.letter_id, letter.status, letter.properties, letter.message_id
           from turn
           left join letter using (n)
          order by n",
    )
    .bind(replay)
    .bind(most)
    .fetch_all(db)
    .await?;
    let turn = |row: &sqlx::postgres::PgRow| {
        let letter = match row.try_get("status")? {
            Some(status) => Some(TurnLetter {
                status,
                properties: row.try_get("properties")?,
                message_id: row.try_get("message_id")?,
            }),
            None => None,
        };
        Ok(Turn {
            n: row.try_get("n")?,
            letter_id: row.try_get("letter_id")?,
            edit_no: row.try_get("edit_no")?,
            letter,
        })
    };
    rows.iter().map(turn).collect()
}

/// The places of a replay by state.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct Places {
    pub selected: i64,
    pub waiting: i64,
    pub sent: i64,
}

/// The places of a replay, counted.
///
/// # Errors
/// The database is away.
pub async fn places(db: &mut PgConnection, replay: i64) -> Result<Places, sqlx::Error> {
    sqlx::query_as(
        "select count(*) as selected, count(*) filter (where state = 'waiting') as waiting,
                count(*) filter (where state = 'sent') as sent
           from fis_replay_letter where replay_id = $1",
    )
    .bind(replay)
    .fetch_one(db)
    .await
}

/// The letters of a replay that are not resolved.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct Unresolved {
    pub replaying: i64,
    /// Parked again.
    pub failed: i64,
    /// On their way, with their event held.
    pub held: i64,
}

/// The letters of a replay that are on their way, failed or held, counted. Resolved ones are never counted: asking costs as little at the
/// end of a long replay as at its beginning.
///
/// # Errors
/// The database is away.
pub async fn unresolved(db: &mut PgConnection, replay: i64) -> Result<Unresolved, sqlx::Error> {
    // Mostly nothing is held, for nobody.
    sqlx::query_as(
        "select (select count(*) from fis_dead_letter where replay_id = $1 and status = 'replaying') as replaying,
                (select count(*) from fis_operator_log
                  where replay_id = $1 and from_status = 'replaying' and to_status = 'parked') as failed,
                case when exists (select from fis_held)
                     then (select count(*) from fis_held h
                             join fis_dead_letter d on d.tenant_id = h.tenant_id and d.event_id = h.event_id
                            where d.replay_id = $1 and d.status = 'replaying')
                     else 0 end as held",
    )
    .bind(replay)
    .fetch_one(db)
    .await
}
