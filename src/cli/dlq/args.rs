//! The arguments that the `dlq` commands share: which letters. What was written enters, a filter over letters that exist leaves; a name that nothing
//! has is refused with what was probably meant.

use chrono::{DateTime, TimeDelta, Utc};
use rust_decimal::Decimal;

use crate::cli::{TenantArg, WrongUsage, printable};
use crate::desk::letters::{Filter, Scope};
use crate::desk::{Desk, DeskError};
use crate::domain::disposition::Reason;
use crate::domain::expr::closest;
use crate::domain::letter::LetterStatus;
use crate::platform::time;

/// Which letters.
#[derive(clap::Args, Clone, Default)]
pub struct Which {
    #[arg(long, value_parser = reason)]
    reason: Option<Reason>,
    #[command(flatten)]
    tenant: TenantArg,
    #[arg(long)]
    routing_key: Option<String>,
    /// Only letters first seen before this time (RFC 3339)
    #[arg(long)]
    before: Option<DateTime<Utc>>,
    /// Only letters first seen at or after this time (RFC 3339)
    #[arg(long)]
    after: Option<DateTime<Utc>>,
    /// Only letters first seen longer ago than this: 30m, 12h, 3d
    #[arg(long, value_name = "AGE", value_parser = duration, conflicts_with = "before")]
    older_than: Option<TimeDelta>,
    /// Only letters first seen within this time: 30m, 12h, 3d
    #[arg(long, value_name = "AGE", value_parser = duration, conflicts_with = "after")]
    newer_than: Option<TimeDelta>,
    /// Only this group of `fis dlq groups`
    #[arg(long)]
    group: Option<String>,
    /// Only letters whose detail contains this text (case-insensitive)
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
    /// True where the command itself says nothing about which letters; the environment may name a tenant, and must not stand for a choice.
    pub fn names_nothing(&self, ids: &[String]) -> bool {
        let tenant = self.tenant.said().map(ToString::to_string);
        self.clone().choice(Scope::Parked, ids.to_vec(), tenant).is_everything()
    }

    /// The filter, over a tenant that exists. Letters that are named by their ids are meant whosever they are, unless the command says otherwise.
    pub async fn filter(&self, desk: &Desk, scope: Scope, ids: Vec<String>) -> anyhow::Result<Filter> {
        let tenant = if ids.is_empty() || self.tenant.said().is_some() { self.tenant.only(desk).await? } else { None };
        Ok(self.clone().choice(scope, ids, tenant.map(|tenant| tenant.to_string())))
    }

    fn choice(self, scope: Scope, ids: Vec<String>, tenant: Option<String>) -> Filter {
        let now = time::now();
        let ago = |age: Option<TimeDelta>| age.and_then(|age| now.checked_sub_signed(age));
        Filter {
            scope,
            ids,
            reason: self.reason.map(|reason| reason.code().to_owned()),
            tenant,
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

/// A reason by its code.
fn reason(text: &str) -> Result<Reason, String> {
    let codes = || Reason::ALL.iter().map(|reason| reason.code());
    Reason::from_code(text).ok_or_else(|| match closest(text, codes()) {
        Some(near) => format!("there is no such reason, did you mean `{near}`?"),
        None => format!("reasons are {}", codes().collect::<Vec<_>>().join(", ")),
    })
}

/// Says of each letter that is named and not parked why it is left out.
pub async fn tell_not_parked(desk: &Desk, ids: &[String], why: Option<&str>) -> anyhow::Result<()> {
    for (id, status) in desk.named_letters(ids).await.map_err(|error| with_hint(error, why))? {
        match status {
            LetterStatus::Parked => {}
            LetterStatus::Discarded => {
                eprintln!("fis: {id} is discarded and left out; `fis dlq restore {id} --why WHY` parks it again");
            }
            LetterStatus::Resolved => eprintln!("fis: {id} is resolved and left out; there is nothing to be done"),
            LetterStatus::Replaying => eprintln!("fis: {id} is replaying and left out; its event comes back by itself"),
        }
    }
    Ok(())
}

/// Words behind a `--why` without quotes are taken for ids; whoever sees them refused learns why.
pub fn with_hint(error: DeskError, why: Option<&str>) -> anyhow::Error {
    let DeskError::NoLetters { ids } = &error else { return error.into() };
    let looks_like_words = ids.iter().all(|id| !id.starts_with("dl_"));
    match why {
        Some(why) if looks_like_words => {
            let reason = printable(&format!("{why} {}", ids.join(" ")));
            WrongUsage(format!(
                "{}; a reason of several words has quotes: --why \"{reason}\"",
                printable(&error.to_string())
            ))
            .into()
        }
        _ => WrongUsage(printable(&error.to_string())).into(),
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
