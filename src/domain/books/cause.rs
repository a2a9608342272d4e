//! The causes for which events are held, beside the books: which of them are gone. A cause enters, an answer leaves.

use super::Books;
use crate::domain::disposition::{Failure, Reason};
use crate::domain::waits_for::WaitsFor;

impl Books {
    /// True where these books do not hold an event for this cause any more, whatever else they make of the event. What only the
    /// journal can bring is never gone by books.
    #[must_use]
    pub fn is_gone(&self, cause: &WaitsFor) -> bool {
        match cause {
            WaitsFor::Event(_) => false,
            // They can be read: here they are.
            WaitsFor::Books => true,
            WaitsFor::Rates { from, to, date } => {
                *to != self.base_currency || from.iter().all(|from| self.rates.has(*from, *to, *date))
            }
            WaitsFor::Period { date, original } => {
                let held = |failure: Failure| failure.reason == Reason::PeriodNotOpen;
                original.is_some_and(|original| self.calendar.is_open(original))
                    || !self.calendar.posting_date(*date).is_err_and(held)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("books:readable", books("hold", "open", &[]), true),
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
            assert_eq!(books.is_gone(&WaitsFor::parse(cause).unwrap()), gone, "{cause}");
        }
    }
}
