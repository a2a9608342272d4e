//! The arguments that the `dlq` commands share: which letters, who does it, and why.

use chrono::{DateTime, TimeDelta, Utc};
use rust_decimal::Decimal;

use crate::desk::letters::{Filter, Scope};
use crate::domain::operator::{Operator, OperatorError, Through, WHY_BYTES_MAX};
use crate::platform::time;

/// Which letters.
#[derive(clap::Args, Clone, Default)]
pub struct Which {
    #[arg(long)]
    reason: Option<String>,
    #[arg(long)]
    tenant: Option<String>,
    #[arg(long)]
    routing_key: Option<String>,
    /// First seen before this time (RFC 3339)
    #[arg(long)]
    before: Option<DateTime<Utc>>,
    /// First seen at or after this time (RFC 3339)
    #[arg(long)]
    after: Option<DateTime<Utc>>,
    /// First seen longer ago than this: 30m, 12h, 3d
    #[arg(long, value_name = "AGE", value_parser = duration, conflicts_with = "before")]
    older_than: Option<TimeDelta>,
    /// First seen within this time: 30m, 12h, 3d
    #[arg(long, value_name = "AGE", value_parser = duration, conflicts_with = "after")]
    newer_than: Option<TimeDelta>,
    /// A group of `fis dlq groups`
    #[arg(long)]
    group: Option<String>,
    /// Stands somewhere in the detail, whatever its case
    #[arg(long)]
    text: Option<String>,
    #[arg(long)]
    currency: Option<String>,
    #[arg(long, value_name = "AMOUNT")]
    min_amount: Option<Decimal>,
    #[arg(long, value_name = "AMOUNT")]
    max_amount: Option<Decimal>,
}

impl Which {
    pub fn filter(self, scope: Scope, ids: Vec<String>) -> Filter {
        let now = time::now();
        let ago = |age: Option<TimeDelta>| age.and_then(|age| now.checked_sub_signed(age));
        Filter {
            scope,
            ids,
            reason: self.reason,
            tenant: self.tenant,
            routing_key: self.routing_key,
            before: self.before.or_else(|| ago(self.older_than)),
            after: self.after.or_else(|| ago(self.newer_than)),
            group: self.group,
            text: self.text,
            currency: self.currency,
            amount_min: self.min_amount,
            amount_max: self.max_amount,
        }
    }
}

/// Whose hand it is.
#[derive(clap::Args, Clone)]
pub struct Who {
    /// Who does it, for the record [default: $FIS_OPERATOR, else $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Who {
    pub fn operator(&self, why: &str) -> anyhow::Result<Operator> {
        let named = self.by.clone().or_else(|| std::env::var("FIS_OPERATOR").ok());
        let by = named.filter(|by| !by.trim().is_empty()).unwrap_or_else(super::super::operator);
        Operator::new(&by, why, Through::CommandLine).map_err(|error| match error {
            OperatorError::LongReason => anyhow::anyhow!("--why is longer than {WHY_BYTES_MAX} bytes"),
            error @ (OperatorError::Nobody | OperatorError::LongName) => error.into(),
        })
    }
}

/// `30m`, `12h`, `3d`.
pub fn duration(text: &str) -> Result<TimeDelta, String> {
    let wrong = || "an age is written 90s, 30m, 12h or 3d".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let number: i64 = text.strip_suffix(unit).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let seconds = number.checked_mul(seconds).filter(|seconds| (0..=100 * 366 * 86_400).contains(seconds));
    seconds.and_then(TimeDelta::try_seconds).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_a_number_and_a_unit() {
        assert_eq!(duration("90s").unwrap().num_seconds(), 90);
        assert_eq!(duration("3d").unwrap().num_hours(), 72);
        for text in ["", "d", "3", "3w", "-1d", "99999999999999999999d", "9999999999d", "3é"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
