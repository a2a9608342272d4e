//! Dead letters from afar: their number and their money by cause, by reason and by day. Nothing here changes a row or reads a body.

use chrono::{DateTime, NaiveDate, Utc};
use rust_decimal::Decimal;
use sqlx::{Connection, PgConnection};

use super::super::error::StoreError;
use super::filter::{Filter, PARAMETERS};
use super::read::look;

/// Letters and money by currency; `None` is what names none.
pub type Sums = Vec<(Option<String>, i64, Option<Decimal>)>;

/// The letters and the money that a filter means.
///
/// # Errors
/// The database is away.
pub async fn sums(db: &mut PgConnection, filter: &Filter) -> Result<Sums, StoreError> {
    // The text is put together from constants only.
    let sums = format!(
        "select currency, count(*), sum(amount) from fis_dead_letter where {} group by currency order by currency nulls last",
        filter.condition()
    );
    let rows = filter.bind(sqlx::query(&sums)).fetch_all(db).await?;
    Ok(rows.iter().map(sqlx::FromRow::from_row).collect::<Result<_, sqlx::Error>>()?)
}

/// Letters that fail for the same cause, in one currency.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct GroupMoney {
    pub group_id: String,
    pub currency: Option<String>,
    pub letters: i64,
    pub amount: Option<Decimal>,
    pub oldest: DateTime<Utc>,
    pub newest: DateTime<Utc>,
    /// Since this time yesterday, and in the day before.
    pub today: i64,
    pub yesterday: i64,
}

/// The cause that the letters of a group have in common.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct GroupName {
    pub group_id: String,
    pub reason: String,
    pub rule_name: Option<String>,
    pub fingerprint: String,
}

/// Groups by reason, rule and fingerprint, their money apart by currency.
///
/// # Errors
/// The database is away.
pub async fn groups(
    db: &mut PgConnection,
    filter: &Filter,
    now: DateTime<Utc>,
) -> Result<(Vec<GroupName>, Vec<GroupMoney>), StoreError> {
    look(db).await?;
    // The text is put together from constants only.
    let money = format!(
        "select group_id, currency, count(*) as letters, sum(amount) as amount, min(first_seen_at) as oldest,
                max(first_seen_at) as newest,
                count(*) filter (where first_seen_at >= ${at} - interval '1 day') as today,
                count(*) filter (where first_seen_at >= ${at} - interval '2 days'
                                   and first_seen_at < ${at} - interval '1 day') as yesterday
           from fis_dead_letter
          where {condition}
          group by group_id, currency",
        condition = filter.condition(),
        at = PARAMETERS + 1
    );
    let rows = filter.bind(sqlx::query(&money)).bind(now).fetch_all(&mut *db).await?;
    let money: Vec<GroupMoney> = rows.iter().map(sqlx::FromRow::from_row).collect::<Result<_, sqlx::Error>>()?;
    let mut ids: Vec<&str> = money.iter().map(|group| group.group_id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    let condition = filter.scope.condition();
    let names = format!(
        "select g.id as group_id, d.reason, d.rule_name, d.fingerprint
           from unnest($1::text[]) as g (id)
          cross join lateral (select reason, rule_name, fingerprint from fis_dead_letter
                               where {condition} and group_id = g.id order by group_id, first_seen_at, id limit 1) d"
    );
    let names = sqlx::query_as(&names).bind(ids).fetch_all(db).await?;
    Ok((names, money))
}

/// Open letters of one reason and currency, for the metrics.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct OpenLetters {
    pub reason: String,
    pub currency: Option<String>,
    pub letters: i64,
    pub amount: Option<Decimal>,
    pub oldest: DateTime<Utc>,
}

/// The open letters, counted by one processor: nobody waits for it, and live events need the others.
///
/// # Errors
/// The database is away.
pub async fn open_letters(db: &mut PgConnection) -> Result<Vec<OpenLetters>, StoreError> {
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

/// The money of a tenant that is dated in a span of days and not in the books: open letters, then held events. The date is the rule's or the
/// event's own where it could be read, else the day of receipt.
///
/// # Errors
/// The database is away.
pub async fn dated_between(
    db: &mut PgConnection,
    tenant: &str,
    (from, to): (NaiveDate, NaiveDate),
) -> Result<[Sums; 2], StoreError> {
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
           from fis_held
          where tenant_id = $1 and event_date between $2 and $3 and letter_id is null
          group by currency
          order by currency nulls last",
    );
    let letters = letters.bind(tenant).bind(from).bind(to).fetch_all(&mut *db).await?;
    Ok([letters, held.bind(tenant).bind(from).bind(to).fetch_all(db).await?])
}
