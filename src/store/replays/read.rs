//! The reading of replays: which there are, and how far each is. Nothing here changes a row.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use sqlx::PgConnection;

use super::super::error::StoreError;
use crate::domain::letter::ReplayState;

/// A frozen selection, and how far the service is with it.
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
    /// The cause of a pause or a stop.
    pub note: Option<String>,
    pub decided: i64,
    pub skipped: i64,
    pub failed: i64,
    pub created_at: DateTime<Utc>,
}

pub(super) const COLUMNS: &str =
    "id, by, why, selection, letters, canary, rate, max_failures, state, note, decided, skipped, failed, created_at";

/// The replay with this id.
///
/// # Errors
/// There is none, or the database is away.
pub async fn find(db: &mut PgConnection, id: i64) -> Result<Replay, StoreError> {
    let one = format!("select {COLUMNS} from fis_replay where id = $1");
    let replay = sqlx::query_as(&one).bind(id).fetch_optional(db).await?;
    replay.ok_or_else(|| missing(id))
}

pub(super) fn missing(id: i64) -> StoreError {
    StoreError::NotFound { what: "replay", name: id.to_string() }
}

/// A replay in a list.
#[derive(Debug, Clone, serde::Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct ReplayLine {
    #[serde(rename = "replayId")]
    pub id: i64,
    pub created_at: DateTime<Utc>,
    pub by: String,
    pub why: String,
    pub selection: String,
    pub state: ReplayState,
    pub note: Option<String>,
    pub letters: i64,
    pub decided: i64,
    pub left: i64,
    pub skipped: i64,
    pub failed: i64,
    pub held: i64,
}

/// The newest replays first.
///
/// # Errors
/// The database is away.
pub async fn newest(db: &mut PgConnection, limit: i64) -> Result<Vec<ReplayLine>, StoreError> {
    let lines = sqlx::query_as(
        "select r.id, r.created_at, r.by, r.why, r.selection, r.state, r.note, r.letters, r.decided, r.letters - r.decided as left,
                r.skipped, r.failed,
                (select count(*) from fis_dead_letter d where d.replay_id = r.id and d.status = 'replaying') as held
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

/// The progress of a replay. Every number is read from the tables, so that it is true after a crash too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    pub selected: i64,
    /// Not decided yet; they are still parked.
    pub left: i64,
    pub decided: i64,
    /// Not parked any more when their turn came: somebody else has replayed or discarded them, or they are resolved.
    pub skipped: i64,
    /// In the books, ignored by a rule, or found to be there already.
    pub resolved: i64,
    /// Parked again, with the new reason.
    pub failed: i64,
    /// May succeed later, and will be tried again without anybody's help.
    pub held: i64,
}

/// A replay as somebody who watches sees it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Watched {
    pub state: ReplayState,
    /// The cause of a pause or a stop.
    pub note: Option<String>,
    pub max_failures: Option<i64>,
    #[sqlx(flatten)]
    pub progress: Progress,
}

/// The state and the progress of a replay at one moment. Only what is held is counted, by its index: asking costs as little at the end of a
/// long replay as at its beginning.
///
/// # Errors
/// There is no such replay, or the database is away.
pub async fn progress(db: &mut PgConnection, id: i64) -> Result<Watched, StoreError> {
    let seen = sqlx::query_as(
        "select state, note, max_failures, letters as selected, letters - decided as left, decided, skipped,
                decided - skipped - failed - held as resolved, failed, held
           from fis_replay r
          cross join lateral (select count(*) as held
                                from fis_dead_letter d where d.replay_id = r.id and d.status = 'replaying') h
          where r.id = $1",
    );
    let seen: Option<Watched> = seen.bind(id).fetch_optional(db).await?;
    seen.ok_or_else(|| missing(id))
}
