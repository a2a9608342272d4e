//! The books file: TOML enters, compiled books or a list of every mistake leaves.

use std::collections::HashMap;

use chrono::NaiveDate;
use toml::value::Datetime;

use super::file::{AccountSource, File, LineSource, PeriodSource, PeriodStatus, RateSource, RuleSource};
use super::rule::{Action, LineRule, PostAction, ROOTS, ReverseAction, TopicPattern};
use super::{Account, Books, Mistake, Rule};
use crate::domain::entry::Side;
use crate::domain::expr::{Expr, ParseError, Template, closest};
use crate::domain::fx::{Rate, Rates};
use crate::domain::ids::{AccountCode, TenantId};
use crate::domain::json::decimal_from_str;
use crate::domain::money::Currency;
use crate::domain::period::{Calendar, Period};
use crate::domain::retry::RetryPolicy;

/// A chart beyond this is a mistake in the generator that wrote it.
const ACCOUNTS_MAX: usize = 200_000;
const RULES_MAX: usize = 10_000;

pub(super) fn parse(text: &str, version: i32) -> Result<Books, Vec<Mistake>> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text.get(..span.start).unwrap_or("").matches('\n').count() + 1);
        vec![Mistake { place: format!("line {line}"), message: error.message().to_owned() }]
    })?;
    let mut compiler = Compiler::default();
    let books = compiler.books(file, version);
    match books {
        Some(books) if compiler.mistakes.is_empty() => Ok(books),
        _ => Err(compiler.mistakes),
    }
}

/// Goes through the whole file and writes down every mistake, instead of stopping at the first.
#[derive(Default)]
struct Compiler {
    mistakes: Vec<Mistake>,
    accounts: HashMap<String, Account>,
}

impl Compiler {
    fn mistake(&mut self, place: &str, message: impl Into<String>) {
        self.mistakes.push(Mistake { place: place.to_owned(), message: message.into() });
    }

    fn books(&mut self, file: File, version: i32) -> Option<Books> {
        let tenant_id = TenantId::parse(&file.tenant).map_err(|error| self.mistake("tenant", error.to_string())).ok();
        let base_currency = self.currency("base_currency", &file.base_currency);
        let timezone = file.timezone.parse::<chrono_tz::Tz>();
        if timezone.is_err() {
            self.mistake("timezone", format!("`{}` is not a time zone such as Europe/Berlin", file.timezone));
        }
        self.accounts(file.accounts);
        let periods = self.periods(file.periods);
        let calendar = Calendar::new(timezone.unwrap_or(chrono_tz::UTC), file.late_events, periods)
            .map_err(|message| self.mistake("periods", message))
            .ok();
        let rates = file.rates.into_iter().filter_map(|rate| self.rate(&rate)).collect();
        let rounding_account = file.rounding_account.and_then(|code| self.rounding_account(&code, base_currency));
        let rules = self.rules(file.rules);
        Some(Books {
            tenant_id: tenant_id?,
            version,
            name: file.name,
            base_currency: base_currency?,
            calendar: calendar?,
            rates: Rates::new(rates),
            rounding_account,
            unmatched: file.unmatched,
            accounts: std::mem::take(&mut self.accounts),
            rules,
        })
    }

    fn currency(&mut self, place: &str, code: &str) -> Option<Currency> {
        let currency = Currency::parse(code);
        if currency.is_none() {
            self.mistake(place, format!("`{code}` is not an ISO 4217 currency"));
        }
        currency
    }

    fn accounts(&mut self, sources: Vec<AccountSource>) {
        if sources.len() > ACCOUNTS_MAX {
            self.mistake("accounts", format!("there are more than {ACCOUNTS_MAX}"));
            return;
        }
        for source in sources {
            let place = format!("account `{}`", source.code);
            let code = match AccountCode::parse(&source.code) {
                Ok(code) => code,
                Err(error) => {
                    self.mistake(&place, format!("the code {error}"));
                    continue;
                }
            };
            let currency = source.currency.and_then(|currency| self.currency(&place, &currency));
            let account = Account { code, name: source.name, kind: source.r#type, currency, closed: source.closed };
            if self.accounts.insert(source.code, account).is_some() {
                self.mistake(&place, "appears twice");
            }
        }
    }

    fn known_account(&mut self, place: &str, code: &str) {
        if self.accounts.contains_key(code) {
            return;
        }
        let near = closest(code, self.accounts.keys().map(String::as_str));
        let hint = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        self.mistake(place, format!("unknown account `{code}`{hint}"));
    }

    /// What conversion leaves over is in the base currency, so its account must take that.
    fn rounding_account(&mut self, code: &str, base: Option<Currency>) -> Option<AccountCode> {
        let place = "rounding_account";
        self.known_account(place, code);
        let (code, only) = self.accounts.get(code).map(|account| (account.code.clone(), account.currency))?;
        if let (Some(only), Some(base)) = (only, base)
            && only != base
        {
            self.mistake(place, format!("account `{code}` takes {only} only, residues are in {base}"));
        }
        Some(code)
    }

    fn periods(&mut self, sources: Vec<PeriodSource>) -> Vec<Period> {
        let mut periods = Vec::with_capacity(sources.len());
        for source in sources {
            let place = format!("period `{}`", source.name);
            if periods.iter().any(|period: &Period| period.name == source.name) {
                self.mistake(&place, "appears twice");
            }
            let (starts, ends) = (self.date(&place, source.starts), self.date(&place, source.ends));
            if let (Some(starts), Some(ends)) = (starts, ends) {
                let open = matches!(source.status, PeriodStatus::Open);
                periods.push(Period { name: source.name, starts, ends, open });
            }
        }
        periods
    }

    fn date(&mut self, place: &str, value: Datetime) -> Option<NaiveDate> {
        let date = match value {
            Datetime { date: Some(date), time: None, offset: None } => {
                NaiveDate::from_ymd_opt(i32::from(date.year), u32::from(date.month), u32::from(date.day))
            }
            _ => None,
        };
        if date.is_none() {
            self.mistake(place, format!("`{value}` is not a date such as 2026-02-01"));
        }
        date
    }

    fn rate(&mut self, source: &RateSource) -> Option<Rate> {
        let place = format!("rate {} to {} of {}", source.from, source.to, source.date);
        let (from, to) = (self.currency(&place, &source.from), self.currency(&place, &source.to));
        let date = self.date(&place, source.date);
        let rate = decimal_from_str(&source.rate).ok();
        let rate = rate.and_then(|rate| Rate::new(from?, to?, date?, rate));
        if rate.is_none() && from.is_some() && to.is_some() && date.is_some() {
            self.mistake(
                &place,
                format!("`{}` is not a positive rate of at most 12 digits between two currencies", source.rate),
            );
        }
        rate
    }

    fn rules(&mut self, sources: Vec<RuleSource>) -> Vec<Rule> {
        if sources.len() > RULES_MAX {
            self.mistake("rules", format!("there are more than {RULES_MAX}"));
            return Vec::new();
        }
        let mut rules: Vec<Rule> = Vec::with_capacity(sources.len());
        for source in sources {
            let place = format!("rule `{}`", source.name);
            if source.name.is_empty() || source.name.len() > 255 {
                self.mistake(&place, "a name has 1 to 255 bytes");
            }
            if rules.iter().any(|rule| rule.name == source.name) {
                self.mistake(&place, "appears twice");
            }
            if let Some(rule) = self.rule(&place, source) {
                rules.push(rule);
            }
        }
        rules
    }

    fn rule(&mut self, place: &str, source: RuleSource) -> Option<Rule> {
        let roots = roots(source.each.is_some());
        let outer = roots_outside_each();
        let when = self.optional(place, "when", source.when.as_deref(), &outer);
        let date = self.optional(place, "date", source.date.as_deref(), &outer);
        let kinds = [source.ignore, source.reverses.is_some(), !source.lines.is_empty()];
        if kinds.iter().filter(|given| **given).count() != 1 {
            self.mistake(place, "needs exactly one of `lines`, `reverses` and `ignore = true`");
            return None;
        }
        let action = if source.ignore {
            Action::Ignore
        } else if let Some(original) = &source.reverses {
            let description =
                source.description.as_deref().and_then(|text| self.template(place, "description", text, &outer));
            Action::Reverse(Box::new(ReverseAction {
                original: self.expr(place, "reverses", original, &outer)?,
                date,
                description,
            }))
        } else {
            let Some(currency) = &source.currency else {
                self.mistake(place, "`currency` is missing");
                return None;
            };
            let currency = self.expr(place, "currency", currency, &roots);
            let each = self.optional(place, "each", source.each.as_deref(), &outer);
            let description = source.description.as_deref().unwrap_or(&source.name);
            let description = self.template(place, "description", description, &outer);
            let lines =
                source.lines.iter().enumerate().filter_map(|(n, line)| self.line(place, n + 1, line, &roots)).collect();
            Action::Post(Box::new(PostAction { each, date, currency: currency?, description: description?, lines }))
        };
        if let Some(fault) = source.retry.as_ref().and_then(RetryPolicy::fault) {
            self.mistake(place, format!("`retry`: {fault}"));
        }
        Some(Rule { name: source.name, on: TopicPattern::new(&source.on), when, action, retry: source.retry })
    }

    fn line(&mut self, place: &str, number: usize, source: &LineSource, roots: &[&str]) -> Option<LineRule> {
        let place = format!("{place}, line {number}");
        let (side, account) = match (&source.debit, &source.credit) {
            (Some(account), None) => (Side::Debit, account),
            (None, Some(account)) => (Side::Credit, account),
            _ => {
                self.mistake(&place, "needs exactly one of `debit` and `credit`");
                return None;
            }
        };
        let template = self.template(&place, side.as_str(), account, roots);
        if let Some(code) = template.as_ref().and_then(Template::literal) {
            self.known_account(&place, code);
        }
        let amount = self.expr(&place, "amount", &source.amount, roots);
        let currency = self.optional(&place, "currency", source.currency.as_deref(), roots);
        let when = self.optional(&place, "when", source.when.as_deref(), roots);
        Some(LineRule { side, account: template?, amount: amount?, currency, when })
    }

    fn optional(&mut self, place: &str, name: &str, text: Option<&str>, roots: &[&str]) -> Option<Expr> {
        text.and_then(|text| self.expr(place, name, text, roots))
    }

    fn expr(&mut self, place: &str, name: &str, text: &str, roots: &[&str]) -> Option<Expr> {
        Expr::parse(text, roots).map_err(|error| self.unreadable(place, name, text, &error)).ok()
    }

    fn template(&mut self, place: &str, name: &str, text: &str, roots: &[&str]) -> Option<Template> {
        Template::parse(text, roots).map_err(|error| self.unreadable(place, name, text, &error)).ok()
    }

    fn unreadable(&mut self, place: &str, name: &str, text: &str, error: &ParseError) {
        self.mistake(place, format!("`{name} = \"{text}\"`: {error} (at character {})", error.offset + 1));
    }
}

fn roots(each: bool) -> Vec<&'static str> {
    ROOTS.into_iter().filter(|root| each || *root != "item").collect()
}

fn roots_outside_each() -> Vec<&'static str> {
    roots(false)
}
