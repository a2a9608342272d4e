//! Tying a day out: the control totals that were kept while messages were decided (`received`) enter, and so do the rows that
//! came of them; whether they agree leaves. The rows are counted anew, so one that was lost, added or altered shows.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;
use sqlx::PgConnection;

use crate::domain::ids::TenantId;
use crate::store::received::Outcome;
use crate::store::tie_out::{self as store, OutcomeSum};

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
    /// The sums as they were decided. Parked and discarded letters are one number here: discarding moves no money.
    pub counted: BTreeMap<Outcome, Sum>,
    /// The sums of the rows as they are now.
    pub found: BTreeMap<Outcome, Sum>,
    /// The first day on which anything was counted for the tenant.
    pub since: Option<NaiveDate>,
    /// Open letters that name no tenant at all, of any day.
    pub nameless: i64,
}

impl TieOut {
    /// Adds another day to the sums.
    pub fn plus(&mut self, day: &Self) {
        for (mine, other) in [(&mut self.counted, &day.counted), (&mut self.found, &day.found)] {
            for (outcome, sum) in other {
                mine.entry(*outcome).or_default().plus(sum);
            }
        }
    }

    /// The sum of everything that came in.
    #[must_use]
    pub fn received(&self) -> Sum {
        total(self.counted.values())
    }

    /// The sum of everything that became of the received events.
    #[must_use]
    pub fn accounted(&self) -> Sum {
        total(self.found.values())
    }

    /// The outcomes whose rows are not what was counted: counted, found.
    #[must_use]
    pub fn differences(&self) -> Vec<(&'static str, Sum, Sum)> {
        let of = |outcomes: &[Outcome], sums: &BTreeMap<Outcome, Sum>| {
            total(outcomes.iter().filter_map(|outcome| sums.get(outcome)))
        };
        let pairs = [
            ("posted", &[Outcome::Posted][..]),
            ("held", &[Outcome::Held][..]),
            ("parked or discarded", &[Outcome::Parked, Outcome::Discarded][..]),
        ];
        let compared = pairs.map(|(name, outcomes)| (name, of(outcomes, &self.counted), of(outcomes, &self.found)));
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
    let add = |sums: &mut BTreeMap<Outcome, Sum>, sum: &OutcomeSum| {
        sums.entry(sum.outcome).or_default().add(&sum.currency, sum.events, sum.amount);
    };
    for sum in &store::kept(&mut *db, tenant, day).await? {
        add(&mut tie_out.counted, sum);
    }
    // What leaves no row is as it was counted.
    for outcome in [Outcome::Duplicate, Outcome::Ignored, Outcome::Discarded] {
        if let Some(sum) = tie_out.counted.get(&outcome) {
            tie_out.found.insert(outcome, sum.clone());
        }
    }
    let (entries, money) = store::posted(&mut *db, tenant, day).await?;
    let posted = tie_out.found.entry(Outcome::Posted).or_default();
    posted.events = entries;
    for (currency, amount) in money {
        posted.add(&currency, 0, amount);
    }
    for sum in &store::waiting(&mut *db, tenant, day).await? {
        add(&mut tie_out.found, sum);
    }
    tie_out.since = store::first_day(&mut *db, tenant).await?;
    tie_out.nameless = store::nameless_letters(db).await?;
    Ok(tie_out)
}
