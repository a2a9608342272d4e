//! A tenant's day tied out: received = posted + duplicate + ignored + held + parked + discarded, from PostgreSQL alone. A day enters; the
//! control totals, the rows that came of them, and every difference between the two leave. A day before the first that was counted never adds up.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;

use super::{Desk, DeskError, books_of};
use crate::domain::ids::TenantId;
use crate::domain::money::Currency;
use crate::journal::tie_out::{self, Sum};
use crate::store;
use crate::store::received::Outcome;

/// The control totals of a day beside the rows of now.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TieOutSheet {
    pub tenant_id: String,
    pub date: NaiveDate,
    pub timezone: &'static str,
    pub received: EventSum,
    /// One sum for each outcome, in the order of the road.
    #[serde(serialize_with = "super::maps::pairs")]
    pub outcomes: Vec<(Outcome, EventSum)>,
    /// All outcomes together.
    #[serde(skip)]
    pub accounted: EventSum,
    /// Received less accounted.
    pub difference: EventSum,
    pub differences: Vec<TieOutDifference>,
    pub adds_up: bool,
    /// The first day on which anything was counted for the tenant.
    pub counted_since: Option<NaiveDate>,
    /// Open dead letters that no tenant can be read from, of any day.
    pub without_tenant: i64,
}

/// A number of events with their money by currency.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EventSum {
    pub events: i64,
    pub money: BTreeMap<String, String>,
}

/// An outcome whose rows are not what was counted.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TieOutDifference {
    pub what: &'static str,
    pub counted: EventSum,
    pub found: EventSum,
}

impl TieOutSheet {
    /// True where the day lies before the first that was counted: zero and zero would prove nothing.
    #[must_use]
    pub fn is_before_counting(&self) -> bool {
        self.counted_since.is_none_or(|since| self.date < since)
    }
}

impl Desk {
    /// Ties one day of receipt out; the day is one of the tenant's zone.
    ///
    /// # Errors
    /// There is no such tenant, or the database is away.
    pub async fn tie_out(&self, tenant: &TenantId, date: NaiveDate) -> Result<TieOutSheet, DeskError> {
        let mut transaction = self.postgres.pool.begin().await?;
        store::read_one_moment(&mut transaction).await?;
        let books = books_of(&mut transaction, tenant).await?;
        let day = tie_out::read(&mut transaction, tenant, date).await?;
        transaction.rollback().await?;
        let (received, accounted) = (day.received(), day.accounted());
        let difference = |(what, counted, found): &(&'static str, Sum, Sum)| TieOutDifference {
            what,
            counted: told(counted),
            found: told(found),
        };
        let none = Sum::default();
        let mut sheet = TieOutSheet {
            tenant_id: tenant.to_string(),
            date,
            timezone: books.calendar.timezone.name(),
            outcomes: Outcome::ALL.map(|column| (column, told(day.found.get(&column).unwrap_or(&none)))).into(),
            difference: told(&received.minus(&accounted)),
            received: told(&received),
            accounted: told(&accounted),
            differences: day.differences().iter().map(difference).collect(),
            adds_up: false,
            counted_since: day.since,
            without_tenant: day.nameless,
        };
        sheet.adds_up = sheet.differences.is_empty() && !sheet.is_before_counting();
        Ok(sheet)
    }
}

fn told(sum: &Sum) -> EventSum {
    let amount = |currency: &str, amount: Decimal| {
        Currency::parse(currency).map_or_else(|| amount.to_string(), |currency| currency.text(amount))
    };
    let money = sum.money.iter().map(|(currency, sum)| (currency.clone(), amount(currency, *sum)));
    EventSum { events: sum.events, money: money.collect() }
}
