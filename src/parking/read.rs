//! Looking at dead letters.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use sqlx::{PgConnection, Row};

/// A dead letter in a list.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    pub id: String,
    pub tenant_id: Option<String>,
    pub event_id: Option<String>,
    pub routing_key: String,
    pub reason: String,
    pub detail: String,
    pub status: String,
    pub attempts: i32,
    pub first_seen_at: DateTime<Utc>,
    pub amount: Option<String>,
    pub currency: Option<String>,
}

/// Which letters; `None` means all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub reason: Option<String>,
    pub tenant: Option<String>,
    pub routing_key: Option<String>,
    pub before: Option<DateTime<Utc>>,
    pub after: Option<DateTime<Utc>>,
}

const WHERE: &str = "($1::text is null or reason = $1) and ($2::text is null or tenant_id = $2)
     and ($3::text is null or routing_key = $3) and ($4::timestamptz is null or first_seen_at < $4)
     and ($5::timestamptz is null or first_seen_at >= $5) and status in ('parked', 'replaying')";

/// A page of the open letters, oldest first, and how many there are in all.
///
/// # Errors
/// The database is away.
pub async fn list(
    db: &mut PgConnection,
    filter: &Filter,
    limit: i64,
    offset: i64,
) -> Result<(Vec<Letter>, i64), sqlx::Error> {
    // The text is put together from constants only.
    let total = sqlx::AssertSqlSafe(format!("select count(*) from fis_dead_letter where {WHERE}"));
    let total: i64 = bind(sqlx::query(total), filter).fetch_one(&mut *db).await?.try_get(0)?;
    let page = sqlx::AssertSqlSafe(format!(
        "select id, tenant_id, event_id, routing_key, reason, detail, status, attempts, first_seen_at, amount, currency
           from fis_dead_letter where {WHERE} order by first_seen_at, id limit $6 offset $7"
    ));
    let rows = bind(sqlx::query(page), filter).bind(limit).bind(offset).fetch_all(db).await?;
    let letters = rows.iter().map(letter).collect::<Result<_, _>>()?;
    Ok((letters, total))
}

type Query = sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments>;

fn bind(query: Query, filter: &Filter) -> Query {
    query
        .bind(filter.reason.clone())
        .bind(filter.tenant.clone())
        .bind(filter.routing_key.clone())
        .bind(filter.before)
        .bind(filter.after)
}

fn letter(row: &sqlx::postgres::PgRow) -> Result<Letter, sqlx::Error> {
    Ok(Letter {
        id: row.try_get("id")?,
        tenant_id: row.try_get("tenant_id")?,
        event_id: row.try_get("event_id")?,
        routing_key: row.try_get("routing_key")?,
        reason: row.try_get("reason")?,
        detail: row.try_get("detail")?,
        status: row.try_get("status")?,
        attempts: row.try_get("attempts")?,
        first_seen_at: row.try_get("first_seen_at")?,
        amount: row.try_get::<Option<Decimal>, _>("amount")?.map(|amount| amount.to_string()),
        currency: row.try_get("currency")?,
    })
}

/// Open letters by reason.
///
/// # Errors
/// The database is away.
pub async fn open_by_reason(db: &mut PgConnection) -> Result<Vec<(String, i64)>, sqlx::Error> {
    let rows = sqlx::query(
        "select reason, count(*) as letters
           from fis_dead_letter
          where status in ('parked', 'replaying')
          group by reason
          order by reason",
    )
    .fetch_all(db)
    .await?;
    rows.iter().map(|row| Ok((row.try_get("reason")?, row.try_get("letters")?))).collect()
}
