//! Tying a day out: the control totals that were kept while messages were decided (`received`) enter, and so do the rows that
//! came of them; whether they agree leaves. The rows are counted anew, so one that was lost, added or altered shows.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::received::Column;
use crate::domain::ids::TenantId;
use crate::store::dead_letters;

/// Events and their money by currency.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sum {
    pub events: i64,
    /// Without those that come to nothing.
    pub money: BTreeMap<String, Decimal>,
}

impl Sum {
    fn add(&mut self, currency: &str, events: i64, amount: Decimal) {
        self.events += events;
        if !currency.is_empty() {
            let sum = self.money.entry(currency.to_owned()).or_default();
            *sum += amount;
            if sum.is_zero() {
                self.money.remove(currency);
            }
        }
    }

    pub fn plus(&mut self, other: &Self) {
        self.events += other.events;
        for (currency, amount) in &other.money {
            self.add(currency, 0, *amount);
        }
    }

    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut difference = self.clone();
        difference.events -= other.events;
        for (currency, amount) in &other.money {
            difference.add(currency, 0, -*amount);
        }
        difference
    }

    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.events == 0 && self.money.is_empty()
    }
}

/// A tenant's day.
#[derive(Debug, Clone, Default)]
pub struct TieOut {
    /// As it was decided. Parked and discarded letters are one number here: discarding moves no money.
    pub counted: BTreeMap<Column, Sum>,
    /// As the rows are now.
    pub found: BTreeMap<Column, Sum>,
    /// The first day on which anything was counted for the tenant.
    pub since: Option<NaiveDate>,
    /// Open letters that name no tenant at all, of any day.
    pub nameless: i64,
}

impl TieOut {
    /// What came in.
    #[must_use]
    pub fn received(&self) -> Sum {
        total(self.counted.values())
    }

    /// What became of it.
    #[must_use]
    pub fn accounted(&self) -> Sum {
        total(self.found.values())
    }

    /// Where the rows are not what was counted: counted, found.
    #[must_use]
    pub fn differences(&self) -> Vec<(&'static str, Sum, Sum)> {
        let of = |columns: &[Column], sums: &BTreeMap<Column, Sum>| {
            total(columns.iter().filter_map(|column| sums.get(column)))
        };
        let pairs = [
            ("posted", &[Column::Posted][..]),
            ("held", &[Column::Held][..]),
            ("parked or discarded", &[Column::Parked, Column::Discarded][..]),
        ];
        let compared = pairs.map(|(name, columns)| (name, of(columns, &self.counted), of(columns, &self.found)));
        compared.into_iter().filter(|(_, counted, found)| counted != found).collect()
    }
}

fn total<'a>(sums: impl Iterator<Item = &'a Sum>) -> Sum {
    sums.fold(Sum::default(), |mut total, sum| {
        total.plus(sum);
        total
    })
}

/// Reads a day. In a transaction that sees one moment, or a batch that commits in between would be a difference.
///
/// # Errors
/// The database is away.
pub async fn read(db: &mut PgConnection, tenant: &TenantId, day: NaiveDate) -> Result<TieOut, sqlx::Error> {
    let mut tie_out = TieOut::default();
    let rows = sqlx::query(
        "select outcome, currency, events, amount from fis_received where tenant_id = $1 and received_on = $2",
    )
    .bind(tenant.as_str())
    .bind(day)
    .fetch_all(&mut *db)
    .await?;
    for row in &rows {
        let outcome: &str = row.try_get("outcome")?;
        let column = Column::ALL.into_iter().find(|column| column.as_str() == outcome);
        add(&mut tie_out.counted, column.ok_or(sqlx::Error::RowNotFound)?, row)?;
    }
    // What leaves no row is as it was counted.
    for column in [Column::Duplicate, Column::Ignored, Column::Discarded] {
        if let Some(sum) = tie_out.counted.get(&column) {
            tie_out.found.insert(column, sum.clone());
        }
    }
    find_posted(&mut *db, tenant, day, tie_out.found.entry(Column::Posted).or_default()).await?;
    find_waiting(&mut *db, tenant, day, &mut tie_out.found).await?;
    tie_out.since = sqlx::query_scalar("select min(received_on) from fis_received where tenant_id = $1")
        .bind(tenant.as_str())
        .fetch_one(&mut *db)
        .await?;
    tie_out.nameless = dead_letters::nameless(db).await?;
    Ok(tie_out)
}

fn add(sums: &mut BTreeMap<Column, Sum>, column: Column, row: &PgRow) -> Result<(), sqlx::Error> {
    let amount: Option<Decimal> = row.try_get("amount")?;
    let sum = sums.entry(column).or_default();
    sum.add(row.try_get("currency")?, row.try_get("events")?, amount.unwrap_or_default());
    Ok(())
}

/// The entries, and what they debit.
async fn find_posted(
    db: &mut PgConnection,
    tenant: &TenantId,
    day: NaiveDate,
    sum: &mut Sum,
) -> Result<(), sqlx::Error> {
    let seqs: Vec<i64> =
        sqlx::query_scalar("select seq from fis_journal_entry where tenant_id = $1 and received_on = $2 order by seq")
            .bind(tenant.as_str())
            .bind(day)
            .fetch_all(&mut *db)
            .await?;
    sum.events = i64::try_from(seqs.len()).unwrap_or(i64::MAX);
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
    for (currency, amount) in money {
        sum.add(&currency, 0, amount);
    }
    Ok(())
}

/// What is held, parked and discarded.
async fn find_waiting(
    db: &mut PgConnection,
    tenant: &TenantId,
    day: NaiveDate,
    found: &mut BTreeMap<Column, Sum>,
) -> Result<(), sqlx::Error> {
    let held = sqlx::query(
        "select coalesce(currency, '') as currency, count(*) as events, sum(amount) as amount
           from fis_held
          where tenant_id = $1 and received_on = $2
          group by 1",
    )
    .bind(tenant.as_str())
    .bind(day)
    .fetch_all(&mut *db)
    .await?;
    for row in &held {
        add(found, Column::Held, row)?;
    }
    for letters in dead_letters::of_day(db, tenant, day).await? {
        let column = if letters.discarded { Column::Discarded } else { Column::Parked };
        let sum = found.entry(column).or_default();
        sum.add(&letters.currency, letters.events, letters.amount.unwrap_or_default());
    }
    Ok(())
}
