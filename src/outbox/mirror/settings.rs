//! What an operator has asked for: the section `outbox.mirror` enters, a mirror that cannot turn in circles leaves, or the name
//! of the setting that is wrong.

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};

use crate::platform::amqp::topology::Topology;
use crate::platform::config;

/// AMQP's limit of a name.
const EXCHANGE_BYTES_MAX: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorSettings {
    pub exchange: String,
    /// `None`: without an end.
    pub until: Option<DateTime<Utc>>,
}

/// A setting that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongSetting {
    pub name: &'static str,
    pub reason: String,
}

impl MirrorSettings {
    /// `None`: switched off.
    ///
    /// # Errors
    /// The exchange is missing or fis's own, or the end cannot be read.
    pub fn of(config: &config::OutboxMirror, topology: &Topology) -> Result<Option<Self>, WrongSetting> {
        if !config.enabled {
            return Ok(None);
        }
        let wrong = |reason: &str| WrongSetting { name: "outbox.mirror.exchange", reason: reason.to_owned() };
        let exchange = config.exchange.clone();
        if exchange.trim().is_empty() {
            return Err(wrong("must name an exchange, because outbox.mirror.enabled is on"));
        }
        if exchange.len() > EXCHANGE_BYTES_MAX {
            return Err(wrong("is longer than 255 bytes"));
        }
        if topology.exchange(&exchange).is_some() {
            return Err(wrong(&format!("{exchange} is fis's own: events would come twice, or come back in")));
        }
        Ok(Some(Self { exchange, until: until(&config.until)? }))
    }

    #[must_use]
    pub fn until_text(&self) -> String {
        self.until.map_or_else(|| "without an end".to_owned(), |until| format!("until {}", until.to_rfc3339()))
    }
}

fn until(text: &str) -> Result<Option<DateTime<Utc>>, WrongSetting> {
    if text.is_empty() {
        return Ok(None);
    }
    if let Ok(date) = text.parse::<NaiveDate>() {
        return Ok(Some(date.and_time(NaiveTime::MIN).and_utc()));
    }
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| WrongSetting {
        name: "outbox.mirror.until",
        reason: "must be a date such as 2027-01-31 or a time such as 2027-01-31T18:00:00Z".to_owned(),
    })?;
    Ok(Some(time.to_utc()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(exchange: &str, until: &str) -> Result<Option<MirrorSettings>, WrongSetting> {
        let config = config::OutboxMirror {
            enabled: true,
            exchange: exchange.to_owned(),
            until: until.to_owned(),
            ..config::OutboxMirror::default()
        };
        MirrorSettings::of(&config, &Topology::embedded().unwrap())
    }

    #[test]
    fn a_date_is_its_first_moment_in_utc_and_a_time_may_have_any_offset() {
        for (text, expected) in [
            ("", "without an end"),
            ("2027-01-31", "until 2027-01-31T00:00:00+00:00"),
            ("2027-01-31T18:00:00Z", "until 2027-01-31T18:00:00+00:00"),
            ("2027-01-31T18:00:00.5+02:00", "until 2027-01-31T16:00:00.500+00:00"),
        ] {
            assert_eq!(of("new", text).unwrap().unwrap().until_text(), expected, "{text}");
        }
        for text in ["tomorrow", "2027-02-30", "2027-01-31T18:00:00", "31.01.2027", " "] {
            assert_eq!(of("new", text).unwrap_err().name, "outbox.mirror.until", "{text}");
        }
    }

    #[test]
    fn an_exchange_that_would_turn_in_circles_is_refused_and_so_is_none() {
        let topology = Topology::embedded().unwrap();
        let own = topology.exchanges.iter().map(|exchange| exchange.name.clone());
        for name in own.chain([String::new(), " ".to_owned(), "x".repeat(256)]) {
            assert_eq!(of(&name, "").unwrap_err().name, "outbox.mirror.exchange", "{name}");
        }
        assert_eq!(MirrorSettings::of(&config::OutboxMirror::default(), &topology), Ok(None));
    }
}
