//! Arguments that several commands take: text enters, a value or what would be right leaves.

use chrono::NaiveDate;

use crate::domain::ids::{EventId, TenantId};

/// A tenant's name as an argument.
pub fn tenant(text: &str) -> Result<TenantId, String> {
    TenantId::parse(text).map_err(|error| error.to_string())
}

/// A tenant's name that is looked at only when the command runs.
pub fn parse_tenant(text: &str) -> anyhow::Result<TenantId> {
    TenantId::parse(text).map_err(|error| anyhow::anyhow!("the tenant {error}"))
}

/// An event's or a batch's id as an argument.
pub fn event(text: &str) -> Result<EventId, String> {
    EventId::parse(text).map_err(|error| error.to_string())
}

/// A date in its one spelling, as in the books.
pub fn day(text: &str) -> Result<NaiveDate, String> {
    let date = text.parse::<NaiveDate>().ok().filter(|date| date.to_string() == text);
    date.ok_or_else(|| "a date is written 2026-02-25".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_one_spelling() {
        assert!(day("2026-02-25").is_ok());
        for text in ["2026-2-25", " 2026-02-25", "2026-02-30", "25.02.2026", ""] {
            assert!(day(text).is_err(), "{text}");
        }
    }
}
