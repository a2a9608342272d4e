//! `fis_operator_log`: who did what to which letter, why, and through what. An operator enters as the signature of a transaction; the
//! triggers of the letters' tables write a line for everything that becomes of a letter. Lines of acts that are about no single letter are written
//! here. A line never changes.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::error::StoreError;
use crate::domain::letter::{LetterAct, LetterStatus};
use crate::domain::operator::Operator;

/// Lines of one letter beyond this are seldom of interest; the newest are read.
const HISTORY_MAX: i64 = 200;

/// Signs everything that this transaction moves. Without a signature it was the service itself.
///
/// # Errors
/// The database is away.
pub async fn sign(db: &mut PgConnection, who: &Operator) -> Result<(), sqlx::Error> {
    sqlx::query(
        "select set_config('fis.by', $1, true), set_config('fis.why', $2, true), set_config('fis.through', $3, true)",
    )
    .bind(who.by())
    .bind(who.why())
    .bind(who.through().as_str())
    .execute(db)
    .await?;
    Ok(())
}

/// Records what somebody did to a replay as a whole.
///
/// # Errors
/// The database is away.
pub async fn record_replay(
    db: &mut PgConnection,
    act: LetterAct,
    replay: i64,
    who: &Operator,
    detail: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into fis_operator_log (by, act, why, through, replay_id, detail) values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(who.by())
    .bind(act)
    .bind(who.why())
    .bind(who.through().as_str())
    .bind(replay)
    .bind(detail)
    .execute(db)
    .await?;
    Ok(())
}

/// Records an act that is about no letter and no replay.
///
/// # Errors
/// The database is away.
pub async fn record(db: &mut PgConnection, act: LetterAct, who: &Operator, detail: &str) -> Result<(), sqlx::Error> {
    sqlx::query("insert into fis_operator_log (by, act, why, through, detail) values ($1, $2, $3, $4, $5)")
        .bind(who.by())
        .bind(act)
        .bind(who.why())
        .bind(who.through().as_str())
        .bind(detail)
        .execute(db)
        .await?;
    Ok(())
}

/// One line of the operators' log.
#[derive(Debug, Clone, serde::Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    pub at: DateTime<Utc>,
    pub by: String,
    /// The database role that had logged in.
    pub login: String,
    pub act: LetterAct,
    pub why: String,
    pub from_status: Option<LetterStatus>,
    pub to_status: Option<LetterStatus>,
    pub replay_id: Option<i64>,
    pub reason: Option<String>,
    pub detail: String,
}

/// The past of a letter, oldest line first.
///
/// # Errors
/// The database is away.
pub async fn history(db: &mut PgConnection, letter: &str) -> Result<Vec<LogLine>, StoreError> {
    let mut lines: Vec<LogLine> = sqlx::query_as(
        "select at, by, login, act, why, from_status, to_status, replay_id, reason, detail
           from fis_operator_log where letter_id = $1 order by id desc limit $2",
    )
    .bind(letter)
    .bind(HISTORY_MAX)
    .fetch_all(db)
    .await?;
    lines.reverse();
    Ok(lines)
}

/// The reasons for which letters of a replay failed again, most frequent first, each with its count and one detail.
///
/// # Errors
/// The database is away.
pub async fn failures(db: &mut PgConnection, replay: i64) -> Result<Vec<(String, i64, String)>, StoreError> {
    let failures = sqlx::query_as(
        "select reason, count(*), min(detail) from fis_operator_log
          where replay_id = $1 and act = 'fail'
          group by reason order by 2 desc, 1",
    );
    Ok(failures.bind(replay).fetch_all(db).await?)
}
