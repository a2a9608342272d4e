//! A replay while it runs: the next places of its selection leave with the messages behind them. A step that was overtaken finds the
//! replay elsewhere, and moves nothing; the others move it on (`write`), in the transaction that decides their letters.

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{PgConnection, Row};

use crate::domain::operator::{Operator, Through};
use crate::faults::mutants::{self, mutant};
use crate::store::held::LetterCopy;
use crate::store::operator_log;

/// A replay that runs.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct RunningReplay {
    pub id: i64,
    pub by: String,
    pub why: String,
    pub letters: i64,
    pub canary: bool,
    pub rate: Option<i32>,
    /// Every place up to this one is decided.
    pub decided: i64,
    pub skipped: i64,
}

/// The replays that run, oldest first.
///
/// # Errors
/// The database is away.
pub async fn running(db: &mut PgConnection) -> Result<Vec<RunningReplay>, sqlx::Error> {
    sqlx::query_as(
        "select id, by, why, letters, canary, rate, decided, skipped from fis_replay where state = 'running' order by id",
    )
    .fetch_all(db)
    .await
}

/// The message of a place whose turn has come: its letter's, or that of the edited copy.
#[derive(Debug)]
pub struct PlaceMessage {
    pub n: i64,
    pub copy: LetterCopy,
    pub routing_key: String,
    pub properties: String,
    pub body: Vec<u8>,
    pub lane: String,
    pub first_seen_at: DateTime<Utc>,
    pub received_on: Option<NaiveDate>,
}

/// The next places of a selection: those whose letters are parked, and the last place that was looked at.
#[derive(Debug)]
pub struct Places {
    pub messages: Vec<PlaceMessage>,
    pub to: i64,
}

/// Reads the places behind `after`, at most `most` of them and as many as fit into `bytes`, but one at least.
///
/// # Errors
/// The database is away.
pub async fn places(
    db: &mut PgConnection,
    replay: i64,
    after: i64,
    most: i64,
    bytes: i64,
) -> Result<Places, sqlx::Error> {
    let rows = sqlx::query(
        "select n, letter_id, edit_no, routing_key, properties, body, lane, first_seen_at, received_on
           from (select l.n, l.letter_id, l.edit_no, d.routing_key, d.properties, coalesce(e.body, d.body) as body, d.lane,
                        d.first_seen_at, d.received_on,
                        sum(coalesce(octet_length(e.body), octet_length(d.body), 0) + coalesce(octet_length(d.properties), 0))
                            over (order by l.n) as bytes
                   from (select n, letter_id, edit_no
                           from fis_replay_letter
                          where replay_id = $1 and n > $2
                          order by replay_id, n
                          limit $3) l
                   left join fis_dead_letter d on d.id = l.letter_id and d.status = 'parked'
                   left join fis_dead_letter_edit e on e.letter_id = l.letter_id and e.edit_no = l.edit_no) place
          where n = $2 + 1 or bytes <= $4
          order by n",
    )
    .bind(replay)
    .bind(after)
    .bind(most)
    .bind(bytes)
    .fetch_all(db)
    .await?;
    let (mut messages, mut to) = (Vec::with_capacity(rows.len()), after);
    for row in &rows {
        to = row.try_get("n")?;
        // Its letter is not parked any more, or gone.
        let Some(routing_key) = row.try_get("routing_key")? else { continue };
        messages.push(PlaceMessage {
            n: to,
            copy: LetterCopy { letter_id: row.try_get("letter_id")?, edit_no: row.try_get("edit_no")? },
            routing_key,
            properties: row.try_get("properties")?,
            body: row.try_get("body")?,
            lane: row.try_get("lane")?,
            first_seen_at: row.try_get("first_seen_at")?,
            received_on: row.try_get("received_on")?,
        });
    }
    Ok(Places { messages, to })
}

/// A step of a replay: the places behind `from`, up to `to`.
#[derive(Debug, Clone)]
pub struct ReplayTurn {
    pub replay_id: i64,
    pub by: String,
    pub why: String,
    pub from: i64,
    pub to: i64,
    /// The step is one of the canary's first.
    pub canary: bool,
}

/// Signs the transaction with the replay's operator.
///
/// # Errors
/// The database is away.
pub async fn sign(db: &mut PgConnection, turn: &ReplayTurn) -> Result<(), sqlx::Error> {
    match Operator::new(&turn.by, &turn.why, Through::Service) {
        Ok(operator) => operator_log::sign(db, &operator).await,
        // The row was written by somebody else than fis; then it was the service itself.
        Err(_) => Ok(()),
    }
}

/// Has the locks of this transaction waited for but a moment. Whoever holds letters before the heads must not keep those waiting who hold
/// the heads and want the letters.
///
/// # Errors
/// The database is away.
pub async fn wait_briefly(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("set local lock_timeout = '250ms'").execute(db).await?;
    Ok(())
}

/// Takes the turn: the replay is locked where the step believes it to be. False: it is paused or stopped, or somebody else has gone on with it.
///
/// # Errors
/// The database is away.
pub async fn take_turn(db: &mut PgConnection, turn: &ReplayTurn) -> Result<bool, sqlx::Error> {
    if mutant(mutants::LEASE_IGNORED) {
        return Ok(true);
    }
    let found: Option<i32> =
        sqlx::query_scalar("select 1 from fis_replay where id = $1 and state = 'running' and decided = $2 for update")
            .bind(turn.replay_id)
            .bind(turn.from)
            .fetch_optional(db)
            .await?;
    Ok(found.is_some())
}
