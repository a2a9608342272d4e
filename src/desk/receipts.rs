//! The fate of one event, from PostgreSQL alone. A tenant and an event id enter, everything that is written down about the event leaves.
//! An event that the books ignore is remembered for [`IGNORED_DAYS`]; after that it is not told apart from one that never came.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rust_decimal::Decimal;

use super::entries::{JournalLine, told_line};
use super::{Desk, DeskError};
use crate::domain::books::Books;
use crate::domain::entry::{Line, Side};
use crate::domain::ids::{EventId, TenantId};
use crate::domain::letter::LetterStatus;
use crate::domain::money::Currency;
use crate::journal::books::{BooksError, in_force};
use crate::platform::time;
use crate::store::dead_letters::EventLetter;
use crate::store::held::HeldEvent;
use crate::store::ignored::IgnoredEvent;
use crate::store::journal::read;
use crate::store::receipts::{Account, PostedEntry, account_of};

pub use crate::store::ignored::KEPT_DAYS as IGNORED_DAYS;

/// Everything that the ledger has written down about one event.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventReceipt {
    pub tenant_id: String,
    pub event_id: String,
    pub status: EventStatus,
    pub entry: Option<ReceiptEntry>,
    pub held: Option<HeldEvent>,
    /// The newest first.
    pub dead_letters: Vec<EventLetter>,
    /// The last time that the books ignored it.
    pub ignored: Option<IgnoredEvent>,
    /// The tenant's zone, by its books in force; all moments are in UTC.
    pub timezone: Option<&'static str>,
    #[serde(skip)]
    pub zone: Option<Tz>,
    /// The moment of the answer: an event that is due by then is on its way back.
    #[serde(skip)]
    pub at: DateTime<Utc>,
}

/// The entry that was posted for an event, with its lines.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptEntry {
    #[serde(flatten)]
    pub posted: PostedEntry,
    /// The debits by currency: what the entry is worth.
    pub amounts: Vec<EntryAmount>,
    pub base_currency: Option<&'static str>,
    pub lines: Vec<JournalLine>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EntryAmount {
    pub amount: String,
    pub currency: &'static str,
}

/// The state of an event. An event that is posted stays posted, whatever else came under the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventStatus {
    Posted,
    Held,
    Rejected,
    Ignored,
    /// Never seen, still in a queue, or ignored longer ago than that is remembered.
    Unknown,
}

impl EventStatus {
    /// True where the event has come to its end: posted, or ignored by the books. The others are not in the books, or not yet.
    #[must_use]
    pub fn is_done(self) -> bool {
        match self {
            Self::Posted | Self::Ignored => true,
            Self::Held | Self::Rejected | Self::Unknown => false,
        }
    }

    fn of(account: &Account) -> Self {
        let is_open = |letter: &EventLetter| letter.status != LetterStatus::Resolved;
        if account.posted.is_some() {
            Self::Posted
        } else if account.held.is_some() {
            Self::Held
        } else if account.letters.iter().any(is_open) {
            Self::Rejected
        } else if account.ignored.is_some() {
            Self::Ignored
        } else if account.letters.is_empty() {
            Self::Unknown
        } else {
            // Its letter is resolved and there is no entry: the books ignored it, longer ago than that is remembered.
            Self::Ignored
        }
    }
}

impl Desk {
    /// The receipt of one event; an unknown event has one, too.
    ///
    /// # Errors
    /// The database is away.
    pub async fn receipt(&self, tenant: &TenantId, event: &EventId) -> Result<EventReceipt, DeskError> {
        let mut db = self.postgres.pool.acquire().await?;
        let account = account_of(&mut db, tenant, event).await?;
        let books = match in_force(&mut db, tenant).await {
            // What became of an event is known without the books, too; only names and the zone are not.
            Err(BooksError::Stored { .. }) => None,
            found => found?,
        };
        let status = EventStatus::of(&account);
        let entry = match account.posted {
            Some(posted) => {
                let place = (tenant.clone(), posted.sequence);
                let lines = read::lines(&mut db, std::slice::from_ref(&place)).await?.remove(&place);
                Some(told_entry(posted, &lines.unwrap_or_default(), books.as_ref()))
            }
            None => None,
        };
        let zone = books.map(|books| books.calendar.timezone);
        Ok(EventReceipt {
            tenant_id: tenant.to_string(),
            event_id: event.to_string(),
            status,
            entry,
            held: account.held,
            dead_letters: account.letters,
            ignored: account.ignored,
            timezone: zone.map(|zone| zone.name()),
            zone,
            at: time::now(),
        })
    }
}

fn told_entry(posted: PostedEntry, lines: &[Line], books: Option<&Books>) -> ReceiptEntry {
    let mut debits: BTreeMap<&'static str, (Currency, Decimal)> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.side == Side::Debit) {
        debits.entry(line.currency.code()).or_insert((line.currency, Decimal::ZERO)).1 += line.amount;
    }
    let amount =
        |(currency, sum): (Currency, Decimal)| EntryAmount { amount: currency.text(sum), currency: currency.code() };
    ReceiptEntry {
        posted,
        amounts: debits.into_values().map(amount).collect(),
        base_currency: books.map(|books| books.base_currency.code()),
        lines: lines.iter().map(|line| told_line(line, books)).collect(),
    }
}
