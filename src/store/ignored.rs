//! The record of the events that the books ignored: events enter when they are decided, and one is found by its id. It is for people and decides
//! nothing: an event that comes again is decided anew. What is older than [`KEPT_DAYS`] is removed.

use std::collections::BTreeMap;

use chrono::{DateTime, Days, NaiveDate, Utc};
use sqlx::PgConnection;

use super::column;
use crate::domain::ids::EventKey;

/// The days for which an ignored event is remembered: a month, so that a month's end can be checked with its publisher.
pub const KEPT_DAYS: u64 = 30;
/// Rows that one statement removes, so that none runs into a limit.
const REMOVED_MAX: i64 = 10_000;

/// The record of one ignored event.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct IgnoredEvent {
    /// None: no rule matched, and the books ignore what none matches.
    #[sqlx(rename = "rule_name")]
    pub rule: Option<String>,
    pub books_version: i32,
    /// The tenant's day on which it is counted.
    pub received_on: NaiveDate,
    pub ignored_at: DateTime<Utc>,
}

/// Writes the ignored events of a batch. One that was ignored before is told by its newest verdict.
///
/// # Errors
/// The database is away.
pub async fn upsert(db: &mut PgConnection, ignored: &BTreeMap<EventKey, IgnoredEvent>) -> Result<(), sqlx::Error> {
    if ignored.is_empty() {
        return Ok(());
    }
    let rows: Vec<(&EventKey, &IgnoredEvent)> = ignored.iter().collect();
    sqlx::query(
        "insert into fis_ignored (tenant_id, event_id, rule_name, books_version, received_on, ignored_at)
         select * from unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::date[], $6::timestamptz[])
             on conflict (tenant_id, event_id)
             do update set rule_name = excluded.rule_name, books_version = excluded.books_version,
                           received_on = excluded.received_on, ignored_at = excluded.ignored_at",
    )
    .bind(column!(rows, ((tenant, _), _) => tenant.as_str()))
    .bind(column!(rows, ((_, event), _) => event.as_str()))
    .bind(column!(rows, (_, row) => row.rule.as_deref()))
    .bind(column!(rows, (_, row) => row.books_version))
    .bind(column!(rows, (_, row) => row.received_on))
    .bind(column!(rows, (_, row) => row.ignored_at))
    .execute(db)
    .await?;
    Ok(())
}

/// The record of one event.
///
/// # Errors
/// The database is away.
pub async fn find(db: &mut PgConnection, tenant: &str, event: &str) -> Result<Option<IgnoredEvent>, sqlx::Error> {
    sqlx::query_as(
        "select rule_name, books_version, received_on, ignored_at
           from fis_ignored
          where tenant_id = $1 and event_id = $2",
    )
    .bind(tenant)
    .bind(event)
    .fetch_optional(db)
    .await
}

/// Removes some of the rows that are too old by `today`. Returns whether more may be left.
///
/// # Errors
/// The database is away.
pub async fn remove_old(db: &mut PgConnection, today: NaiveDate) -> Result<bool, sqlx::Error> {
    let Some(first_kept) = today.checked_sub_days(Days::new(KEPT_DAYS)) else { return Ok(false) };
    // What another instance removes this very moment is left to it.
    let removed = sqlx::query(
        "delete from fis_ignored
          where ctid = any (array(
                select ctid from fis_ignored where received_on < $1 limit $2 for update skip locked))",
    )
    .bind(first_kept)
    .bind(REMOVED_MAX)
    .execute(db)
    .await?
    .rows_affected();
    Ok(i64::try_from(removed) == Ok(REMOVED_MAX))
}
