//! Looking at dead letters. Nothing here changes a row. A million of them are searched through an index that holds what the
//! filters ask for; bodies are read for what is shown, never for what is skipped.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use sqlx::{PgConnection, Row};

use super::super::error::StoreError;
use super::filter::{Filter, PARAMETERS};
use crate::domain::ids::{EventId, TenantId};
use crate::domain::letter::{LetterStatus, Resolution};

/// A dead letter in a list.
#[derive(Debug, Clone, serde::Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    pub id: String,
    pub tenant_id: Option<String>,
    pub event_id: Option<String>,
    pub routing_key: String,
    pub reason: String,
    pub detail: String,
    /// Replaying: its event is held, or a running replay has it before itself, though it is parked in the table.
    pub status: LetterStatus,
    pub attempts: i32,
    pub first_seen_at: DateTime<Utc>,
    #[sqlx(try_from = "ShownAmount")]
    pub amount: Option<String>,
    pub currency: Option<String>,
    #[serde(rename = "group")]
    pub group_id: String,
    pub entry_id: Option<String>,
}

/// An amount that is shown as it was written.
#[derive(sqlx::Type)]
#[sqlx(transparent)]
struct ShownAmount(Option<Decimal>);

impl From<ShownAmount> for Option<String> {
    fn from(shown: ShownAmount) -> Self {
        shown.0.map(|amount| amount.to_string())
    }
}

/// The columns of a letter that is shown. Whether a running replay has it before itself is asked for these rows alone, never while a million of
/// them are filtered and counted.
const COLUMNS: &str = "d.id, d.tenant_id, d.event_id, d.routing_key, d.reason, d.detail,
     case when d.status = 'parked'
           and exists (select from fis_replay_letter place
                         join fis_replay r on r.id = place.replay_id and r.state = 'running' and place.n > r.decided
                        where place.letter_id = d.id)
          then 'replaying' else d.status end as status,
     d.attempts, d.first_seen_at, d.amount, d.currency, d.group_id, d.entry_id";

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    Oldest,
    Newest,
    Amount,
}

impl Sort {
    fn order(self) -> &'static str {
        match self {
            Self::Oldest => "first_seen_at, id",
            Self::Newest => "first_seen_at desc, id desc",
            Self::Amount => "amount desc nulls last, first_seen_at, id",
        }
    }
}

/// Settings of a session that only looks: the filters are answered from an index, and compiling them takes longer than that.
pub(super) async fn look(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("set jit = off; set enable_seqscan = off").execute(db).await?;
    Ok(())
}

/// A page of letters and how many there are in all.
///
/// # Errors
/// The database is away.
pub async fn list(
    db: &mut PgConnection,
    filter: &Filter,
    sort: Sort,
    limit: i64,
    offset: i64,
) -> Result<(Vec<Letter>, i64), StoreError> {
    look(db).await?;
    let condition = filter.condition();
    // The texts are put together from constants only.
    let total = format!("select count(*) from fis_dead_letter where {condition}");
    let total: i64 = filter.bind(sqlx::query(&total)).fetch_one(&mut *db).await?.try_get(0)?;
    if total == 0 || limit == 0 {
        return Ok((Vec::new(), total));
    }
    let order = sort.order();
    let page = format!(
        "select {COLUMNS}
           from (select id, row_number() over (order by {order}) as place
                   from (select id, first_seen_at, amount from fis_dead_letter where {condition}
                          order by {order} limit ${} offset ${}) x) page
           join fis_dead_letter d using (id)
          order by page.place",
        PARAMETERS + 1,
        PARAMETERS + 2
    );
    let rows = filter.bind(sqlx::query(&page)).bind(limit).bind(offset).fetch_all(db).await?;
    let letters = rows.iter().map(sqlx::FromRow::from_row).collect::<Result<_, sqlx::Error>>()?;
    Ok((letters, total))
}

/// A dead letter with everything that is known about it.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Whole {
    #[sqlx(flatten)]
    pub letter: Letter,
    pub event_type: Option<String>,
    pub lane: String,
    pub rule_name: Option<String>,
    pub fingerprint: String,
    pub payload_hash: Option<String>,
    pub message_id: Option<String>,
    pub correlation_id: Option<String>,
    pub last_seen_at: DateTime<Utc>,
    pub replay_id: Option<i64>,
    pub resolved_as: Option<Resolution>,
    pub settled_at: Option<DateTime<Utc>>,
    pub properties: String,
    pub body: Vec<u8>,
}

const WHOLE: &str =
    "d.event_type, d.lane, d.rule_name, d.fingerprint, d.payload_hash, d.message_id, d.correlation_id, d.last_seen_at,
     d.replay_id, d.resolved_as, d.settled_at, d.properties, d.body";

/// The letter with this id.
///
/// # Errors
/// The database is away.
pub async fn whole(db: &mut PgConnection, id: &str) -> Result<Option<Whole>, StoreError> {
    let one = format!("select {COLUMNS}, {WHOLE} from fis_dead_letter d where id = $1");
    Ok(sqlx::query_as(&one).bind(id).fetch_optional(db).await?)
}

/// The letters behind `after`, oldest first, whole: for an export or a rehearsal, a page at a time.
///
/// # Errors
/// The database is away.
pub async fn whole_page(
    db: &mut PgConnection,
    filter: &Filter,
    after: Option<(DateTime<Utc>, String)>,
    limit: i64,
) -> Result<Vec<Whole>, StoreError> {
    let (at, id) = after.unzip();
    let page = format!(
        "select {COLUMNS}, {WHOLE}
           from (select id from fis_dead_letter
                  where {condition} and (${a}::timestamptz is null or (first_seen_at, id) > (${a}, ${b}))
                  order by first_seen_at, id limit ${c}) page
           join fis_dead_letter d using (id)
          order by d.first_seen_at, d.id",
        condition = filter.condition(),
        a = PARAMETERS + 1,
        b = PARAMETERS + 2,
        c = PARAMETERS + 3
    );
    let rows = filter.bind(sqlx::query(&page)).bind(at).bind(id).bind(limit).fetch_all(db).await?;
    Ok(rows.iter().map(sqlx::FromRow::from_row).collect::<Result<_, sqlx::Error>>()?)
}

/// A message with some event's id that was rejected.
#[derive(Debug, Clone, serde::Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct EventLetter {
    #[sqlx(rename = "id")]
    pub dead_letter_id: String,
    pub reason: String,
    pub detail: String,
    pub status: LetterStatus,
    pub attempts: i32,
    pub first_seen_at: DateTime<Utc>,
    pub last_seen_at: DateTime<Utc>,
}

/// The newest letters of an event, at most `limit`.
///
/// # Errors
/// The database is away.
pub async fn of_event(
    db: &mut PgConnection,
    tenant: &TenantId,
    event: &EventId,
    limit: i64,
) -> Result<Vec<EventLetter>, sqlx::Error> {
    sqlx::query_as(
        "select id, reason, detail, status, attempts, first_seen_at, last_seen_at
           from fis_dead_letter
          where tenant_id = $1 and event_id = $2
          order by last_seen_at desc, id
          limit $3",
    )
    .bind(tenant.as_str())
    .bind(event.as_str())
    .bind(limit)
    .fetch_all(db)
    .await
}

/// The ids of the letters that a filter means, locked in id order, as the postings lock them; those that somebody else moves are left out.
///
/// # Errors
/// The database is away.
pub async fn lock_chosen(db: &mut PgConnection, filter: &Filter) -> Result<Vec<String>, sqlx::Error> {
    // The text is put together from constants only.
    let lock =
        format!("select id from fis_dead_letter where {} order by id for update skip locked", filter.condition());
    let rows = filter.bind(sqlx::query(&lock)).fetch_all(db).await?;
    rows.iter().map(|row| row.try_get("id")).collect()
}

/// The states of these letters, in id order; one that does not exist is left out.
///
/// # Errors
/// The database is away.
pub async fn statuses(db: &mut PgConnection, ids: &[String]) -> Result<Vec<(String, LetterStatus)>, sqlx::Error> {
    sqlx::query_as("select id, status from fis_dead_letter where id = any($1) order by id")
        .bind(ids)
        .fetch_all(db)
        .await
}

/// The number of settled letters that retention would remove.
///
/// # Errors
/// The database is away.
pub async fn prunable(db: &mut PgConnection, older_than: DateTime<Utc>) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar(
        "select count(*) from fis_dead_letter where status in ('resolved', 'discarded') and settled_at < $1",
    );
    Ok(count.bind(older_than).fetch_one(db).await?)
}
