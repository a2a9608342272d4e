//! Accounting periods. A date enters, the date on which an entry may be posted leaves, or the reason why not. Nothing is
//! ever dated into a closed period.

use chrono::{DateTime, NaiveDate, Utc};
use chrono_tz::Tz;

use super::disposition::{Failure, Reason};
use super::waits_for::WaitsFor;

/// The treatment of an event dated where no period is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateEvents {
    Reject,
    Hold,
    NextOpen,
}

impl LateEvents {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Hold => "hold",
            Self::NextOpen => "next_open",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Period {
    pub name: String,
    pub starts: NaiveDate,
    pub ends: NaiveDate,
    pub open: bool,
}

/// The periods of one version of the books, in order, without overlap.
#[derive(Debug, Clone)]
pub struct Calendar {
    pub timezone: Tz,
    late_events: LateEvents,
    periods: Vec<Period>,
}

impl Calendar {
    /// # Errors
    /// Two periods overlap, or one ends before it starts.
    pub fn new(timezone: Tz, late_events: LateEvents, mut periods: Vec<Period>) -> Result<Self, String> {
        periods.sort_by_key(|period| period.starts);
        for period in &periods {
            if period.ends < period.starts {
                return Err(format!("period `{}` ends before it starts", period.name));
            }
        }
        for pair in periods.windows(2) {
            if let [a, b] = pair
                && b.starts <= a.ends
            {
                return Err(format!("periods `{}` and `{}` overlap", a.name, b.name));
            }
        }
        Ok(Self { timezone, late_events, periods })
    }

    /// In the order of their days.
    #[must_use]
    pub fn periods(&self) -> &[Period] {
        &self.periods
    }

    #[must_use]
    pub fn late_events(&self) -> LateEvents {
        self.late_events
    }

    /// The tenant's local date of an instant.
    #[must_use]
    pub fn local_date(&self, instant: DateTime<Utc>) -> NaiveDate {
        instant.with_timezone(&self.timezone).date_naive()
    }

    #[must_use]
    pub fn is_open(&self, date: NaiveDate) -> bool {
        self.period_of(date).is_some_and(|period| period.open)
    }

    #[must_use]
    pub fn period_of(&self, date: NaiveDate) -> Option<&Period> {
        self.periods.iter().find(|period| (period.starts..=period.ends).contains(&date))
    }

    /// # Errors
    /// No period is open on the date; the tenant's policy is not asked.
    pub fn open_date(&self, date: NaiveDate) -> Result<NaiveDate, Failure> {
        if self.is_open(date) { Ok(date) } else { Err(Failure::new(Reason::PeriodClosed, self.not_open(date))) }
    }

    fn not_open(&self, date: NaiveDate) -> String {
        match self.period_of(date) {
            Some(period) => format!("{date} is in period `{}`, which is closed", period.name),
            None => format!("{date} is in no period of the books"),
        }
    }

    /// # Errors
    /// No period is open on the date, and the tenant's policy does not move the event.
    pub fn posting_date(&self, date: NaiveDate) -> Result<NaiveDate, Failure> {
        if self.is_open(date) {
            return Ok(date);
        }
        let found = self.not_open(date);
        let waits_for = WaitsFor::Period { date, original: None };
        match self.late_events {
            LateEvents::Reject => Err(Failure::new(Reason::PeriodClosed, found)),
            LateEvents::Hold => Err(Failure::new(Reason::PeriodNotOpen, found).until(waits_for)),
            LateEvents::NextOpen => self
                .periods
                .iter()
                .find(|period| period.open && period.starts > date)
                .map(|period| period.starts)
                .ok_or_else(|| {
                    let detail = format!("{found}, and no later period is open");
                    Failure::new(Reason::PeriodNotOpen, detail).until(waits_for)
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn calendar(late_events: LateEvents) -> Calendar {
        let period = |name: &str, starts, ends, open| Period {
            name: name.to_owned(),
            starts: day(starts),
            ends: day(ends),
            open,
        };
        let periods = vec![
            period("2026-03", "2026-03-01", "2026-03-31", true),
            period("2026-01", "2026-01-01", "2026-01-31", false),
            period("2026-02", "2026-02-01", "2026-02-28", true),
        ];
        Calendar::new(chrono_tz::Europe::Berlin, late_events, periods).unwrap()
    }

    #[test]
    fn late_events_are_rejected_held_or_moved_to_the_next_open_day() {
        let rows = [
            ("2026-02-10", LateEvents::Reject, Ok("2026-02-10")),
            ("2026-01-10", LateEvents::Reject, Err(Reason::PeriodClosed)),
            ("2026-01-10", LateEvents::Hold, Err(Reason::PeriodNotOpen)),
            ("2026-01-10", LateEvents::NextOpen, Ok("2026-02-01")),
            ("2026-04-01", LateEvents::Reject, Err(Reason::PeriodClosed)),
            ("2026-04-01", LateEvents::NextOpen, Err(Reason::PeriodNotOpen)),
        ];
        for (date, policy, expected) in rows {
            let got = calendar(policy).posting_date(day(date)).map_err(|failure| failure.reason);
            assert_eq!(got, expected.map(day), "{date} {policy:?}");
        }
    }

    #[test]
    fn the_accounting_date_is_the_tenants_local_date() {
        let instant = |text: &str| DateTime::parse_from_rfc3339(text).unwrap().to_utc();
        let calendar = calendar(LateEvents::Reject);
        assert_eq!(calendar.local_date(instant("2026-02-25T23:30:00Z")), day("2026-02-26"));
        assert_eq!(calendar.local_date(instant("2026-02-25T22:30:00Z")), day("2026-02-25"));
    }

    #[test]
    fn periods_that_overlap_or_run_backwards_are_refused() {
        let period = |name: &str, starts, ends| Period {
            name: name.to_owned(),
            starts: day(starts),
            ends: day(ends),
            open: true,
        };
        let overlap = vec![period("a", "2026-01-01", "2026-01-31"), period("b", "2026-01-31", "2026-02-28")];
        assert!(Calendar::new(chrono_tz::UTC, LateEvents::Reject, overlap).is_err());
        let backwards = vec![period("a", "2026-01-31", "2026-01-01")];
        assert!(Calendar::new(chrono_tz::UTC, LateEvents::Reject, backwards).is_err());
    }
}
