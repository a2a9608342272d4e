//! Letters as the postings and the parking find them before they write: locked in id order, so that two batches never wait on each other, and
//! so that a state read here stays true until the commit.

use chrono::NaiveDate;
use sqlx::PgConnection;

use crate::domain::letter::LetterStatus;

/// A letter that a rejection would write again.
#[derive(Debug, sqlx::FromRow)]
pub struct KnownLetter {
    pub id: String,
    pub status: LetterStatus,
    /// The broker's count of deliveries when the letter was last rejected.
    pub deliveries: i64,
}

/// The letters among these ids, locked.
///
/// # Errors
/// The database is away.
pub async fn lock_known(db: &mut PgConnection, ids: &[&str]) -> Result<Vec<KnownLetter>, sqlx::Error> {
    sqlx::query_as("select id, status, deliveries from fis_dead_letter where id = any($1) order by id for update")
        .bind(ids)
        .fetch_all(db)
        .await
}

/// The resolved letters among these ids, locked, so that they are still resolved when they are opened again.
///
/// # Errors
/// The database is away.
pub async fn lock_resolved(db: &mut PgConnection, ids: &[&str]) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select id from fis_dead_letter where id = any($1) and status = 'resolved' order by id for update",
    )
    .bind(ids)
    .fetch_all(db)
    .await
}

/// A letter whose replay has come.
#[derive(Debug, sqlx::FromRow)]
pub struct ReplayedLetter {
    /// The content id that was asked for: the letter's own, or that of an edited copy.
    pub id: String,
    pub open: bool,
    pub received_on: Option<NaiveDate>,
}

/// The letters that messages with these content ids are replays of, locked, in the order of the letters' own ids. Several letters may have
/// been edited into one message.
///
/// # Errors
/// The database is away.
pub async fn lock_replayed(db: &mut PgConnection, ids: &[&str]) -> Result<Vec<ReplayedLetter>, sqlx::Error> {
    sqlx::query_as(
        "select wanted.id, d.status in ('parked', 'replaying') as open, d.received_on
           from unnest($1::text[]) as wanted (id)
           left join fis_dead_letter_edit e on e.copy_id = wanted.id
           join fis_dead_letter d on d.id = coalesce(e.letter_id, wanted.id)
          order by d.id
            for update of d",
    )
    .bind(ids)
    .fetch_all(db)
    .await
}
