//! Replaying. A selection is frozen once (`choose`), then fed in steps (`step`); each step is one transaction that moves letters
//! from parked to replaying and writes the outbox rows that carry them back. Whether a letter is sent is decided by its
//! own state under its own lock, so two admins cannot double it, and a crash leaves every state true.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row};

use super::filter::{Filter, PARAMETERS};
use crate::domain::dead_letter::LETTER_HEADER;
use crate::platform::amqp::{Delivery, Properties};
use crate::platform::faults::{self, crash_point};

/// Where replays go: the low lane, so that live traffic goes first.
const REPLAY_EXCHANGE: &str = "fis.backfill.exchange";
/// Which edited copy it is; for readers, nothing depends on it.
const EDIT_HEADER: &str = "x-fis-edit";
/// The publisher's own message id; a replay has its own.
const MESSAGE_ID_HEADER: &str = "x-fis-message-id";
/// A replay has all its retries before it, whatever it had behind it.
const ATTEMPT_HEADER: &str = "x-fis-attempt";

/// Who does it and why; written into the log with every move.
#[derive(Debug, Clone)]
pub struct Operator {
    pub by: String,
    pub why: String,
}

impl Operator {
    /// Signs everything that this transaction moves.
    pub(super) async fn sign(&self, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::query("select set_config('fis.by', $1, true), set_config('fis.why', $2, true)")
            .bind(&self.by)
            .bind(&self.why)
            .execute(db)
            .await?;
        Ok(())
    }
}

/// How a replay goes about it.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    pub canary: bool,
    pub rate: Option<i32>,
    pub max_failures: Option<i64>,
}

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
    pub state: String,
    pub created_at: DateTime<Utc>,
}

/// Freezes what the filter means now, oldest first. Nothing is sent yet.
///
/// # Errors
/// The database is away.
pub async fn choose(pool: &PgPool, filter: &Filter, who: &Operator, manner: Manner) -> Result<Replay, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    let id: i64 = sqlx::query_scalar(
        "insert into fis_replay (by, why, selection, canary, rate, max_failures) values ($1, $2, $3, $4, $5, $6) returning id",
    )
    .bind(&who.by)
    .bind(&who.why)
    .bind(filter.words())
    .bind(manner.canary)
    .bind(manner.rate)
    .bind(manner.max_failures)
    .fetch_one(&mut *transaction)
    .await?;
    // A million letters take longer than any statement of the service may; and they are found in their index.
    sqlx::raw_sql("set local statement_timeout = '600s'; set local enable_seqscan = off; set local jit = off")
        .execute(&mut *transaction)
        .await?;
    // The text is put together from constants only.
    let freeze = AssertSqlSafe(format!(
        "insert into fis_replay_letter (replay_id, n, letter_id, currency, amount)
         select ${}, row_number() over (order by first_seen_at, id), id, currency, amount from fis_dead_letter where {}",
        PARAMETERS + 1,
        filter.condition()
    ));
    let frozen = filter.bind(sqlx::query(freeze)).bind(id).execute(&mut *transaction).await?.rows_affected();
    sqlx::query("update fis_replay set letters = $2 where id = $1")
        .bind(id)
        .bind(i64::try_from(frozen).unwrap_or(i64::MAX))
        .execute(&mut *transaction)
        .await?;
    let replay = find(&mut transaction, id).await?.ok_or(sqlx::Error::RowNotFound)?;
    transaction.commit().await?;
    // Without figures of it the steps would be planned for a small table. Only its owner may; it is not worth a failure.
    let _ = sqlx::query("analyze fis_replay_letter").execute(pool).await;
    Ok(replay)
}

/// # Errors
/// The database is away.
pub async fn find(db: &mut PgConnection, id: i64) -> Result<Option<Replay>, sqlx::Error> {
    sqlx::query_as(
        "select id, by, why, selection, letters, canary, rate, max_failures, state, created_at from fis_replay where id = $1",
    )
    .bind(id)
    .fetch_optional(db)
    .await
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

/// # Errors
/// The database is away.
pub async fn set_state(pool: &PgPool, replay: i64, state: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update fis_replay set state = $2, ended_at = case when $2 in ('done', 'cancelled') then now() end where id = $1",
    )
    .bind(replay)
    .bind(state)
    .execute(pool)
    .await?;
    if state == "cancelled" {
        // Nothing of it was sent: the selection is of no interest any more.
        sqlx::query("delete from fis_replay_letter where replay_id = $1 and state = 'waiting'")
            .bind(replay)
            .execute(pool)
            .await?;
    }
    Ok(())
}

/// What a step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
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
pub async fn step(pool: &PgPool, replay: i64, who: &Operator, most: i64) -> Result<Step, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    who.sign(&mut transaction).await?;
    let done = send_next(&mut transaction, replay, most).await?;
    crash_point(faults::BEFORE_REPLAY);
    transaction.commit().await?;
    crash_point(faults::AFTER_REPLAY);
    Ok(done)
}

/// The same inside the caller's transaction.
pub(super) async fn send_next(db: &mut PgConnection, replay: i64, most: i64) -> Result<Step, sqlx::Error> {
    let turn: Vec<(i64, String, bool)> = sqlx::query_as(
        "with turn as materialized (select n, letter_id from fis_replay_letter
                                    where replay_id = $1 and state = 'waiting'
                                    order by replay_id, n limit $2)
         select turn.n, turn.letter_id, d.id is null
           from turn
           left join fis_dead_letter d on d.id = turn.letter_id
          order by turn.n",
    )
    .bind(replay)
    .bind(most)
    .fetch_all(&mut *db)
    .await?;
    let places: Vec<i64> = turn.iter().map(|(n, _, _)| *n).collect();
    // Never waits for a letter: whoever holds it is about to move it. A state read here stays true until the commit.
    let rows = sqlx::query(
        "select r.n, r.edit_no, d.id, d.status, d.properties, d.message_id
           from fis_replay_letter r
           join fis_dead_letter d on d.id = r.letter_id
          where r.replay_id = $1 and r.n = any($2)
          order by r.n
            for update of d skip locked",
    )
    .bind(replay)
    .bind(&places)
    .fetch_all(&mut *db)
    .await?;
    let (mut sent, mut skipped) = (Sent::default(), Vec::new());
    skipped.extend(turn.iter().filter(|(_, _, gone)| *gone).map(|(n, _, _)| *n));
    for row in &rows {
        if row.try_get::<&str, _>("status")? == "parked" {
            sent.push(row, replay)?;
        } else {
            skipped.push(row.try_get("n")?);
        }
    }
    insert_messages(db, replay, &sent).await?;
    sqlx::query("update fis_dead_letter set status = 'replaying', replay_id = $2 where id = any($1)")
        .bind(&sent.ids)
        .bind(replay)
        .execute(&mut *db)
        .await?;
    for (state, places) in [("sent", &sent.places), ("skipped", &skipped)] {
        sqlx::query("update fis_replay_letter set state = $3 where replay_id = $1 and n = any($2)")
            .bind(replay)
            .bind(places)
            .bind(state)
            .execute(&mut *db)
            .await?;
    }
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let (sent, skipped) = (count(sent.ids.len()), count(skipped.len()));
    Ok(Step { sent, skipped, busy: count(turn.len()) - sent - skipped })
}

#[derive(Default)]
struct Sent {
    places: Vec<i64>,
    ids: Vec<String>,
    properties: Vec<String>,
    message_ids: Vec<String>,
    edits: Vec<Option<i32>>,
}

impl Sent {
    fn push(&mut self, row: &sqlx::postgres::PgRow, replay: i64) -> Result<(), sqlx::Error> {
        let (id, edit): (String, Option<i32>) = (row.try_get("id")?, row.try_get("edit_no")?);
        let mut properties = fresh(row.try_get("properties")?).with_header(LETTER_HEADER, &id);
        if let Some(original) = row.try_get::<Option<&str>, _>("message_id")? {
            properties = properties.with_header(MESSAGE_ID_HEADER, original);
        }
        if let Some(edit) = edit {
            properties = properties.with_number(EDIT_HEADER, i64::from(edit));
        }
        self.places.push(row.try_get("n")?);
        self.message_ids.push(format!("replay/{replay}/{id}"));
        self.properties.push(properties.to_text());
        self.edits.push(edit);
        self.ids.push(id);
        Ok(())
    }
}

/// A letter's properties, fit to begin again with.
fn fresh(properties: &str) -> Properties {
    Properties::from_text(properties).carried().without_header(ATTEMPT_HEADER)
}

/// The message that a replay of the letter would be.
#[must_use]
pub fn imagined(routing_key: &str, properties: &str, body: Vec<u8>) -> Delivery {
    Delivery::imagined(routing_key.to_owned(), fresh(properties), body)
}

/// The bodies never leave the database.
async fn insert_messages(db: &mut PgConnection, replay: i64, sent: &Sent) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into fis_outbox (tenant_id, exchange, routing_key, message_id, properties, body, due_at)
         select d.tenant_id, $5, d.routing_key, s.message_id, s.properties, coalesce(e.body, d.body), now()
           from fis_replay_letter r
           join unnest($2::text[], $3::text[], $4::text[], $6::integer[]) as s (id, properties, message_id, edit_no)
                on s.id = r.letter_id
           join fis_dead_letter d on d.id = s.id
           left join fis_dead_letter_edit e on e.letter_id = s.id and e.edit_no = s.edit_no
          where r.replay_id = $1 and r.n = any($7)
          order by r.n",
    )
    .bind(replay)
    .bind(&sent.ids)
    .bind(&sent.properties)
    .bind(&sent.message_ids)
    .bind(REPLAY_EXCHANGE)
    .bind(&sent.edits)
    .bind(&sent.places)
    .execute(db)
    .await?;
    Ok(())
}
