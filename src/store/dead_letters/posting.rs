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

/// A letter whose turn has come.
#[derive(Debug, sqlx::FromRow)]
pub struct LockedLetter {
    pub id: String,
    pub status: LetterStatus,
    pub received_on: Option<NaiveDate>,
    /// The last replay that decided it.
    pub replay_id: Option<i64>,
}

/// The letters among these ids that are there, locked.
///
/// # Errors
/// The database is away.
pub async fn lock_letters(db: &mut PgConnection, ids: &[&str]) -> Result<Vec<LockedLetter>, sqlx::Error> {
    sqlx::query_as(
        "select id, status, received_on, replay_id from fis_dead_letter where id = any($1) order by id for update",
    )
    .bind(ids)
    .fetch_all(db)
    .await
}
