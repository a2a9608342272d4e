//! The writing of `fis_replay` and `fis_replay_letter`: a replay begins, its selection is frozen part by part, its places are sent or skipped,
//! and it ends. `send` is the one statement that writes letters, places and the outbox together.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::super::column;
use super::super::dead_letters::{Filter, PARAMETERS};
use super::super::letter_edits::StoredEdit;
use crate::domain::letter::ReplayState;
use crate::domain::operator::Operator;

/// The manner in which a replay is sent.
#[derive(Debug, Clone, Copy, Default)]
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
    let counted = sqlx::query("update fis_replay set letters = $2 where id = $1");
    counted.bind(replay).bind(letters).execute(db).await?;
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

/// Moves a replay into a state; one that is done or cancelled has ended.
///
/// # Errors
/// The database is away.
pub async fn set_state(db: &mut PgConnection, replay: i64, state: ReplayState) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update fis_replay set state = $2, ended_at = case when $2 in ('done', 'cancelled') then now() end where id = $1",
    )
    .bind(replay)
    .bind(state)
    .execute(db)
    .await?;
    Ok(())
}

/// Removes the places that wait.
///
/// # Errors
/// The database is away.
pub async fn forget_waiting(db: &mut PgConnection, replay: i64) -> Result<(), sqlx::Error> {
    sqlx::query("delete from fis_replay_letter where replay_id = $1 and state = 'waiting'")
        .bind(replay)
        .execute(db)
        .await?;
    Ok(())
}

/// Skips the places that wait, so that a command that still feeds the replay finds nothing more to send.
///
/// # Errors
/// The database is away.
pub async fn skip_waiting(db: &mut PgConnection, replay: i64) -> Result<(), sqlx::Error> {
    sqlx::query("update fis_replay_letter set state = 'skipped' where replay_id = $1 and state = 'waiting'")
        .bind(replay)
        .execute(db)
        .await?;
    Ok(())
}

/// Removes the selections of replays that ended long ago and of which everything was heard; that there was one stays on record.
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

/// A letter that is sent, and the message that carries it.
#[derive(Debug)]
pub struct Sending {
    pub n: i64,
    pub letter_id: String,
    pub edit_no: Option<i32>,
    pub properties: String,
    pub message_id: String,
}

/// Moves the letters, marks their places and puts their messages into the outbox: one statement, each letter found once. The bodies never
/// leave the database.
///
/// # Errors
/// The database is away.
pub async fn send(
    db: &mut PgConnection,
    replay: i64,
    sent: &[Sending],
    skipped: &[i64],
    exchange: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with sent as (
             select *
               from unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::integer[])
                 as s (id, n, properties, message_id, edit_no)),
         moved as (
             update fis_dead_letter d
                set status = 'replaying', replay_id = $1
               from sent s
              where d.id = s.id
          returning d.id, d.tenant_id, d.routing_key, d.body, s.n, s.properties, s.message_id as sent_id, s.edit_no),
         place (n, state) as (
             select n, 'sent' from sent
              union all
             select unnest($7::bigint[]), 'skipped'),
         marked as (
             update fis_replay_letter r
                set state = place.state
               from place
              where r.replay_id = $1 and r.n = place.n
                -- Another command that feeds the same replay may have sent it meanwhile.
                and r.state = 'waiting')
         insert into fis_outbox (tenant_id, exchange, routing_key, message_id, properties, body, due_at)
         select m.tenant_id, $8, m.routing_key, m.sent_id, m.properties, coalesce(e.body, m.body), now()
           from moved m
           left join fis_dead_letter_edit e on e.letter_id = m.id and e.edit_no = m.edit_no
          order by m.n",
    )
    .bind(replay)
    .bind(column!(sent, one => one.letter_id.as_str()))
    .bind(column!(sent, one => one.n))
    .bind(column!(sent, one => one.properties.as_str()))
    .bind(column!(sent, one => one.message_id.as_str()))
    .bind(column!(sent, one => one.edit_no))
    .bind(skipped)
    .bind(exchange)
    .execute(db)
    .await?;
    Ok(())
}

/// Takes messages back that have not left yet.
///
/// # Errors
/// The database is away.
pub async fn withdraw(db: &mut PgConnection, message_ids: &[String]) -> Result<(), sqlx::Error> {
    sqlx::query("delete from fis_outbox where due_at is not null and message_id = any($1)")
        .bind(message_ids)
        .execute(db)
        .await?;
    Ok(())
}
