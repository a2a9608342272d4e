//! `fis feed`: what the readers of the feed get, seen from their side.

mod resend;
mod tail;
mod verify;

use std::process::ExitCode;

use chrono::{DateTime, NaiveDate};

use crate::desk::feed::Offset;
use crate::platform::config::Config;

#[derive(clap::Subcommand)]
pub enum FeedCommand {
    /// Show the stream live, one line per event
    Tail(tail::Tail),
    /// Read the stream or a queue as a reader would, and prove that nothing is missing or changed
    Verify(verify::FeedVerify),
    /// Send the entries of a range again, byte for byte
    Resend(resend::Resend),
}

impl FeedCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        match self {
            Self::Tail(tail) => tail.run(config).await,
            Self::Verify(verify) => verify.run(config).await,
            Self::Resend(resend) => resend.run(config).await,
        }
    }
}

/// `first`, `last`, `next`, an offset, or a time.
fn offset(text: &str) -> Result<Offset, String> {
    let seconds = |time: DateTime<chrono::Utc>| u64::try_from(time.timestamp()).map(Offset::Since);
    match text {
        "first" => return Ok(Offset::First),
        "last" => return Ok(Offset::Last),
        "next" => return Ok(Offset::Next),
        _ => {}
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let offset = text.parse().ok().filter(|offset| i64::try_from(*offset).is_ok());
        return offset.map(Offset::At).ok_or_else(|| "there is no offset that large".to_owned());
    }
    let day = || Some(text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0)?.and_utc());
    let time = DateTime::parse_from_rfc3339(text).ok().map(Into::into).or_else(day);
    let since = time.and_then(|time| seconds(time).ok());
    since.ok_or_else(|| "it is first, last, next, an offset, 2026-02-25 or 2026-02-25T10:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_begins_at_a_word_an_offset_or_a_time() {
        let rows = [
            ("first", Offset::First),
            ("last", Offset::Last),
            ("next", Offset::Next),
            ("0", Offset::At(0)),
            ("1042", Offset::At(1042)),
            ("1970-01-02", Offset::Since(86_400)),
            ("1970-01-01T02:00:01+01:00", Offset::Since(3601)),
        ];
        for (text, expected) in rows {
            assert_eq!(offset(text), Ok(expected), "{text}");
        }
        for text in ["", "-1", "1.5", "now", "99999999999999999999", "1969-01-01", "25.02.2026"] {
            assert!(offset(text).is_err(), "{text}");
        }
    }
}
