//! Looking at dead letters. Nothing here changes a row. A million of them are searched through an index that holds what the
//! filters ask for; bodies are read for what is shown, never for what is skipped.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use sqlx::{PgConnection, Row};

use super::filter::{Filter, PARAMETERS};

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
    pub status: String,
    pub attempts: i32,
    pub first_seen_at: DateTime<Utc>,
    #[sqlx(try_from = "Money")]
    pub amount: Option<String>,
    pub currency: Option<String>,
    #[serde(rename = "group")]
    pub group_id: String,
    pub entry_id: Option<String>,
}

/// An amount that is shown as it was written.
#[derive(sqlx::Type)]
#[sqlx(transparent)]
pub struct Money(Option<Decimal>);

impl From<Money> for Option<String> {
    fn from(money: Money) -> Self {
        money.0.map(|amount| amount.to_string())
    }
}

const COLUMNS: &str =
    "d.id, d.tenant_id, d.event_id, d.routing_key, d.reason, d.detail, d.status, d.attempts, d.first_seen_at,
     d.amount, d.currency, d.group_id, d.entry_id";

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
async fn look(db: &mut PgConnection) -> Result<(), sqlx::Error> {
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
) -> Result<(Vec<Letter>, i64), sqlx::Error> {
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
    let letters = rows.iter().map(sqlx::FromRow::from_row).collect::<Result<_, _>>()?;
    Ok((letters, total))
}

/// Letters and money by currency; `None` is what names none.
pub type Sums = Vec<(Option<String>, i64, Option<Decimal>)>;

/// What a filter comes to.
///
/// # Errors
/// The database is away.
pub async fn sums(db: &mut PgConnection, filter: &Filter) -> Result<Sums, sqlx::Error> {
    // The text is put together from constants only.
    let sums = format!(
        "select currency, count(*), sum(amount) from fis_dead_letter where {} group by currency order by currency nulls last",
        filter.condition()
    );
    let rows = filter.bind(sqlx::query(&sums)).fetch_all(db).await?;
    rows.iter().map(sqlx::FromRow::from_row).collect()
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

/// What the letters of a group have in common.
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
) -> Result<(Vec<GroupName>, Vec<GroupMoney>), sqlx::Error> {
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
    let money: Vec<GroupMoney> = rows.iter().map(sqlx::FromRow::from_row).collect::<Result<_, _>>()?;
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
    pub resolved_as: Option<String>,
    pub settled_at: Option<DateTime<Utc>>,
    pub properties: String,
    pub body: Vec<u8>,
}

const WHOLE: &str =
    "d.event_type, d.lane, d.rule_name, d.fingerprint, d.payload_hash, d.message_id, d.correlation_id, d.last_seen_at,
     d.replay_id, d.resolved_as, d.settled_at, d.properties, d.body";

/// # Errors
/// The database is away.
pub async fn whole(db: &mut PgConnection, id: &str) -> Result<Option<Whole>, sqlx::Error> {
    let one = format!("select {COLUMNS}, {WHOLE} from fis_dead_letter d where id = $1");
    sqlx::query_as(&one).bind(id.to_owned()).fetch_optional(db).await
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
) -> Result<Vec<Whole>, sqlx::Error> {
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
    rows.iter().map(sqlx::FromRow::from_row).collect()
}
