//! Following a replay: how far it is, what is held, what is left; and taking back what is still on its way.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool, Row};

use super::replay::sign;
use crate::domain::operator::Operator;

/// How far a replay is. Every number is read from the tables, so that it is true after a crash too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    pub selected: i64,
    /// Not sent yet; they are still parked.
    pub left: i64,
    pub sent: i64,
    pub skipped: i64,
    /// In the books, ignored by a rule, or found to be there already.
    pub resolved: i64,
    /// Parked again, with the new reason.
    pub failed: i64,
    /// Sent; may succeed later, and will be tried again without anybody's help.
    pub held: i64,
}

impl Progress {
    /// Came to an end, or are held until they do.
    #[must_use]
    pub fn heard(&self) -> i64 {
        self.resolved + self.failed + self.held
    }

    /// Sent and not heard of.
    #[must_use]
    pub fn under_way(&self) -> i64 {
        (self.sent - self.heard()).max(0)
    }
}

/// # Errors
/// The database is away.
pub async fn progress(db: &mut PgConnection, replay: i64) -> Result<Progress, sqlx::Error> {
    let states = sqlx::query(
        "select count(*) as selected, count(*) filter (where state = 'waiting') as waiting,
                count(*) filter (where state = 'sent') as sent
           from fis_replay_letter where replay_id = $1",
    )
    .bind(replay)
    .fetch_one(&mut *db)
    .await?;
    let (selected, left, sent): (i64, i64, i64) =
        (states.try_get("selected")?, states.try_get("waiting")?, states.try_get("sent")?);
    let sent = Progress { selected, left, sent, skipped: selected - left - sent, ..Progress::default() };
    heard(db, replay, sent).await
}

/// The same progress with what is heard by now of the letters that were sent: the part that others make. It counts what is still on
/// its way and what failed, never what is resolved: asking costs as little at the end of a long replay as at its beginning.
///
/// # Errors
/// The database is away.
pub async fn heard(db: &mut PgConnection, replay: i64, so_far: Progress) -> Result<Progress, sqlx::Error> {
    // Mostly nothing is held, for nobody.
    let row = sqlx::query(
        "select (select count(*) from fis_dead_letter where replay_id = $1 and status = 'replaying') as replaying,
                (select count(*) from fis_operator_log
                  where replay_id = $1 and from_status = 'replaying' and to_status = 'parked') as failed,
                case when exists (select from fis_held)
                     then (select count(*) from fis_held h
                             join fis_dead_letter d on d.tenant_id = h.tenant_id and d.event_id = h.event_id
                            where d.replay_id = $1 and d.status = 'replaying')
                     else 0 end as held",
    )
    .bind(replay)
    .fetch_one(db)
    .await?;
    let (replaying, failed, held): (i64, i64, i64) =
        (row.try_get("replaying")?, row.try_get("failed")?, row.try_get("held")?);
    // A letter is sent once in a replay, and leaves `replaying` for one of these two.
    let resolved = (so_far.sent - replaying - failed).max(0);
    Ok(Progress { resolved, failed, held, ..so_far })
}

/// Why letters of a replay failed again, most frequent first.
///
/// # Errors
/// The database is away.
pub async fn failures(db: &mut PgConnection, replay: i64) -> Result<Vec<(String, i64, String)>, sqlx::Error> {
    sqlx::query_as(
        "select reason, count(*), min(detail) from fis_operator_log
          where replay_id = $1 and from_status = 'replaying' and to_status = 'parked' and act = 'fail'
          group by reason order by 2 desc, 1",
    )
    .bind(replay)
    .fetch_all(db)
    .await
}

/// A replay in a list.
#[derive(Debug, Clone, serde::Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct ReplayLine {
    pub id: i64,
    pub created_at: DateTime<Utc>,
    pub by: String,
    pub why: String,
    pub selection: String,
    pub state: String,
    pub letters: i64,
    pub left: i64,
    pub replaying: i64,
}

/// The newest replays first.
///
/// # Errors
/// The database is away.
pub async fn replays(db: &mut PgConnection, limit: i64) -> Result<Vec<ReplayLine>, sqlx::Error> {
    sqlx::query_as(
        "select r.id, r.created_at, r.by, r.why, r.selection, r.state, r.letters,
                (select count(*) from fis_replay_letter l where l.replay_id = r.id and l.state = 'waiting') as left,
                (select count(*) from fis_dead_letter d where d.replay_id = r.id and d.status = 'replaying') as replaying
           from fis_replay r order by r.id desc limit $1",
    )
    .bind(limit)
    .fetch_all(db)
    .await
}

/// Letters that one transaction of a release moves.
const RELEASE_STEP: i64 = 1_000;

/// Gives a replay up: what is not sent stays parked and is not selected any more; what is sent and not heard of is parked again,
/// its outbox row removed where it has not left. A message that is under way all the same resolves its letter when it
/// is booked. Held events keep their own retry, and stay.
///
/// # Errors
/// What was released until then is parked; the rest is as it was.
pub async fn release(pool: &PgPool, replay: i64, who: &Operator) -> Result<u64, sqlx::Error> {
    // First of all, so that a command that still feeds it finds nothing more to send.
    sqlx::query("update fis_replay_letter set state = 'skipped' where replay_id = $1 and state = 'waiting'")
        .bind(replay)
        .execute(pool)
        .await?;
    sqlx::query("update fis_replay set state = 'cancelled', ended_at = now() where id = $1")
        .bind(replay)
        .execute(pool)
        .await?;
    let mut released = 0;
    loop {
        let mut transaction = pool.begin().await?;
        sign(&mut transaction, who).await?;
        let ids: Vec<String> = sqlx::query_scalar(
            "select id from fis_dead_letter l
              where l.replay_id = $1 and l.status = 'replaying'
                and not exists (select from fis_held h where h.tenant_id = l.tenant_id and h.event_id = l.event_id)
              order by id limit $2 for update skip locked",
        )
        .bind(replay)
        .bind(RELEASE_STEP)
        .fetch_all(&mut *transaction)
        .await?;
        if ids.is_empty() {
            transaction.rollback().await?;
            return Ok(released);
        }
        sqlx::query("delete from fis_outbox where due_at is not null and message_id = any($1)")
            .bind(ids.iter().map(|id| format!("replay/{replay}/{id}")).collect::<Vec<_>>())
            .execute(&mut *transaction)
            .await?;
        let step = sqlx::query("update fis_dead_letter set status = 'parked' where id = any($1)")
            .bind(&ids)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        released += step.rows_affected();
    }
}
