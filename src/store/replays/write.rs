//! The writing of `fis_replay` and `fis_replay_letter` by hand: a replay begins, its selection is frozen part by part, and its state is moved.
//! A state moves from where it was found under the row's lock, and not from anywhere else; letters are never touched here.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::super::column;
use super::super::dead_letters::{Filter, PARAMETERS};
use super::super::error::StoreError;
use super::super::letter_edits::StoredEdit;
use super::read::{COLUMNS, Replay, missing};
use super::step::ReplayTurn;
use crate::domain::letter::ReplayState;
use crate::domain::operator::Operator;

/// The manner in which a replay runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayPace {
    pub canary: bool,
    pub rate: Option<i32>,
    pub max_failures: Option<i64>,
}

/// Lets all statements of the transaction see the letters of one moment, and find them in their index, without exception.
///
/// # Errors
/// The database is away.
pub async fn begin_selection(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(
        "set transaction isolation level repeatable read;
         set local statement_timeout = '600s';
         set local enable_seqscan = off;
         set local jit = off",
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Inserts a replay without letters; returns its id.
///
/// # Errors
/// The database is away.
pub async fn insert(
    db: &mut PgConnection,
    who: &Operator,
    selection: &str,
    manner: ReplayPace,
    state: ReplayState,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "insert into fis_replay (by, why, selection, canary, rate, max_failures, state)
         values ($1, $2, $3, $4, $5, $6, $7)
      returning id",
    )
    .bind(who.by())
    .bind(who.why())
    .bind(selection)
    .bind(manner.canary)
    .bind(manner.rate)
    .bind(manner.max_failures)
    .bind(state)
    .fetch_one(db)
    .await
}

/// A border in a selection: everything up to this letter has its place.
#[derive(Debug, Clone, Default, sqlx::FromRow)]
pub struct Border {
    pub first_seen_at: DateTime<Utc>,
    pub id: String,
    /// The letters of the last part.
    pub letters: i64,
}

/// Gives places from `place` on to the next letters that the filter means, oldest first, behind the border and at most `most`. `None`:
/// there are no more.
///
/// # Errors
/// The database is away.
pub async fn freeze_part(
    db: &mut PgConnection,
    replay: i64,
    filter: &Filter,
    border: &Border,
    place: i64,
    most: i64,
) -> Result<Option<Border>, sqlx::Error> {
    // The text is put together from constants only.
    let next = format!(
        "with part as materialized (
             select id, first_seen_at, currency, amount
               from fis_dead_letter
              where {} and (first_seen_at, id) > (${}, ${})
              order by first_seen_at, id
              limit ${}),
         frozen as (
             insert into fis_replay_letter (replay_id, n, letter_id, currency, amount)
             select ${}, ${}::bigint + row_number() over (order by first_seen_at, id), id, currency, amount
               from part)
         select first_seen_at, id, (select count(*) from part) as letters
           from part
          order by first_seen_at desc, id desc
          limit 1",
        filter.condition(),
        PARAMETERS + 1,
        PARAMETERS + 2,
        PARAMETERS + 3,
        PARAMETERS + 4,
        PARAMETERS + 5,
    );
    let query = filter.bind(sqlx::query(&next)).bind(border.first_seen_at).bind(border.id.as_str());
    let last = query.bind(most).bind(replay).bind(place).fetch_optional(db).await?;
    last.as_ref().map(sqlx::FromRow::from_row).transpose()
}

/// Gives places to letters with their edited copies, in the order in which they are given.
///
/// # Errors
/// The database is away.
pub async fn freeze_edited(db: &mut PgConnection, replay: i64, edits: &[StoredEdit]) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into fis_replay_letter (replay_id, n, letter_id, edit_no)
         select $1, edit.n, edit.letter_id, edit.edit_no
           from unnest($2::text[], $3::integer[]) with ordinality as edit (letter_id, edit_no, n)",
    )
    .bind(replay)
    .bind(column!(edits, edit => edit.letter_id.as_str()))
    .bind(column!(edits, edit => edit.edit_no))
    .execute(db)
    .await?;
    Ok(())
}

/// Writes down how many letters were selected.
///
/// # Errors
/// The database is away.
pub async fn set_letters(db: &mut PgConnection, replay: i64, letters: i64) -> Result<(), sqlx::Error> {
    sqlx::query("update fis_replay set letters = $2 where id = $1").bind(replay).bind(letters).execute(db).await?;
    Ok(())
}

/// Gathers figures of the selections; without them the steps would be planned for a small table. Only the table's owner may.
///
/// # Errors
/// The database is away, or belongs to somebody else.
pub async fn analyze(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("analyze fis_replay_letter").execute(db).await?;
    Ok(())
}

/// The replay with its row locked, so that its state stays what it is until the commit.
///
/// # Errors
/// There is none, it is in none of these states, or the database is away.
async fn lock(db: &mut PgConnection, id: i64, states: &[ReplayState]) -> Result<Replay, StoreError> {
    let lock = format!("select {COLUMNS} from fis_replay where id = $1 for update");
    let replay: Option<Replay> = sqlx::query_as(&lock).bind(id).fetch_optional(db).await?;
    let replay = replay.ok_or_else(|| missing(id))?;
    match states.contains(&replay.state) {
        true => Ok(replay),
        false => Err(StoreError::ReplayIs { id, state: replay.state }),
    }
}

/// Lets the service take a replay that was chosen. Returns it as it was.
///
/// # Errors
/// There is none, it is not chosen, or the database is away.
pub async fn start(db: &mut PgConnection, id: i64) -> Result<Replay, StoreError> {
    let chosen = lock(&mut *db, id, &[ReplayState::Chosen]).await?;
    sqlx::query("update fis_replay set state = 'running' where id = $1").bind(id).execute(db).await?;
    Ok(chosen)
}

/// Halts a running replay. Returns it as it was.
///
/// # Errors
/// There is none, it does not run, or the database is away.
pub async fn pause(db: &mut PgConnection, id: i64, note: &str) -> Result<Replay, StoreError> {
    let running = lock(&mut *db, id, &[ReplayState::Running]).await?;
    let paused = sqlx::query("update fis_replay set state = 'paused', note = $2 where id = $1");
    paused.bind(id).bind(note).execute(db).await?;
    Ok(running)
}

/// Lets a paused replay go on in another manner. What the manner leaves open stays as it was. Returns the replay as it goes on.
///
/// # Errors
/// There is none, it is not paused, or the database is away.
pub async fn resume(db: &mut PgConnection, id: i64, manner: ReplayPace) -> Result<Replay, StoreError> {
    lock(&mut *db, id, &[ReplayState::Paused]).await?;
    let resumed = format!(
        "update fis_replay
            set state = 'running', note = null, deaths = 0, canary = canary or $2, rate = coalesce($3, rate),
                max_failures = coalesce($4, max_failures)
          where id = $1
      returning {COLUMNS}"
    );
    let resumed = sqlx::query_as(&resumed).bind(id).bind(manner.canary).bind(manner.rate).bind(manner.max_failures);
    Ok(resumed.fetch_one(db).await?)
}

/// Gives a replay up that has not ended. Returns it as it was.
///
/// # Errors
/// There is none, it has ended, or the database is away.
pub async fn stop(db: &mut PgConnection, id: i64, note: &str) -> Result<Replay, StoreError> {
    let going = lock(&mut *db, id, &[ReplayState::Chosen, ReplayState::Running, ReplayState::Paused]).await?;
    let stopped = sqlx::query("update fis_replay set state = 'stopped', note = $2, ended_at = now() where id = $1");
    stopped.bind(id).bind(note).execute(db).await?;
    Ok(going)
}

/// Removes the places of a selection.
///
/// # Errors
/// The database is away.
pub async fn forget_places(db: &mut PgConnection, replay: i64) -> Result<(), sqlx::Error> {
    sqlx::query("delete from fis_replay_letter where replay_id = $1").bind(replay).execute(db).await?;
    Ok(())
}

/// Removes the selections of replays that ended long ago and of which nothing is held any more; that there was one stays on record.
///
/// # Errors
/// The database is away.
pub async fn forget_selections(db: &mut PgConnection, older_than: DateTime<Utc>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "delete from fis_replay_letter l using fis_replay r
          where r.id = l.replay_id and r.ended_at < $1
            and not exists (select from fis_dead_letter d where d.replay_id = r.id and d.status = 'replaying')",
    )
    .bind(older_than)
    .execute(db)
    .await?;
    Ok(())
}

/// The verdicts of a step, counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct StepVerdicts {
    /// Places whose letters were decided, one way or the other.
    pub decided: i64,
    pub failed: i64,
    pub held: i64,
}

/// Moves the replay on behind a step. It is done with its last place, and paused where more failed than may, or where the canary may
/// only succeed later.
///
/// # Errors
/// The database is away.
pub async fn advance(db: &mut PgConnection, turn: &ReplayTurn, verdicts: StepVerdicts) -> Result<(), sqlx::Error> {
    let skipped = turn.to - turn.from - verdicts.decided;
    sqlx::query(
        "update fis_replay r
            set decided = least($2, letters), skipped = skipped + $3, failed = failed + $4, deaths = 0,
                state = case when $2 >= letters then 'done'
                             when failed + $4 > max_failures or $5 then 'paused'
                             else state end,
                note = case when $2 >= letters then null
                            when failed + $4 > max_failures then 'more than ' || max_failures || ' failed again'
                            when $5 then 'the canary is held and may succeed later'
                            else note end,
                ended_at = case when $2 >= letters then now() end
          where id = $1",
    )
    .bind(turn.replay_id)
    .bind(turn.to)
    .bind(skipped)
    .bind(verdicts.failed)
    .bind(turn.canary && verdicts.held > 0)
    .execute(db)
    .await?;
    Ok(())
}

/// Deaths without a step in between after which a replay is paused.
const DEATHS_MAX: i32 = 5;

/// Counts the death of the instance that followed the inbox. A replay that has not come on by a step through several deaths is paused: one of its
/// letters may be what ends the service, and nobody else is to suffer for it.
///
/// # Errors
/// The database is away.
pub async fn count_death(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update fis_replay
            set deaths = deaths + 1,
                state = case when deaths + 1 >= $1 then 'paused' else state end,
                note = case when deaths + 1 >= $1
                            then 'the service died ' || $1 || ' times at the letters behind place ' || decided else note end
          where state = 'running'",
    )
    .bind(DEATHS_MAX)
    .execute(db)
    .await?;
    Ok(())
}

/// Counts letters that were held and are rejected now, each for its replay.
///
/// # Errors
/// The database is away.
pub async fn count_failed(db: &mut PgConnection, replays: &[i64]) -> Result<(), sqlx::Error> {
    if replays.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update fis_replay r
            set failed = r.failed + news.failed
           from (select id, count(*) as failed from unnest($1::bigint[]) as news (id) group by id) news
          where r.id = news.id",
    )
    .bind(replays)
    .execute(db)
    .await?;
    Ok(())
}
