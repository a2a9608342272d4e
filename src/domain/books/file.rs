//! The shape of a books file, as TOML sees it. Nothing is checked but types and names.

use serde::Deserialize;
use toml::value::Datetime;

use super::{AccountType, Unmatched};
use crate::domain::period::LateEvents;
use crate::domain::retry::RetryPolicy;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub tenant: String,
    #[serde(default)]
    pub name: String,
    pub base_currency: String,
    #[serde(default = "utc")]
    pub timezone: String,
    #[serde(default = "reject_late")]
    pub late_events: LateEvents,
    #[serde(default = "reject_unmatched")]
    pub unmatched: Unmatched,
    pub rounding_account: Option<String>,
    #[serde(default)]
    pub accounts: Vec<AccountSource>,
    #[serde(default)]
    pub periods: Vec<PeriodSource>,
    #[serde(default)]
    pub rates: Vec<RateSource>,
    #[serde(default)]
    pub rules: Vec<RuleSource>,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn reject_late() -> LateEvents {
    LateEvents::Reject
}

fn reject_unmatched() -> Unmatched {
    Unmatched::Reject
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountSource {
    pub code: String,
    #[serde(default)]
    pub name: String,
    pub r#type: AccountType,
    pub currency: Option<String>,
    #[serde(default)]
    pub closed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeriodStatus {
    Open,
    Closed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodSource {
    pub name: String,
    pub starts: Datetime,
    pub ends: Datetime,
    pub status: PeriodStatus,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateSource {
    pub from: String,
    pub to: String,
    pub date: Datetime,
    pub rate: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSource {
    pub name: String,
    pub on: String,
    pub when: Option<String>,
    pub date: Option<String>,
    pub currency: Option<String>,
    pub description: Option<String>,
    pub each: Option<String>,
    pub reverses: Option<String>,
    #[serde(default)]
    pub ignore: bool,
    #[serde(default)]
    pub lines: Vec<LineSource>,
    pub retry: Option<RetryPolicy>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineSource {
    pub debit: Option<String>,
    pub credit: Option<String>,
    pub amount: String,
    pub currency: Option<String>,
    pub when: Option<String>,
}
