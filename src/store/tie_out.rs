//! The rows of a tenant's day of receipt, counted anew beside the totals that were kept. Read in a transaction that sees one moment.

use chrono::NaiveDate;
use rust_decimal::Decimal;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::received::Outcome;
use super::rows;
use crate::domain::ids::TenantId;

/// A sum of one outcome in one currency; an empty currency is no money.
#[derive(Debug, Clone)]
pub struct OutcomeSum {
    pub outcome: Outcome,
    pub currency: String,
    pub events: i64,
    pub amount: Decimal,
}

/// The totals of a day, as they were kept.
///
/// # Errors
/// The database is away, or holds what no version of this program has written.
pub async fn kept(db: &mut PgConnection, tenant: &TenantId, day: NaiveDate) -> Result<Vec<OutcomeSum>, sqlx::Error> {
    let rows = sqlx::query(
        "select outcome, currency, events, amount from fis_received where tenant_id = $1 and received_on = $2",
    )
    .bind(tenant.as_str())
    .bind(day)
    .fetch_all(db)
    .await?;
    rows.iter().map(sum).collect()
}

/// The events that are held, parked and discarded, of a day.
///
/// # Errors
/// The database is away.
pub async fn waiting(db: &mut PgConnection, tenant: &TenantId, day: NaiveDate) -> Result<Vec<OutcomeSum>, sqlx::Error> {
    let rows = sqlx::query(
        "select 'held' as outcome, coalesce(currency, '') as currency, count(*) as events, sum(amount) as amount
           from fis_held
          where tenant_id = $1 and received_on = $2
          group by 1, 2
          union all
         select case status when 'discarded' then 'discarded' else 'parked' end, coalesce(currency, ''), count(*), sum(amount)
           from fis_dead_letter
          where tenant_id = $1 and received_on = $2 and status <> 'resolved'
          group by 1, 2",
    )
    .bind(tenant.as_str())
    .bind(day)
    .fetch_all(db)
    .await?;
    rows.iter().map(sum).collect()
}

fn sum(row: &PgRow) -> Result<OutcomeSum, sqlx::Error> {
    let outcome = Outcome::parse(row.try_get("outcome")?).ok_or_else(|| rows::impossible("outcome"))?;
    let amount: Option<Decimal> = row.try_get("amount")?;
    let (currency, events) = (row.try_get("currency")?, row.try_get("events")?);
    Ok(OutcomeSum { outcome, currency, events, amount: amount.unwrap_or_default() })
}

/// The number of entries of a day, and what they debit by currency.
///
/// # Errors
/// The database is away.
pub async fn posted(
    db: &mut PgConnection,
    tenant: &TenantId,
    day: NaiveDate,
) -> Result<(i64, Vec<(String, Decimal)>), sqlx::Error> {
    let seqs: Vec<i64> =
        sqlx::query_scalar("select seq from fis_journal_entry where tenant_id = $1 and received_on = $2 order by seq")
            .bind(tenant.as_str())
            .bind(day)
            .fetch_all(&mut *db)
            .await?;
    // By range and not by place: one walk of the index instead of a descent per entry.
    let money: Vec<(String, Decimal)> = sqlx::query_as(
        "select l.currency, sum(l.amount)
           from fis_journal_line l
           join unnest($4::bigint[]) as wanted (seq) on wanted.seq = l.seq
          where l.tenant_id = $1
            and l.seq >= $2
            and l.seq <= $3
            and l.side = 'debit'
          group by l.currency",
    )
    .bind(tenant.as_str())
    .bind(seqs.first())
    .bind(seqs.last())
    .bind(&seqs)
    .fetch_all(db)
    .await?;
    Ok((i64::try_from(seqs.len()).unwrap_or(i64::MAX), money))
}

/// The first day on which anything was counted for a tenant.
///
/// # Errors
/// The database is away.
pub async fn first_day(db: &mut PgConnection, tenant: &TenantId) -> Result<Option<NaiveDate>, sqlx::Error> {
    sqlx::query_scalar("select min(received_on) from fis_received where tenant_id = $1")
        .bind(tenant.as_str())
        .fetch_one(db)
        .await
}

/// The open letters that name no tenant at all, of any day.
///
/// # Errors
/// The database is away.
pub async fn nameless_letters(db: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*) from fis_dead_letter where tenant_id is null and status in ('parked', 'replaying')",
    )
    .fetch_one(db)
    .await
}
