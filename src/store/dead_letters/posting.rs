//! Letters as the postings and the parking find them before they write: locked in id order, so that two batches never wait on each other, and
//! so that a state read here stays true until the commit.

use std::collections::HashSet;

use chrono::NaiveDate;
use sqlx::PgConnection;

use crate::domain::ids::{EventId, TenantId};
use crate::domain::letter::LetterStatus;
use crate::store::column;

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

/// Those of these ids under which there is a letter.
///
/// # Errors
/// The database is away.
pub async fn recorded(db: &mut PgConnection, ids: &[&str]) -> Result<HashSet<String>, sqlx::Error> {
    let found: Vec<String> =
        sqlx::query_scalar("select id from fis_dead_letter where id = any($1)").bind(ids).fetch_all(db).await?;
    Ok(found.into_iter().collect())
}

/// Letters of one event that are looked at: the one that is looked for was written a moment ago.
const NEWEST_MAX: i64 = 10;

/// A letter of an event, and the routing key by which its message came.
#[derive(Debug, sqlx::FromRow)]
pub struct EventLetterKey {
    pub id: String,
    pub routing_key: String,
    tenant_id: String,
    event_id: String,
}

impl EventLetterKey {
    #[must_use]
    pub fn is_of(&self, tenant: &TenantId, event: &EventId) -> bool {
        self.tenant_id == tenant.as_str() && self.event_id == event.as_str()
    }
}

/// The newest letters of some events.
///
/// # Errors
/// The database is away.
pub async fn newest_of(
    db: &mut PgConnection,
    events: &[(&TenantId, &EventId)],
) -> Result<Vec<EventLetterKey>, sqlx::Error> {
    sqlx::query_as(
        "select d.id, d.routing_key, wanted.tenant_id, wanted.event_id
           from (select distinct * from unnest($1::text[], $2::text[])) as wanted (tenant_id, event_id)
          cross join lateral (select id, routing_key
                                from fis_dead_letter
                               where tenant_id = wanted.tenant_id and event_id = wanted.event_id
                               order by last_seen_at desc
                               limit $3) d",
    )
    .bind(column!(events, (tenant, _) => tenant.as_str()))
    .bind(column!(events, (_, event) => event.as_str()))
    .bind(NEWEST_MAX)
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
