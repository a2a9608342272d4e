//! What a held event waits for. A failure names it, the ledger stores it as text, and whoever removes a cause (a posting, new
//! books) finds the events that waited for it. An event is never called back for a cause that is still there: that
//! would spend its attempts.

use std::fmt;

use chrono::NaiveDate;

use super::books::Books;
use super::disposition::Reason;
use super::ids::EventId;
use super::money::Currency;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsFor {
    /// The event whose entry this one reverses.
    Event(EventId),
    /// Every rate that is missing: one of two would not help.
    Rates { from: Vec<Currency>, to: Currency, date: NaiveDate },
    /// An open period on its own date; a reversal is also content with one on the date of its original.
    Period { date: NaiveDate, original: Option<NaiveDate> },
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
            _ => None,
        }
    }

    /// True where these books do not hold an event for this any more, whatever else they make of it. What only the
    /// journal can bring is never gone by books.
    #[must_use]
    pub fn is_gone(&self, books: &Books) -> bool {
        match self {
            Self::Event(_) => false,
            Self::Rates { from, to, date } => {
                *to != books.base_currency || from.iter().all(|from| books.rates.has(*from, *to, *date))
            }
            Self::Period { date, original } => {
                let held = |failure: super::disposition::Failure| failure.reason == Reason::PeriodNotOpen;
                original.is_some_and(|original| books.calendar.is_open(original))
                    || !books.calendar.posting_date(*date).is_err_and(held)
            }
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
        ] {
            assert_eq!(WaitsFor::parse(text).map(|cause| cause.to_string()).as_deref(), Some(text));
        }
        for text in ["", "event:", "rate:/EUR@2026-02-25", "rate:GBP/EUR", "period:", "period:2026-01-10,", "moon:full"]
        {
            assert_eq!(WaitsFor::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_cause_is_gone_only_where_the_event_would_not_be_held_for_it_again() {
        let books = |late: &str, status: &str, rates: &[(&str, &str)]| {
            let rates: String = rates
                .iter()
                .map(|(from, date)| {
                    format!("[[rates]]\nfrom = \"{from}\"\nto = \"EUR\"\ndate = {date}\nrate = \"1.5\"\n")
                })
                .collect();
            let text = format!(
                "tenant = \"t\"\nbase_currency = \"EUR\"\nlate_events = \"{late}\"\n\
                 [[accounts]]\ncode = \"1\"\ntype = \"asset\"\n\
                 [[periods]]\nname = \"jan\"\nstarts = 2026-01-01\nends = 2026-01-31\nstatus = \"{status}\"\n{rates}"
            );
            Books::parse(&text, 1).unwrap()
        };
        let rows = [
            ("event:e", books("hold", "open", &[]), false),
            ("rate:GBP/EUR@2026-01-10", books("hold", "open", &[("GBP", "2026-01-11")]), false),
            ("rate:GBP/EUR@2026-01-10", books("hold", "open", &[("GBP", "2026-01-10")]), true),
            ("rate:GBP,USD/EUR@2026-01-10", books("hold", "open", &[("GBP", "2026-01-10")]), false),
            (
                "rate:GBP,USD/EUR@2026-01-10",
                books("hold", "open", &[("GBP", "2026-01-01"), ("USD", "2026-01-01")]),
                true,
            ),
            ("period:2026-01-10", books("hold", "closed", &[]), false),
            ("period:2026-01-10", books("hold", "open", &[]), true),
            ("period:2026-01-10", books("reject", "closed", &[]), true),
            ("period:2026-01-10", books("next_open", "closed", &[]), false),
            ("period:2025-12-10", books("next_open", "open", &[]), true),
            ("period:2027-01-10,2026-01-10", books("hold", "open", &[]), true),
            ("period:2027-01-10,2026-01-10", books("hold", "closed", &[]), false),
        ];
        for (cause, books, gone) in rows {
            assert_eq!(WaitsFor::parse(cause).unwrap().is_gone(&books), gone, "{cause}");
        }
    }
}
