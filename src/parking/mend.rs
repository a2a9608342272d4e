//! Mending: an edited copy beside the untouched original, a letter given up for good, and retention. Every act is one
//! transaction and signed; nothing but retention ever deletes, and retention only what is settled.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool, Row};

use super::filter::Filter;
use super::replay::{Manner, Replay, Step, find, send_next, sign};
use crate::domain::dead_letter::dead_letter_id;
use crate::domain::operator::Operator;
use crate::platform::amqp::Properties;
use crate::platform::faults::{self, crash_point};

/// The content id that a message with this body would have: routing key, identifying headers and body.
#[must_use]
pub fn copy_id(routing_key: &str, properties: &str, body: &[u8]) -> String {
    let properties = Properties::from_text(properties);
    let headers = properties.headers_starting("cloudEvents").chain(properties.headers_starting("x-fis-tenant"));
    dead_letter_id(routing_key, headers, body)
}

/// An edited body for a letter.
pub struct Edit {
    pub letter_id: String,
    pub copy_id: String,
    pub body: Vec<u8>,
}

/// Stores the copies and sends them instead of their originals, in one transaction: either copy is sent, never both. A letter
/// that is not parked any more is skipped.
///
/// # Errors
/// Nothing was stored and nothing sent.
pub async fn edit(pool: &PgPool, edits: &[Edit], who: &Operator) -> Result<(Replay, Step), sqlx::Error> {
    let mut transaction = pool.begin().await?;
    sign(&mut transaction, who).await?;
    let replay = insert_edits(&mut transaction, edits, who).await?;
    let count = i64::try_from(edits.len()).unwrap_or(i64::MAX);
    let step = send_next(&mut transaction, replay.id, count).await?;
    if step.busy > 0 {
        // Somebody moves one of them this very moment: do nothing by halves.
        transaction.rollback().await?;
        return Err(sqlx::Error::RowNotFound);
    }
    sqlx::query("update fis_replay set state = 'done', ended_at = now() where id = $1")
        .bind(replay.id)
        .execute(&mut *transaction)
        .await?;
    crash_point(faults::BEFORE_EDIT);
    transaction.commit().await?;
    crash_point(faults::AFTER_EDIT);
    Ok((replay, step))
}

async fn insert_edits(db: &mut PgConnection, edits: &[Edit], who: &Operator) -> Result<Replay, sqlx::Error> {
    let manner = Manner { canary: false, rate: None, max_failures: None };
    let id: i64 = sqlx::query_scalar(
        "insert into fis_replay (by, why, selection, canary, letters, state) values ($1, $2, $3, $4, $5, 'open') returning id",
    )
    .bind(who.by())
    .bind(who.why())
    .bind(format!("{} edited", edits.len()))
    .bind(manner.canary)
    .bind(i64::try_from(edits.len()).unwrap_or(i64::MAX))
    .fetch_one(&mut *db)
    .await?;
    // Both only of what is parked now, so that the record has no edit that never left.
    sqlx::query(
        "with parked as (select l.id, l.copy_id, l.body, l.n
                           from unnest($1::text[], $2::text[], $3::bytea[]) with ordinality as l (id, copy_id, body, n)
                           join fis_dead_letter d on d.id = l.id
                          where d.status = 'parked'
                          order by d.id
                            for update of d),
              stored as (insert into fis_dead_letter_edit (letter_id, edit_no, copy_id, body, edited_by, why)
                         select p.id, 1 + coalesce((select max(e.edit_no) from fis_dead_letter_edit e where e.letter_id = p.id), 0),
                                p.copy_id, p.body, $4, $5
                           from parked p
                      returning letter_id, edit_no),
              logged as (insert into fis_operator_log (by, act, why, letter_id, replay_id, detail)
                         select $4, 'edit', $5, letter_id, $6, 'edit ' || edit_no from stored)
         insert into fis_replay_letter (replay_id, n, letter_id, edit_no)
         select $6, row_number() over (order by p.n), s.letter_id, s.edit_no
           from stored s
           join parked p on p.id = s.letter_id",
    )
    .bind(edits.iter().map(|edit| edit.letter_id.as_str()).collect::<Vec<_>>())
    .bind(edits.iter().map(|edit| edit.copy_id.as_str()).collect::<Vec<_>>())
    .bind(edits.iter().map(|edit| edit.body.as_slice()).collect::<Vec<_>>())
    .bind(who.by())
    .bind(who.why())
    .bind(id)
    .execute(&mut *db)
    .await?;
    find(db, id).await?.ok_or(sqlx::Error::RowNotFound)
}

/// An edited copy of a letter.
#[derive(Debug, Clone, serde::Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct EditLine {
    pub edit_no: i32,
    pub copy_id: String,
    pub edited_by: String,
    pub why: String,
    pub edited_at: DateTime<Utc>,
    #[serde(skip)]
    pub body: Vec<u8>,
}

/// # Errors
/// The database is away.
pub async fn edits(db: &mut PgConnection, letter: &str) -> Result<Vec<EditLine>, sqlx::Error> {
    sqlx::query_as(
        "select edit_no, copy_id, edited_by, why, edited_at, body from fis_dead_letter_edit where letter_id = $1 order by edit_no",
    )
    .bind(letter)
    .fetch_all(db)
    .await
}

/// Letters that one statement discards.
const DISCARD_STEP: usize = 1_000;

/// Discards what the filter means, in one transaction, if it is exactly `expected` letters: what was shown is what is discarded.
///
/// # Errors
/// The database is away.
pub async fn discard(
    pool: &PgPool,
    filter: &Filter,
    who: &Operator,
    expected: i64,
    now: DateTime<Utc>,
) -> Result<Option<u64>, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    sign(&mut transaction, who).await?;
    // The text is put together from constants only.
    let lock =
        format!("select id from fis_dead_letter where {} order by id for update skip locked", filter.condition());
    let rows = filter.bind(sqlx::query(&lock)).fetch_all(&mut *transaction).await?;
    let ids = rows.iter().map(|row| row.try_get("id")).collect::<Result<Vec<String>, _>>()?;
    if i64::try_from(ids.len()) != Ok(expected) {
        transaction.rollback().await?;
        return Ok(None);
    }
    let mut discarded = 0;
    // In parts, so that no statement runs into its limit; in one transaction, so that all of them go or none.
    for part in ids.chunks(DISCARD_STEP) {
        let step = sqlx::query("update fis_dead_letter set status = 'discarded', settled_at = $2 where id = any($1)")
            .bind(part)
            .bind(now)
            .execute(&mut *transaction)
            .await?;
        discarded += step.rows_affected();
    }
    crash_point(faults::BEFORE_DISCARD);
    transaction.commit().await?;
    crash_point(faults::AFTER_DISCARD);
    Ok(Some(discarded))
}

/// Rows that one statement of the retention removes, so that none runs into a limit.
const PRUNE_STEP: i64 = 10_000;

/// Removes letters that were resolved or discarded before `older_than`, and says so in the log.
///
/// # Errors
/// What was removed until then stays removed, and is in the log.
pub async fn prune(pool: &PgPool, older_than: DateTime<Utc>, who: &Operator) -> Result<u64, sqlx::Error> {
    let mut pruned = 0;
    loop {
        let mut transaction = pool.begin().await?;
        // What was discarded stays counted as that, without its row.
        let step: i64 = sqlx::query_scalar(
            "with gone as (
                 delete from fis_dead_letter
                  where id in (select id from fis_dead_letter
                                where status in ('resolved', 'discarded') and settled_at < $1
                                order by settled_at limit $2 for update skip locked)
              returning tenant_id, received_on, status, currency, amount),
             moved as (
                 insert into fis_received as r (tenant_id, received_on, outcome, currency, events, amount)
                 select *
                   from (select g.tenant_id, g.received_on, m.outcome, coalesce(g.currency, '') as currency,
                                sum(m.sign), sum(m.sign * coalesce(g.amount, 0))
                           from gone g
                          cross join (values ('parked', -1), ('discarded', 1)) as m (outcome, sign)
                          where g.status = 'discarded' and g.tenant_id is not null and g.received_on is not null
                          group by 1, 2, 3, 4) moves
                  order by tenant_id collate \"C\", received_on, outcome collate \"C\", currency collate \"C\"
                     on conflict (tenant_id, received_on, outcome, currency)
                     do update set events = r.events + excluded.events, amount = r.amount + excluded.amount)
             select count(*) from gone",
        )
        .bind(older_than)
        .bind(PRUNE_STEP)
        .fetch_one(&mut *transaction)
        .await?;
        if step == 0 {
            transaction.rollback().await?;
            forget_selections(pool, older_than).await?;
            return Ok(pruned);
        }
        sqlx::query("insert into fis_operator_log (by, act, why, detail) values ($1, 'prune', $2, $3)")
            .bind(who.by())
            .bind(who.why())
            .bind(format!("{step} letters settled before {}", older_than.to_rfc3339()))
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        pruned += u64::try_from(step).unwrap_or_default();
    }
}

/// Which letters a replay of long ago had selected; that there was one stays on record.
async fn forget_selections(pool: &PgPool, older_than: DateTime<Utc>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "delete from fis_replay_letter l using fis_replay r
          where r.id = l.replay_id and r.ended_at < $1
            and not exists (select from fis_dead_letter d where d.replay_id = r.id and d.status = 'replaying')",
    )
    .bind(older_than)
    .execute(pool)
    .await?;
    Ok(())
}

/// Settled letters that retention would remove.
///
/// # Errors
/// The database is away.
pub async fn prunable(db: &mut PgConnection, older_than: DateTime<Utc>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*) from fis_dead_letter where status in ('resolved', 'discarded') and settled_at < $1",
    )
    .bind(older_than)
    .fetch_one(db)
    .await
}
