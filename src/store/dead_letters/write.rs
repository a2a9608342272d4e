//! The writing of `fis_dead_letter` and `fis_entry_edit`. Rejected, given-up and settled letters enter; the rows that changed leave, with
//! the day and the money by which they are counted. A letter moves only as the table's trigger allows, and every move is logged by it.

use std::collections::HashSet;

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};

use super::super::{column, rows};
use super::posting::lock_resolved;
use crate::domain::chain::ChainedEntry;
use crate::domain::dead_letter::DeadLetter;
use crate::domain::ids::{EventId, EventType, TenantId, entry_id};
use crate::domain::letter::{LetterStatus, Resolution};
use crate::domain::money::Worth;

/// A letter to write down. A batch has each letter once: an upsert cannot touch a row twice.
#[derive(Debug)]
pub struct LetterRow<'a> {
    pub letter: &'a DeadLetter,
    /// The rejections that this row stands for.
    pub attempts: i32,
    /// The tenant's day on which it was received; `None`: it names no tenant, and is not counted.
    pub received_on: Option<NaiveDate>,
    /// The day that the event is about, where it says so; else that of its receipt.
    pub event_date: Option<NaiveDate>,
    /// The broker's count of deliveries before this one.
    pub deliveries: i64,
    /// The replay that was rejected.
    pub replay_id: Option<i64>,
}

/// The beginning of every statement that writes letters down; what is to happen to a known one follows.
const INSERT: &str = "insert into fis_dead_letter as d
             (id, tenant_id, event_id, event_type, routing_key, lane, reason, detail, attempts, amount, currency,
              message_id, correlation_id, properties, body, payload_hash, received_on, event_date, deliveries,
              replay_id, first_seen_at, last_seen_at)
         select *, $21, $21
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                       $9::integer[], $10::numeric[], $11::text[], $12::text[], $13::text[], $14::text[], $15::bytea[],
                       $16::text[], $17::date[], $18::date[], $19::bigint[], $20::bigint[])";

/// The conflict clause for a message that comes again: it is one more attempt of its letter, and opens the letter again; one whose edited copy is held
/// goes on waiting with that.
const OPEN_AGAIN: &str = "on conflict (id)
             do update set reason = excluded.reason, detail = excluded.detail, attempts = d.attempts + excluded.attempts,
                           status = case when d.status = 'replaying' and exists (select from fis_held h where h.letter_id = d.id)
                                         then 'replaying' else 'parked' end,
                           resolved_as = null, entry_id = null, settled_at = null,
                           last_seen_at = excluded.last_seen_at,
                           replay_id = coalesce(excluded.replay_id, d.replay_id),
                           received_on = case d.status when 'resolved' then excluded.received_on else d.received_on end,
                           event_date = coalesce(d.event_date, excluded.event_date)";

fn bind<'q>(
    query: Query<'q, Postgres, PgArguments>,
    rows: &'q [LetterRow<'_>],
    now: DateTime<Utc>,
) -> Query<'q, Postgres, PgArguments> {
    query
        .bind(column!(rows, row => row.letter.id.as_str()))
        .bind(column!(rows, row => row.letter.identity.tenant_id.as_ref().map(TenantId::as_str)))
        .bind(column!(rows, row => row.letter.identity.event_id.as_ref().map(EventId::as_str)))
        .bind(column!(rows, row => row.letter.identity.event_type.as_ref().map(EventType::as_str)))
        .bind(column!(rows, row => row.letter.routing_key.as_str()))
        .bind(column!(rows, row => row.letter.lane))
        .bind(column!(rows, row => row.letter.failure.reason.code()))
        .bind(column!(rows, row => row.letter.failure.detail.as_str()))
        .bind(column!(rows, row => row.attempts))
        .bind(column!(rows, row => row.letter.money.map(|(amount, _)| amount)))
        .bind(column!(rows, row => row.letter.money.map(|(_, currency)| currency.code())))
        .bind(column!(rows, row => row.letter.message_id.as_deref()))
        .bind(column!(rows, row => row.letter.identity.correlation_id.as_deref()))
        .bind(column!(rows, row => row.letter.properties.as_str()))
        .bind(column!(rows, row => row.letter.body.as_slice()))
        .bind(column!(rows, row => row.letter.payload_hash.as_deref()))
        .bind(column!(rows, row => row.received_on))
        .bind(column!(rows, row => row.event_date))
        .bind(column!(rows, row => row.deliveries))
        .bind(column!(rows, row => row.replay_id))
        .bind(now)
}

/// A letter that a rejection has written.
#[derive(Debug)]
pub struct Written {
    pub id: String,
    pub received_on: Option<NaiveDate>,
    pub money: Worth,
    /// There was no such letter before.
    pub is_new: bool,
}

/// Writes down what a posting rejects. The caller counts it.
///
/// # Errors
/// The database is away, or refuses a letter.
pub async fn upsert_rejected(
    db: &mut PgConnection,
    rows: &[LetterRow<'_>],
    now: DateTime<Utc>,
) -> Result<Vec<Written>, sqlx::Error> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    // The text is put together from constants only.
    let upsert = format!(
        "{INSERT}
             {OPEN_AGAIN}, deliveries = excluded.deliveries
             -- What was superseded or edited conflicts with what was booked instead of it: that is no news.
             where not (d.status = 'resolved' and d.resolved_as <> 'ignored' and excluded.reason = 'idempotency_conflict')
      returning d.id, d.received_on, d.amount, d.currency, d.xmax = 0 as inserted"
    );
    let written = bind(sqlx::query(&upsert), rows, now).fetch_all(db).await?;
    let letter = |row: &sqlx::postgres::PgRow| {
        Ok(Written {
            id: row.try_get("id")?,
            received_on: row.try_get("received_on")?,
            money: rows::worth(row)?,
            is_new: row.try_get("inserted")?,
        })
    };
    written.iter().map(letter).collect()
}

/// Writes down what the pipeline has not written down already; returns the ids of those that were new.
///
/// # Errors
/// The database is away, or refuses a letter.
pub async fn insert_unrecorded(
    db: &mut PgConnection,
    rows: &[LetterRow<'_>],
    now: DateTime<Utc>,
) -> Result<HashSet<String>, sqlx::Error> {
    insert_and_count(db, rows, &[], now, "on conflict (id) do nothing").await
}

/// Writes down what the broker gave up by itself: one more attempt, and open again if it was closed. Returns their ids.
///
/// # Errors
/// The database is away, or refuses a letter.
pub async fn upsert_given_up(
    db: &mut PgConnection,
    rows: &[LetterRow<'_>],
    now: DateTime<Utc>,
) -> Result<HashSet<String>, sqlx::Error> {
    if rows.is_empty() {
        return Ok(HashSet::new());
    }
    let resolved = lock_resolved(&mut *db, &column!(rows, row => row.letter.id.as_str())).await?;
    insert_and_count(db, rows, &resolved, now, OPEN_AGAIN).await
}

/// Writes and counts in one statement: what is new, or open again after it was resolved, is parked from today on; the others are
/// copies of what is counted already.
async fn insert_and_count(
    db: &mut PgConnection,
    rows: &[LetterRow<'_>],
    resolved: &[String],
    now: DateTime<Utc>,
    conflict: &'static str,
) -> Result<HashSet<String>, sqlx::Error> {
    if rows.is_empty() {
        return Ok(HashSet::new());
    }
    // The text is put together from constants only.
    let insert = format!(
        "with written as (
             {INSERT}
             {conflict}
           returning d.id, d.tenant_id, d.amount, d.currency, d.xmax = 0 or d.id = any($22) as fresh),
         counted as (
             insert into fis_received as r (tenant_id, received_on, outcome, currency, events, amount)
             select *
               from (select w.tenant_id, l.received_on, case when w.fresh then 'parked' else 'duplicate' end as outcome,
                            coalesce(w.currency, '') as currency, count(*), coalesce(sum(w.amount), 0)
                       from written w
                       join unnest($1::text[], $17::date[]) as l (id, received_on) using (id)
                      where w.tenant_id is not null and l.received_on is not null
                      group by 1, 2, 3, 4) news
              order by tenant_id collate \"C\", received_on, outcome collate \"C\", currency collate \"C\"
                 on conflict (tenant_id, received_on, outcome, currency)
                 do update set events = r.events + excluded.events, amount = r.amount + excluded.amount)
         select id from written"
    );
    let written = bind(sqlx::query(&insert), rows, now).bind(resolved).fetch_all(db).await?;
    written.iter().map(|row| row.try_get("id")).collect()
}

/// Remembers how often the broker had delivered messages whose rejection is told already.
///
/// # Errors
/// The database is away.
pub async fn set_deliveries(db: &mut PgConnection, deliveries: &[(&str, i64)]) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update fis_dead_letter d
            set deliveries = again.deliveries
           from unnest($1::text[], $2::bigint[]) as again (id, deliveries)
          where d.id = again.id",
    )
    .bind(column!(deliveries, (id, _) => *id))
    .bind(column!(deliveries, (_, deliveries) => *deliveries))
    .execute(db)
    .await?;
    Ok(())
}

/// A letter whose event came to an end.
#[derive(Debug)]
pub struct Ended<'a> {
    pub id: &'a str,
    /// The edited copy that was decided instead of the original.
    pub edit_no: Option<i32>,
    pub entry_id: Option<&'a str>,
    pub how: Resolution,
}

/// A letter that is resolved now.
#[derive(Debug)]
pub struct Resolved {
    pub id: String,
    /// The tenant and the day under which it was counted.
    pub counted: Option<(TenantId, NaiveDate)>,
    pub money: Worth,
    pub how: Resolution,
}

/// Resolves the letters in one of these states whose events came to an end, and records the edits that were booked. Returns them in id order.
///
/// # Errors
/// The database is away.
pub async fn resolve(
    db: &mut PgConnection,
    ended: &[Ended<'_>],
    states: &[LetterStatus],
    replay: Option<i64>,
    now: DateTime<Utc>,
) -> Result<Vec<Resolved>, sqlx::Error> {
    let rows = sqlx::query(
        "with done (id, edit_no, entry_id, outcome) as (
                  select * from unnest($1::text[], $2::integer[], $3::text[], $4::text[])),
              resolved as (update fis_dead_letter d
                              set status = 'resolved', resolved_as = done.outcome, entry_id = done.entry_id, settled_at = $5,
                                  replay_id = coalesce($6, d.replay_id)
                             from done
                            where d.id = done.id and d.status = any($7)
                        returning d.id, d.tenant_id, d.received_on, d.amount, d.currency, done.entry_id, done.outcome, done.edit_no),
              edited as (insert into fis_entry_edit (entry_id, letter_id, edit_no, edited_by, why, edited_at)
                         select r.entry_id, e.letter_id, e.edit_no, e.edited_by, e.why, e.edited_at
                           from resolved r
                           join fis_dead_letter_edit e on e.letter_id = r.id and e.edit_no = r.edit_no
                          where r.outcome = 'posted'
                             on conflict do nothing)
         select id, tenant_id, received_on, amount, currency, outcome
           from resolved
          order by id",
    )
    .bind(column!(ended, ended => ended.id))
    .bind(column!(ended, ended => ended.edit_no))
    .bind(column!(ended, ended => ended.entry_id))
    .bind(column!(ended, ended => ended.how.as_str()))
    .bind(now)
    .bind(replay)
    .bind(column!(states, state => state.as_str()))
    .fetch_all(db)
    .await?;
    let resolved = |row: &sqlx::postgres::PgRow| {
        let day: Option<NaiveDate> = row.try_get("received_on")?;
        Ok(Resolved {
            id: row.try_get("id")?,
            counted: day.map(|day| Ok::<_, sqlx::Error>((rows::tenant(row)?, day))).transpose()?,
            money: rows::worth(row)?,
            how: row.try_get("outcome")?,
        })
    };
    rows.iter().map(resolved).collect()
}

/// A letter that made way for an entry from another message.
#[derive(Debug)]
pub struct Moved {
    pub tenant_id: TenantId,
    pub received_on: Option<NaiveDate>,
    pub money: Worth,
}

/// Resolves the open letters whose events were posted from other messages: the publisher has sent them again, as they were or corrected.
///
/// # Errors
/// The database is away.
pub async fn supersede(
    db: &mut PgConnection,
    entries: &[ChainedEntry],
    now: DateTime<Utc>,
) -> Result<Vec<Moved>, sqlx::Error> {
    let rows = sqlx::query(
        "update fis_dead_letter d
            set status = 'resolved', entry_id = posted.entry_id, settled_at = $5,
                resolved_as = case when d.payload_hash = posted.payload_hash then 'posted' else 'superseded' end
           from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as posted (tenant_id, event_id, entry_id, payload_hash)
          where d.tenant_id = posted.tenant_id and d.event_id = posted.event_id and d.status in ('parked', 'replaying')
            -- A conflict comes behind what is posted, perhaps in this very batch: nothing was corrected by that.
            and d.reason <> 'idempotency_conflict'
      returning d.tenant_id, d.received_on, d.amount, d.currency",
    )
    .bind(column!(entries, entry => entry.origin.tenant_id.as_str()))
    .bind(column!(entries, entry => entry.origin.event_id.as_str()))
    .bind(column!(entries, entry => entry_id(&entry.origin.tenant_id, entry.seq)))
    .bind(column!(entries, entry => entry.origin.payload_hash.as_str()))
    .bind(now)
    .fetch_all(db)
    .await?;
    let moved = |row: &sqlx::postgres::PgRow| {
        let (tenant_id, money) = (rows::tenant(row)?, rows::worth(row)?);
        Ok(Moved { tenant_id, received_on: row.try_get("received_on")?, money })
    };
    rows.iter().map(moved).collect()
}

/// Lets letters wait whose events are held.
///
/// # Errors
/// The database is away.
pub async fn hold(db: &mut PgConnection, ids: &[&str], replay: Option<i64>) -> Result<(), sqlx::Error> {
    let held = "update fis_dead_letter set status = 'replaying', replay_id = coalesce($2, replay_id)
                 where id = any($1) and status = 'parked'";
    sqlx::query(held).bind(ids).bind(replay).execute(db).await?;
    Ok(())
}

/// Parks letters again whose events are not held any more, or not with them, and did not come to an end either. Returns the replays that held them.
///
/// # Errors
/// The database is away.
pub async fn park_again(db: &mut PgConnection, ids: &[&str]) -> Result<Vec<i64>, sqlx::Error> {
    let parked = "update fis_dead_letter set status = 'parked' where id = any($1) and status = 'replaying'
               returning replay_id";
    let replays: Vec<Option<i64>> = sqlx::query_scalar(parked).bind(ids).fetch_all(db).await?;
    Ok(replays.into_iter().flatten().collect())
}

/// Parks discarded letters again, locked in id order, as the postings lock them; returns how many.
///
/// # Errors
/// The database is away.
pub async fn restore(db: &mut PgConnection, ids: &[String]) -> Result<u64, sqlx::Error> {
    let restored = "with chosen as (select id from fis_dead_letter where id = any($1) and status = 'discarded' order by id for update)
                    update fis_dead_letter d set status = 'parked', settled_at = null from chosen where d.id = chosen.id";
    Ok(sqlx::query(restored).bind(ids).execute(db).await?.rows_affected())
}

/// Gives letters up.
///
/// # Errors
/// The database is away, or one of them is not parked.
pub async fn discard(db: &mut PgConnection, ids: &[String], now: DateTime<Utc>) -> Result<u64, sqlx::Error> {
    let discarded = sqlx::query("update fis_dead_letter set status = 'discarded', settled_at = $2 where id = any($1)");
    Ok(discarded.bind(ids).bind(now).execute(db).await?.rows_affected())
}

/// Removes at most `most` letters that were settled before `older_than`; returns how many. What was discarded stays counted as that,
/// without its row.
///
/// # Errors
/// The database is away.
pub async fn prune(db: &mut PgConnection, older_than: DateTime<Utc>, most: i64) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
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
    .bind(most)
    .fetch_one(db)
    .await
}
