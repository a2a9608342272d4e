//! What a held event waits for. A failure names it, the ledger stores it as text, and whoever removes a cause (a posting, new
//! books) finds the events that waited for it. An event is never called back for a cause that is still there: that
//! would spend its attempts.

use std::fmt;

use chrono::NaiveDate;

use super::ids::EventId;
use super::money::Currency;

/// What books have to become.
const READABLE: &str = "readable";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsFor {
    /// The event whose entry this one reverses.
    Event(EventId),
    /// Every rate that is missing: one of two would not help.
    Rates { from: Vec<Currency>, to: Currency, date: NaiveDate },
    /// An open period on its own date; a reversal is also content with one on the date of its original.
    Period { date: NaiveDate, original: Option<NaiveDate> },
    /// Books in force that can be read.
    Books,
}

impl WaitsFor {
    /// Reads what `Display` writes; nothing else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "event" => EventId::parse(rest).ok().map(Self::Event),
            "rate" => {
                let (pair, date) = rest.split_once('@')?;
                let (from, to) = pair.split_once('/')?;
                let from = from.split(',').map(Currency::parse).collect::<Option<_>>()?;
                Some(Self::Rates { from, to: Currency::parse(to)?, date: date.parse().ok()? })
            }
            "period" => {
                let (date, original) = match rest.split_once(',') {
                    Some((date, original)) => (date, Some(original.parse().ok()?)),
                    None => (rest, None),
                };
                Some(Self::Period { date: date.parse().ok()?, original })
            }
            "books" => (rest == READABLE).then_some(Self::Books),
            _ => None,
        }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => write!(f, "event:{event}"),
            Self::Rates { from, to, date } => {
                let from: Vec<&str> = from.iter().map(|currency| currency.code()).collect();
                write!(f, "rate:{}/{}@{date}", from.join(","), to.code())
            }
            Self::Period { date, original: None } => write!(f, "period:{date}"),
            Self::Period { date, original: Some(original) } => write!(f, "period:{date},{original}"),
            Self::Books => write!(f, "books:{READABLE}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_read_as_it_was_written() {
        for text in [
            "event:evt:1,/@",
            "rate:GBP/EUR@2026-02-25",
            "rate:GBP,USD/EUR@2026-02-25",
            "period:2026-01-10",
            "period:2026-01-10,2025-12-31",
            "books:readable",
        ] {
            assert_eq!(WaitsFor::parse(text).map(|cause| cause.to_string()).as_deref(), Some(text));
        }
        for text in [
            "",
            "event:",
            "rate:/EUR@2026-02-25",
            "rate:GBP/EUR",
            "period:",
            "period:2026-01-10,",
            "books:",
            "moon:full",
        ] {
            assert_eq!(WaitsFor::parse(text), None, "{text}");
        }
    }
}
