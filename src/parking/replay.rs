//! Replaying. A selection is frozen once (`selection`), then fed in steps (`step`); each step is one transaction that moves letters
//! from parked to replaying and writes the outbox rows that carry them back. Whether a letter is sent is decided by its
//! own state under its own lock, so two admins cannot double it, and a crash leaves every state true.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool, Row};

use crate::domain::dead_letter::LETTER_HEADER;
use crate::domain::operator::Operator;
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

/// Signs everything that this transaction moves.
pub(super) async fn sign(db: &mut PgConnection, who: &Operator) -> Result<(), sqlx::Error> {
    sqlx::query("select set_config('fis.by', $1, true), set_config('fis.why', $2, true)")
        .bind(who.by())
        .bind(who.why())
        .execute(db)
        .await?;
    Ok(())
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
    sign(&mut transaction, who).await?;
    let done = send_next(&mut transaction, replay, most).await?;
    crash_point(faults::BEFORE_REPLAY);
    transaction.commit().await?;
    crash_point(faults::AFTER_REPLAY);
    Ok(done)
}

/// The same inside the caller's transaction.
pub(super) async fn send_next(db: &mut PgConnection, replay: i64, most: i64) -> Result<Step, sqlx::Error> {
    // Never waits for a letter: whoever holds it is about to move it. A state read here stays true until the commit.
    let turn = sqlx::query(
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
    .fetch_all(&mut *db)
    .await?;
    let (mut sent, mut skipped, mut missing) = (Sent::default(), Vec::new(), Vec::new());
    for row in &turn {
        match row.try_get::<Option<&str>, _>("status")? {
            Some("parked") => sent.push(row, replay)?,
            Some(_) => skipped.push(row.try_get("n")?),
            None => missing.push((row.try_get("n")?, row.try_get("letter_id")?)),
        }
    }
    skipped.extend(gone(db, missing).await?);
    move_on(db, replay, &sent, &skipped).await?;
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let (sent, skipped) = (count(sent.ids.len()), count(skipped.len()));
    Ok(Step { sent, skipped, busy: count(turn.len()) - sent - skipped })
}

/// The places of those letters that are not there any more; the others are locked by somebody.
async fn gone(db: &mut PgConnection, missing: Vec<(i64, String)>) -> Result<Vec<i64>, sqlx::Error> {
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let (places, ids): (Vec<i64>, Vec<String>) = missing.into_iter().unzip();
    sqlx::query_scalar(
        "select m.n
           from unnest($1::bigint[], $2::text[]) as m (n, id)
           left join fis_dead_letter d using (id)
          where d.id is null",
    )
    .bind(places)
    .bind(ids)
    .fetch_all(db)
    .await
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
        let (id, edit): (String, Option<i32>) = (row.try_get("letter_id")?, row.try_get("edit_no")?);
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

/// The letters move, their places in the selection are marked, and their messages go to the outbox: one statement, each letter found
/// once. The bodies never leave the database.
async fn move_on(db: &mut PgConnection, replay: i64, sent: &Sent, skipped: &[i64]) -> Result<(), sqlx::Error> {
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
    .bind(&sent.ids)
    .bind(&sent.places)
    .bind(&sent.properties)
    .bind(&sent.message_ids)
    .bind(&sent.edits)
    .bind(skipped)
    .bind(REPLAY_EXCHANGE)
    .execute(db)
    .await?;
    Ok(())
}
