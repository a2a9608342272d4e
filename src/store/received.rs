//! The control totals of what was received: events and money by tenant, day of receipt, outcome and currency. They only grow or shrink by
//! what was decided; no statement reads them to write rows.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;
use sqlx::PgConnection;

use crate::domain::ids::TenantId;
use crate::domain::money::Worth;

/// The outcome of a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Discarded,
    Duplicate,
    Held,
    Ignored,
    Parked,
    Posted,
}

impl Outcome {
    pub const ALL: [Self; 6] =
        [Self::Posted, Self::Duplicate, Self::Ignored, Self::Held, Self::Parked, Self::Discarded];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discarded => "discarded",
            Self::Duplicate => "duplicate",
            Self::Held => "held",
            Self::Ignored => "ignored",
            Self::Parked => "parked",
            Self::Posted => "posted",
        }
    }

    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }
}

/// Changes of the totals. The keys sort as the database's do byte by byte, so that two batches lock in one order.
#[derive(Debug, Default)]
pub struct Totals {
    rows: BTreeMap<(TenantId, NaiveDate, Outcome, &'static str), (i64, Decimal)>,
}

impl Totals {
    /// One event more with an outcome, or with `by` -1 one less.
    pub fn add(&mut self, tenant: &TenantId, day: NaiveDate, outcome: Outcome, by: i64, worth: Worth) {
        let currency = worth.map_or("", |(_, currency)| currency.code());
        // Exact: `money_of` takes no amount of more than 21 digits.
        let amount = Decimal::from(by) * worth.map_or(Decimal::ZERO, |(amount, _)| amount);
        self.add_amount(tenant, day, outcome, currency, (by, amount));
    }

    /// So many events more, and so much money in one currency.
    pub fn add_amount(
        &mut self,
        tenant: &TenantId,
        day: NaiveDate,
        outcome: Outcome,
        currency: &'static str,
        (events, amount): (i64, Decimal),
    ) {
        let row = self.rows.entry((tenant.clone(), day, outcome, currency)).or_default();
        row.0 += events;
        row.1 += amount;
    }

    /// The changes of one outcome, taken out; the others stay.
    pub fn take(&mut self, taken: Outcome) -> Self {
        let rows = std::mem::take(&mut self.rows).into_iter();
        let (rows, others) = rows.partition(|((_, _, outcome, _), _)| *outcome == taken);
        self.rows = others;
        Self { rows }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.values().all(|row| row.0 == 0 && row.1.is_zero())
    }

    pub(super) fn columns(&self) -> Columns<'_> {
        let mut columns = Columns::default();
        for ((tenant, day, outcome, currency), (events, amount)) in &self.rows {
            if *events == 0 && amount.is_zero() {
                continue;
            }
            columns.tenants.push(tenant.as_str());
            columns.days.push(*day);
            columns.outcomes.push(outcome.as_str());
            columns.currencies.push(*currency);
            columns.events.push(*events);
            columns.amounts.push(*amount);
        }
        columns
    }

    /// All of it in one statement, behind everything else: whoever waits for a total holds what it counts.
    ///
    /// # Errors
    /// The database is away.
    pub async fn write(&self, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        if self.is_empty() {
            return Ok(());
        }
        let columns = self.columns();
        sqlx::query(
            "insert into fis_received as r (tenant_id, received_on, outcome, currency, events, amount)
             select * from unnest($1::text[], $2::date[], $3::text[], $4::text[], $5::bigint[], $6::numeric[])
                 on conflict (tenant_id, received_on, outcome, currency)
                 do update set events = r.events + excluded.events, amount = r.amount + excluded.amount",
        )
        .bind(columns.tenants)
        .bind(columns.days)
        .bind(columns.outcomes)
        .bind(columns.currencies)
        .bind(columns.events)
        .bind(columns.amounts)
        .execute(db)
        .await?;
        Ok(())
    }
}

/// The changes as arrays.
#[derive(Default)]
pub(super) struct Columns<'a> {
    pub tenants: Vec<&'a str>,
    pub days: Vec<NaiveDate>,
    pub outcomes: Vec<&'static str>,
    pub currencies: Vec<&'static str>,
    pub events: Vec<i64>,
    pub amounts: Vec<Decimal>,
}
