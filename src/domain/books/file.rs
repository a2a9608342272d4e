//! The shape of a books file. TOML enters, the things it names leave, each with its place. Kinds, names of fields and words
//! are checked here; what the things mean to one another is not.

use chrono::NaiveDate;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::fields::{Fields, Text};
use super::mistake::Mistakes;
use super::{AccountType, Unmatched};
use crate::domain::period::LateEvents;
use crate::domain::retry::RetryPolicy;

const SETTINGS: [&str; 12] = [
    "tenant",
    "name",
    "base_currency",
    "timezone",
    "late_events",
    "unmatched",
    "auto_replay",
    "rounding_account",
    "accounts",
    "periods",
    "rates",
    "rules",
];
const OF_ACCOUNT: [&str; 5] = ["code", "name", "type", "currency", "closed"];
const OF_PERIOD: [&str; 4] = ["name", "starts", "ends", "status"];
const OF_RATE: [&str; 4] = ["from", "to", "date", "rate"];
const OF_RULE: [&str; 11] =
    ["name", "on", "when", "date", "currency", "description", "each", "reverses", "ignore", "lines", "retry"];
const OF_LINE: [&str; 5] = ["debit", "credit", "amount", "currency", "when"];
const OF_RETRY: [&str; 5] =
    ["max_retries", "base_delay_seconds", "backoff_multiplier", "max_delay_seconds", "jitter_seconds"];

const LATE_EVENTS: [(&str, LateEvents); 3] =
    [("reject", LateEvents::Reject), ("hold", LateEvents::Hold), ("next_open", LateEvents::NextOpen)];
const UNMATCHED: [(&str, Unmatched); 2] = [("reject", Unmatched::Reject), ("ignore", Unmatched::Ignore)];
const OPEN: [(&str, bool); 2] = [("open", true), ("closed", false)];

pub struct File {
    pub tenant: Option<Text>,
    pub name: String,
    pub base_currency: Option<Text>,
    pub timezone: Option<Text>,
    pub late_events: LateEvents,
    pub unmatched: Unmatched,
    pub auto_replay: bool,
    pub rounding_account: Option<Text>,
    pub accounts: Vec<AccountSource>,
    pub periods: Vec<PeriodSource>,
    pub rates: Vec<RateSource>,
    pub rules: Vec<RuleSource>,
}

pub struct AccountSource {
    pub place: String,
    pub code: Option<Text>,
    /// The code that was meant, where it is a number instead of a text. That is one mistake, not one more for each rule that uses it.
    pub number: Option<String>,
    pub name: String,
    pub kind: Option<AccountType>,
    pub currency: Option<Text>,
    pub closed: bool,
}

pub struct PeriodSource {
    pub place: String,
    pub name: Option<Text>,
    pub starts: Option<(usize, NaiveDate)>,
    pub ends: Option<(usize, NaiveDate)>,
    pub open: Option<bool>,
}

pub struct RateSource {
    pub place: String,
    pub at: usize,
    pub from: Option<Text>,
    pub to: Option<Text>,
    pub date: Option<(usize, NaiveDate)>,
    pub rate: Option<Text>,
}

pub struct RuleSource {
    pub place: String,
    pub at: usize,
    pub name: Option<Text>,
    pub on: Option<Text>,
    pub when: Option<Text>,
    pub date: Option<Text>,
    pub currency: Option<Text>,
    pub description: Option<Text>,
    pub each: Option<Text>,
    pub reverses: Option<Text>,
    pub ignore: bool,
    pub lines: Vec<LineSource>,
    /// The number of `lines`, `reverses` and `ignore` that the rule has; none where one is of the wrong kind, and may have been meant or not.
    pub kinds: Option<usize>,
    pub has_currency: bool,
    pub retry: Option<(usize, RetryPolicy)>,
}

pub struct LineSource {
    pub place: String,
    pub at: usize,
    /// The number of `debit` and `credit` that the line has, whatever their kind.
    pub sides: usize,
    pub debit: Option<Text>,
    pub credit: Option<Text>,
    pub amount: Option<Text>,
    pub currency: Option<Text>,
    pub when: Option<Text>,
}

impl File {
    pub fn read(text: &str, root: &DeTable<'_>, mistakes: &mut Mistakes) -> Self {
        let file = Fields::new(text, root, 0, String::new());
        file.only(&SETTINGS, mistakes);
        Self {
            tenant: file.required_text("tenant", mistakes),
            name: file.text("name", mistakes).map(|name| name.value).unwrap_or_default(),
            base_currency: file.required_text("base_currency", mistakes),
            timezone: file.text("timezone", mistakes),
            late_events: file.word("late_events", &LATE_EVENTS, mistakes).unwrap_or(LateEvents::Reject),
            unmatched: file.word("unmatched", &UNMATCHED, mistakes).unwrap_or(Unmatched::Reject),
            auto_replay: file.flag("auto_replay", mistakes),
            rounding_account: file.text("rounding_account", mistakes),
            accounts: all(file.tables("accounts", "account", mistakes), |one| account(one, mistakes)),
            periods: all(file.tables("periods", "period", mistakes), |one| period(one, mistakes)),
            rates: all(file.tables("rates", "rate", mistakes), |one| rate(one, mistakes)),
            rules: all(file.tables("rules", "rule", mistakes), |one| rule(one, mistakes)),
        }
    }
}

fn all<'a, T>(tables: Vec<Fields<'a>>, read: impl FnMut(Fields<'a>) -> T) -> Vec<T> {
    tables.into_iter().map(read).collect()
}

/// From here on the thing is called by its name.
fn named<'a>(mut fields: Fields<'a>, what: &str, key: &str, mistakes: &mut Mistakes) -> (Fields<'a>, Option<Text>) {
    let name = fields.required_text(key, mistakes);
    if let Some(name) = &name {
        fields.place = format!("{what} `{}`", name.value);
    }
    (fields, name)
}

fn account(fields: Fields<'_>, mistakes: &mut Mistakes) -> AccountSource {
    let (fields, code) = named(fields, "account", "code", mistakes);
    fields.only(&OF_ACCOUNT, mistakes);
    fields.required("type", mistakes);
    AccountSource {
        number: fields.number("code").map(str::to_owned),
        code,
        name: fields.text("name", mistakes).map(|name| name.value).unwrap_or_default(),
        kind: fields.word_or_like("type", &AccountType::WORDS, &AccountType::OTHER_WORDS, mistakes),
        currency: fields.text("currency", mistakes),
        closed: fields.flag("closed", mistakes),
        place: fields.place,
    }
}

fn period(fields: Fields<'_>, mistakes: &mut Mistakes) -> PeriodSource {
    let (fields, name) = named(fields, "period", "name", mistakes);
    fields.only(&OF_PERIOD, mistakes);
    fields.required("status", mistakes);
    PeriodSource {
        name,
        starts: fields.required_date("starts", mistakes),
        ends: fields.required_date("ends", mistakes),
        open: fields.word("status", &OPEN, mistakes),
        place: fields.place,
    }
}

fn rate(mut fields: Fields<'_>, mistakes: &mut Mistakes) -> RateSource {
    let (from, to) = (fields.required_text("from", mistakes), fields.required_text("to", mistakes));
    let date = fields.required_date("date", mistakes);
    if let (Some(from), Some(to), Some((_, date))) = (&from, &to, &date) {
        fields.place = format!("rate {} to {} of {date}", from.value, to.value);
    }
    fields.only(&OF_RATE, mistakes);
    let rate = fields.required_text("rate", mistakes);
    RateSource { at: fields.at, place: fields.place, from, to, date, rate }
}

fn rule(fields: Fields<'_>, mistakes: &mut Mistakes) -> RuleSource {
    let (fields, name) = named(fields, "rule", "name", mistakes);
    fields.only(&OF_RULE, mistakes);
    let retry = fields.member("retry").and_then(|value| retry(&fields.place, value, mistakes));
    let lines = fields.tables("lines", "line", mistakes);
    let lines = all(lines, |mut one| {
        one.place = format!("{}, {}", fields.place, one.place);
        line(one, mistakes)
    });
    RuleSource {
        at: fields.at,
        name,
        on: fields.required_text("on", mistakes),
        when: fields.text("when", mistakes),
        date: fields.text("date", mistakes),
        currency: fields.text("currency", mistakes),
        description: fields.text("description", mistakes),
        each: fields.text("each", mistakes),
        reverses: fields.text("reverses", mistakes),
        kinds: kinds(&fields),
        has_currency: fields.member("currency").is_some(),
        ignore: fields.flag("ignore", mistakes),
        lines,
        retry,
        place: fields.place,
    }
}

fn kinds(fields: &Fields<'_>) -> Option<usize> {
    let mut count = 0;
    for name in ["lines", "reverses", "ignore"] {
        let Some(value) = fields.member(name) else { continue };
        let is_given = match (name, value.get_ref()) {
            ("lines", DeValue::Array(items)) => !items.is_empty(),
            ("reverses", DeValue::String(_)) => true,
            ("ignore", DeValue::Boolean(flag)) => *flag,
            _ => return None,
        };
        count += usize::from(is_given);
    }
    Some(count)
}

fn line(fields: Fields<'_>, mistakes: &mut Mistakes) -> LineSource {
    fields.only(&OF_LINE, mistakes);
    LineSource {
        at: fields.at,
        sides: ["debit", "credit"].into_iter().filter(|side| fields.member(side).is_some()).count(),
        debit: fields.text("debit", mistakes),
        credit: fields.text("credit", mistakes),
        amount: fields.required_text("amount", mistakes),
        currency: fields.text("currency", mistakes),
        when: fields.text("when", mistakes),
        place: fields.place,
    }
}

/// The policy is the one of the configuration, so serde reads it; its first mistake is the only one told.
fn retry(place: &str, value: &Spanned<DeValue<'_>>, mistakes: &mut Mistakes) -> Option<(usize, RetryPolicy)> {
    let at = value.span().start;
    let place = format!("{place}, retry");
    if let DeValue::Table(members) = value.get_ref()
        && members.keys().any(|key| !OF_RETRY.contains(&key.get_ref().as_ref()))
    {
        Fields::new("", members, at, place).only(&OF_RETRY, mistakes);
        return None;
    }
    match RetryPolicy::deserialize(ValueDeserializer::from(value.clone())) {
        Ok(policy) => Some((at, policy)),
        Err(error) => {
            // serde's own words are about Rust.
            let message = "takes whole numbers, and for `backoff_multiplier` any number";
            mistakes.add(error.span().map_or(at, |span| span.start), &place, message);
            None
        }
    }
}
