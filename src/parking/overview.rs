//! Dead letters from afar, and one letter's past: sums for the metrics and the status, lines of the operators' log.

use chrono::{DateTime, NaiveDate, Utc};
use rust_decimal::Decimal;
use sqlx::{Connection, PgConnection};

use super::read::Sums;

/// Open letters of one reason and currency, for the metrics.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct OpenLetters {
    pub reason: String,
    pub currency: Option<String>,
    pub letters: i64,
    pub amount: Option<Decimal>,
    pub oldest: DateTime<Utc>,
}

/// By one processor: nobody waits for it, and live events need the others.
///
/// # Errors
/// The database is away.
pub async fn open_letters(db: &mut PgConnection) -> Result<Vec<OpenLetters>, sqlx::Error> {
    let mut transaction = db.begin().await?;
    sqlx::query("set local max_parallel_workers_per_gather = 0").execute(&mut *transaction).await?;
    let open = sqlx::query_as(
        "select reason, currency, count(*) as letters, sum(amount) as amount, min(first_seen_at) as oldest
           from fis_dead_letter
          where status in ('parked', 'replaying')
          group by reason, currency",
    )
    .fetch_all(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(open)
}

/// Open letters by reason.
///
/// # Errors
/// The database is away.
pub async fn open_by_reason(db: &mut PgConnection) -> Result<Vec<(String, i64)>, sqlx::Error> {
    sqlx::query_as(
        "select reason, count(*) as letters
           from fis_dead_letter
          where status in ('parked', 'replaying')
          group by reason
          order by reason",
    )
    .fetch_all(db)
    .await
}

/// What of a tenant is dated in a span of days and not in the books: open letters, then held events. The date is the rule's or the
/// event's own where it could be read, else the day of receipt.
///
/// # Errors
/// The database is away.
pub async fn dated_between(
    db: &mut PgConnection,
    tenant: &str,
    (from, to): (NaiveDate, NaiveDate),
) -> Result<[Sums; 2], sqlx::Error> {
    let letters = sqlx::query_as(
        "select currency, count(*), sum(amount)
           from fis_dead_letter
          where tenant_id = $1 and status in ('parked', 'replaying') and event_date between $2 and $3
          group by currency
          order by currency nulls last",
    );
    // A letter whose replay is held is among the letters.
    let held = sqlx::query_as(
        "select currency, count(*), sum(amount)
           from fis_held h
          where tenant_id = $1 and event_date between $2 and $3
            and not exists (select from fis_dead_letter d
                             where d.tenant_id = h.tenant_id and d.event_id = h.event_id and d.status = 'replaying')
          group by currency
          order by currency nulls last",
    );
    let letters = letters.bind(tenant).bind(from).bind(to).fetch_all(&mut *db).await?;
    Ok([letters, held.bind(tenant).bind(from).bind(to).fetch_all(db).await?])
}

/// One line of the operators' log.
#[derive(Debug, Clone, serde::Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    pub at: DateTime<Utc>,
    pub by: String,
    pub act: String,
    pub why: String,
    pub from_status: Option<String>,
    pub to_status: Option<String>,
    pub replay_id: Option<i64>,
    pub reason: Option<String>,
    pub detail: String,
}

/// More are seldom of interest; the newest are read.
const HISTORY_MAX: i64 = 200;

/// What happened to a letter, oldest first.
///
/// # Errors
/// The database is away.
pub async fn history(db: &mut PgConnection, id: &str) -> Result<Vec<LogLine>, sqlx::Error> {
    let mut lines: Vec<LogLine> = sqlx::query_as(
        "select at, by, act, why, from_status, to_status, replay_id, reason, detail
           from fis_operator_log where letter_id = $1 order by id desc limit $2",
    )
    .bind(id)
    .bind(HISTORY_MAX)
    .fetch_all(db)
    .await?;
    lines.reverse();
    Ok(lines)
}
