//! What was received, counted as it is decided: the control totals that `tie_out` compares with the rows. Every message counts
//! on the tenant's day on which it came, in the column of what became of it; where an event moves later, it leaves one column
//! of that day for another. What is posted is counted in the statement that writes the entries; the rest costs one more, where there is any.
//!
//! | what happens | counted |
//! |---|---|
//! | a message makes a row: an entry, a held event, a dead letter | in that row's column, today |
//! | a message that a rule ignores; one of an event that has its row already | ignored; duplicate |
//! | our own retry or replay moves a row | from column to column, on the row's own day |
//! | another message is posted instead of what is held or parked, or ends what is held | that one becomes a duplicate, on its own day |
//! | other content is posted under the id of what is held | that one is counted anew when it comes back, as a conflict |
//!
//! Whether a message is our own only its headers say. A forged one can keep a duplicate from being counted, and no more: what
//! has a row is counted by that row.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::standing::Waiting;
use crate::domain::chain::ChainedEntry;
use crate::domain::entry::Side;
use crate::domain::ids::TenantId;
use crate::domain::money::Currency;

pub type Money = Option<(Decimal, Currency)>;

/// A message as it came.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The tenant's day.
    pub on: NaiveDate,
    /// The day that the event is about, where it says so; else that of its receipt.
    pub event_date: NaiveDate,
    /// What it says it is worth.
    pub money: Money,
    /// How often the broker has delivered it before.
    pub deliveries: i64,
}

/// What a message found when its turn came.
#[derive(Debug, Clone, Copy)]
pub struct Passage {
    pub arrival: Arrival,
    /// It says that it is a retry or a replay, and so was received before.
    pub ours: bool,
    /// The dead letter that it is the replay of.
    pub letter: Option<OwnLetter>,
    /// The held event that it is the retry of.
    pub held: Option<Standing>,
}

/// A dead letter whose replay has come; locked.
#[derive(Debug, Clone, Copy)]
pub struct OwnLetter {
    pub open: bool,
    pub day: Option<NaiveDate>,
}

/// A held event as it is counted.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// `None`: it is not counted, a dead letter stands for it.
    pub day: Option<NaiveDate>,
    pub money: Money,
}

impl Passage {
    /// The day on which its letter is counted.
    fn letter_day(&self) -> Option<NaiveDate> {
        self.letter.filter(|letter| letter.open).and_then(|letter| letter.day)
    }

    /// The day of the entry that comes of it.
    pub fn day(&self) -> NaiveDate {
        self.letter_day().or(self.held.and_then(|held| held.day)).unwrap_or(self.arrival.on)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    Discarded,
    Duplicate,
    Held,
    Ignored,
    Parked,
    Posted,
}

impl Column {
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
}

/// By how much the totals change. The keys sort as the database's do byte by byte, so that two batches lock in one order.
#[derive(Debug, Default)]
pub struct Counts {
    rows: BTreeMap<(TenantId, NaiveDate, Column, &'static str), (i64, Decimal)>,
}

impl Counts {
    /// One event more in a column, or with `by` -1 one less.
    pub fn add(&mut self, tenant: &TenantId, day: NaiveDate, column: Column, by: i64, money: Money) {
        let currency = money.map_or("", |(_, currency)| currency.code());
        let row = self.rows.entry((tenant.clone(), day, column, currency)).or_default();
        row.0 += by;
        // Exact: `money_of` takes no amount of more than 21 digits.
        row.1 += Decimal::from(by) * money.map_or(Decimal::ZERO, |(amount, _)| amount);
    }

    pub fn entry(&mut self, entry: &ChainedEntry, day: NaiveDate) {
        // Every entry has a debit line, or it would not balance.
        let mut events = 1;
        for line in entry.lines.iter().filter(|line| line.side == Side::Debit) {
            let key = (entry.origin.tenant_id.clone(), day, Column::Posted, line.currency.code());
            let row = self.rows.entry(key).or_default();
            row.0 += std::mem::take(&mut events);
            row.1 += line.amount;
        }
    }

    /// A message of an event that has its row already.
    pub fn copy(&mut self, tenant: &TenantId, passage: &Passage) {
        if !passage.ours {
            self.add(tenant, passage.arrival.on, Column::Duplicate, 1, passage.arrival.money);
        }
    }

    pub fn ignored(&mut self, tenant: &TenantId, passage: &Passage) {
        self.held_to(tenant, passage.held, Column::Ignored);
        if !passage.ours {
            self.add(tenant, passage.arrival.on, Column::Ignored, 1, passage.arrival.money);
        }
    }

    /// What was in one column of its day is in another now.
    pub fn move_over(&mut self, tenant: &TenantId, day: Option<NaiveDate>, money: Money, from: Column, to: Column) {
        if let Some(day) = day {
            self.add(tenant, day, from, -1, money);
            self.add(tenant, day, to, 1, money);
        }
    }

    /// A held event that has made way for something else.
    pub fn held_to(&mut self, tenant: &TenantId, held: Option<Standing>, to: Column) {
        if let Some(Standing { day, money }) = held {
            self.move_over(tenant, day, money, Column::Held, to);
        }
    }

    /// A held event in whose stead another message was posted. A copy of that is a duplicate; other content comes back with its
    /// retry, as a conflict, and is counted then.
    pub fn overtaken(&mut self, tenant: &TenantId, waiting: &Waiting, posted_hash: &str) {
        match waiting.standing {
            held if waiting.payload_hash == posted_hash => self.held_to(tenant, Some(held), Column::Duplicate),
            Standing { day: Some(day), money } => self.add(tenant, day, Column::Held, -1, money),
            Standing { day: None, .. } => {}
        }
    }

    /// A held event whose own retry has made a row that is counted in its stead; unless that is counted in its letter's.
    pub fn no_longer_held(&mut self, tenant: &TenantId, passage: &Passage) {
        match passage.held {
            Some(_) if passage.letter_day().is_some() => self.held_to(tenant, passage.held, Column::Duplicate),
            Some(Standing { day: Some(day), money }) => self.add(tenant, day, Column::Held, -1, money),
            _ => {}
        }
    }

    /// What was posted, which is written with the entries; the others stay.
    pub(super) fn take_posted(&mut self) -> Self {
        let rows = std::mem::take(&mut self.rows).into_iter();
        let (posted, others) = rows.partition(|((_, _, column, _), _)| *column == Column::Posted);
        self.rows = others;
        Self { rows: posted }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.values().all(|row| row.0 == 0 && row.1.is_zero())
    }

    pub(super) fn columns(&self) -> Columns<'_> {
        let mut columns = Columns::default();
        for ((tenant, day, column, currency), (events, amount)) in &self.rows {
            if *events == 0 && amount.is_zero() {
                continue;
            }
            columns.tenants.push(tenant.as_str());
            columns.days.push(*day);
            columns.outcomes.push(column.as_str());
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

/// A row's money, as it was counted.
pub(super) fn money(row: &PgRow) -> Result<Money, sqlx::Error> {
    let (amount, currency): (Option<Decimal>, Option<&str>) = (row.try_get("amount")?, row.try_get("currency")?);
    Ok(amount.zip(currency.and_then(Currency::parse)))
}
