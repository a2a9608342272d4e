//! Selections: what a filter means at one moment, written down letter by letter, so that a replay sends that and nothing else. A
//! filter enters, a frozen replay leaves. Nothing is sent here, and no letter is changed.

use std::time::Instant;

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use sqlx::{PgConnection, PgPool};

use super::filter::{Filter, PARAMETERS};
use super::replay::{Manner, Replay, find};
use crate::domain::operator::Operator;

/// Letters that are written down at once: some ten milliseconds, and as long a pause, so that a large selection takes the live lane
/// no processor for seconds.
const PART: i64 = 5_000;

/// Freezes what the filter means now, oldest first.
///
/// # Errors
/// The database is away.
pub async fn choose(pool: &PgPool, filter: &Filter, who: &Operator, manner: Manner) -> Result<Replay, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    // All parts see the letters of one moment. The letters are found in their index, without exception.
    sqlx::raw_sql(
        "set transaction isolation level repeatable read;
         set local statement_timeout = '600s';
         set local enable_seqscan = off;
         set local jit = off",
    )
    .execute(&mut *transaction)
    .await?;
    let id: i64 = sqlx::query_scalar(
        "insert into fis_replay (by, why, selection, canary, rate, max_failures) values ($1, $2, $3, $4, $5, $6) returning id",
    )
    .bind(who.by())
    .bind(who.why())
    .bind(filter.words())
    .bind(manner.canary)
    .bind(manner.rate)
    .bind(manner.max_failures)
    .fetch_one(&mut *transaction)
    .await?;
    let letters = freeze(&mut transaction, filter, id).await?;
    sqlx::query("update fis_replay set letters = $2 where id = $1")
        .bind(id)
        .bind(letters)
        .execute(&mut *transaction)
        .await?;
    let replay = find(&mut transaction, id).await?.ok_or(sqlx::Error::RowNotFound)?;
    transaction.commit().await?;
    // Without figures of it the steps would be planned for a small table. Only its owner may; it is not worth a failure.
    let _ = sqlx::query("analyze fis_replay_letter").execute(pool).await;
    Ok(replay)
}

/// Part by part, each behind the last letter of the one before; returns how many letters there are.
async fn freeze(db: &mut PgConnection, filter: &Filter, replay: i64) -> Result<i64, sqlx::Error> {
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
         select first_seen_at, id, (select count(*) from part)
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
    let (mut seen_at, mut id, mut letters) = (DateTime::<Utc>::UNIX_EPOCH, String::new(), 0);
    loop {
        let asked = Instant::now();
        let query = filter.bind(sqlx::query(&next));
        let last = query.bind(seen_at).bind(id).bind(PART).bind(replay).bind(letters).fetch_optional(&mut *db).await?;
        let Some(last) = last else { return Ok(letters) };
        let (last_seen_at, last_id, frozen): (DateTime<Utc>, String, i64) = sqlx::FromRow::from_row(&last)?;
        (seen_at, id) = (last_seen_at, last_id);
        letters += frozen;
        if frozen < PART {
            return Ok(letters);
        }
        tokio::time::sleep(asked.elapsed()).await;
    }
}

/// The money of a selection by currency; `None` is what names none.
///
/// # Errors
/// The database is away.
pub async fn money(
    db: &mut PgConnection,
    replay: i64,
) -> Result<Vec<(Option<String>, i64, Option<Decimal>)>, sqlx::Error> {
    sqlx::query_as(
        "select currency, count(*), sum(amount)
           from fis_replay_letter
          where replay_id = $1
          group by currency
          order by currency nulls last",
    )
    .bind(replay)
    .fetch_all(db)
    .await
}
