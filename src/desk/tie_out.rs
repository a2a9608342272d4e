//! A tenant's day tied out: received = posted + duplicate + ignored + held + parked + discarded, from PostgreSQL alone. A day enters; the
//! control totals, the rows that came of them, and every difference between the two leave. A day that was
//! not counted never adds up.

use std::collections::BTreeMap;

use chrono::{Months, NaiveDate};
use rust_decimal::Decimal;

use super::{Desk, DeskError, books_of};
use crate::domain::books::Books;
use crate::domain::ids::TenantId;
use crate::domain::money::Currency;
use crate::journal::tie_out::{self, Sum, TieOut};
use crate::platform::time;
use crate::store;
use crate::store::received::Outcome;

/// The most days of a span: more than a year. Each is counted anew.
const DAYS_MAX: i64 = 400;

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
    /// The day of the question, in the tenant's zone.
    #[serde(skip)]
    today: NaiveDate,
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

/// The days that are to be tied out, each on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TieOutSpan {
    Days {
        from: NaiveDate,
        to: NaiveDate,
    },
    /// A period of the books by its name, else a month such as `2026-10`.
    Period(String),
}

/// The days of a span that were counted, and all of them together. Days to come are left out.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TieOutSpanSheet {
    pub tenant_id: String,
    pub from: NaiveDate,
    pub to: NaiveDate,
    pub timezone: &'static str,
    pub days: Vec<TieOutSheet>,
    /// Its date is the last of the span.
    pub total: TieOutSheet,
    /// Every day was counted and adds up.
    pub adds_up: bool,
    pub counted_since: Option<NaiveDate>,
    pub without_tenant: i64,
    #[serde(skip)]
    today: NaiveDate,
}

impl TieOutSheet {
    /// True where the day was not counted: zero and zero would prove nothing.
    #[must_use]
    pub fn is_uncounted(&self) -> bool {
        self.date > self.today || self.counted_since.is_none_or(|since| self.date < since)
    }

    /// The cause for which a day that was not counted cannot be checked.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        self.is_uncounted().then(|| cause(&self.tenant_id, self.counted_since, (self.date, self.date), self.today))
    }
}

impl TieOutSpanSheet {
    /// The cause for which not every day of the span can be checked.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        let first = self.days.first().map(|day| day.date);
        match first {
            Some(first) if first == self.from => None,
            Some(first) => {
                let before = (self.from, first.pred_opt().unwrap_or(first));
                Some(cause(&self.tenant_id, self.counted_since, before, self.today))
            }
            None => Some(cause(&self.tenant_id, self.counted_since, (self.from, self.to), self.today)),
        }
    }
}

fn cause(tenant: &str, since: Option<NaiveDate>, (from, to): (NaiveDate, NaiveDate), today: NaiveDate) -> String {
    let days = if from == to { from.to_string() } else { format!("{from} to {to}") };
    match since {
        _ if from > today => format!("it is {today} at {tenant}, so {days} cannot be checked"),
        Some(since) => format!("fis has counted events of {tenant} only since {since}, so {days} cannot be checked"),
        None => format!("fis has counted no events of {tenant} yet, so {days} cannot be checked"),
    }
}

impl Desk {
    /// Ties one day of receipt out, else today; the day is one of the tenant's zone.
    ///
    /// # Errors
    /// There is no such tenant, or the database is away.
    pub async fn tie_out(&self, tenant: &TenantId, date: Option<NaiveDate>) -> Result<TieOutSheet, DeskError> {
        let mut transaction = self.postgres.pool.begin().await?;
        store::read_one_moment(&mut transaction).await?;
        let books = books_of(&mut transaction, tenant).await?;
        let today = books.calendar.local_date(time::now());
        let day = tie_out::read(&mut transaction, tenant, date.unwrap_or(today)).await?;
        transaction.rollback().await?;
        Ok(sheet(&books, date.unwrap_or(today), today, &day))
    }

    /// Ties each day of a span out, all as of one moment.
    ///
    /// # Errors
    /// There is no such tenant or period, the span has no day or too many, or the database is away.
    pub async fn tie_out_span(&self, tenant: &TenantId, span: &TieOutSpan) -> Result<TieOutSpanSheet, DeskError> {
        let mut transaction = self.postgres.pool.begin().await?;
        store::read_one_moment(&mut transaction).await?;
        let books = books_of(&mut transaction, tenant).await?;
        let today = books.calendar.local_date(time::now());
        let (from, to) = days_of(span, &books)?;
        let (mut days, mut total, mut since) = (Vec::new(), TieOut::default(), None);
        for date in from.iter_days().take_while(|date| *date <= to.min(today).max(from)) {
            let day = tie_out::read(&mut transaction, tenant, date).await?;
            (since, total.since, total.nameless) = (day.since, day.since, day.nameless);
            let sheet = sheet(&books, date, today, &day);
            if !sheet.is_uncounted() || !sheet.differences.is_empty() {
                total.plus(&day);
                days.push(sheet);
            }
        }
        transaction.rollback().await?;
        let last = to.min(today).max(from);
        let mut span = TieOutSpanSheet {
            tenant_id: tenant.to_string(),
            from,
            to: last,
            timezone: books.calendar.timezone.name(),
            total: sheet(&books, last, today, &total),
            adds_up: days.iter().all(|day| day.adds_up),
            days,
            counted_since: since,
            without_tenant: total.nameless,
            today,
        };
        span.adds_up = span.adds_up && span.why_not().is_none();
        Ok(span)
    }
}

/// The first and the last day of a span.
fn days_of(span: &TieOutSpan, books: &Books) -> Result<(NaiveDate, NaiveDate), DeskError> {
    let (from, to) = match span {
        TieOutSpan::Days { from, to } => (*from, *to),
        TieOutSpan::Period(name) => {
            let period = books.calendar.periods().iter().find(|period| period.name == *name);
            period.map(|period| (period.starts, period.ends)).or_else(|| month(name)).ok_or_else(|| {
                let why =
                    format!("the books of {} have no period `{name}`; a month is written 2026-10", books.tenant_id);
                DeskError::Invalid { why }
            })?
        }
    };
    if from > to {
        return Err(DeskError::Invalid { why: format!("{from} lies behind {to}") });
    }
    if (to - from).num_days() >= DAYS_MAX {
        return Err(DeskError::Invalid { why: format!("{from} to {to} are more than {DAYS_MAX} days") });
    }
    Ok((from, to))
}

fn month(name: &str) -> Option<(NaiveDate, NaiveDate)> {
    let first: NaiveDate =
        format!("{name}-01").parse().ok().filter(|first: &NaiveDate| first.to_string() == format!("{name}-01"))?;
    Some((first, first.checked_add_months(Months::new(1))?.pred_opt()?))
}

fn sheet(books: &Books, date: NaiveDate, today: NaiveDate, day: &TieOut) -> TieOutSheet {
    let (received, accounted) = (day.received(), day.accounted());
    let difference = |(what, counted, found): &(&'static str, Sum, Sum)| TieOutDifference {
        what,
        counted: told(counted),
        found: told(found),
    };
    let none = Sum::default();
    let mut sheet = TieOutSheet {
        tenant_id: books.tenant_id.to_string(),
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
        today,
    };
    sheet.adds_up = sheet.differences.is_empty() && !sheet.is_uncounted();
    sheet
}

fn told(sum: &Sum) -> EventSum {
    let amount = |currency: &str, amount: Decimal| {
        Currency::parse(currency).map_or_else(|| amount.to_string(), |currency| currency.text(amount))
    };
    let money = sum.money.iter().map(|(currency, sum)| (currency.clone(), amount(currency, *sum)));
    EventSum { events: sum.events, money: money.collect() }
}
