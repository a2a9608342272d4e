//! Books as lists of named things with fields of text, so that two versions can be compared. Compiled books enter; what
//! they mean leaves, without comments, white space, defaults or an order that does not matter.

use super::rule::{Action, LineRule, PostAction, Rule};
use super::{Account, Books, Unmatched};
use crate::domain::expr::{Expr, Template};

/// A kind of thing that books are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Thing {
    Settings,
    Account,
    Period,
    Rate,
    Rule,
}

/// One named thing: a rule, an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub thing: Thing,
    pub name: String,
    pub fields: Vec<Field>,
}

/// A field that is not there has no entry, so that adding one is told as such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub value: String,
}

/// Everything the books say, in the order a plan is read; rules in their own order.
pub fn outline(books: &Books) -> Vec<Item> {
    let mut items = vec![settings(books)];
    let mut accounts: Vec<&Account> = books.accounts().collect();
    accounts.sort_by(|a, b| a.code.as_str().cmp(b.code.as_str()));
    items.extend(accounts.into_iter().map(account));
    items.extend(books.calendar.periods().iter().map(|period| {
        let mut fields = Fields::default();
        fields.add("starts", period.starts.to_string());
        fields.add("ends", period.ends.to_string());
        fields.add("status", if period.open { "open" } else { "closed" });
        fields.item(Thing::Period, &period.name)
    }));
    items.extend(books.rates.all().map(|(from, to, date, rate)| {
        let mut fields = Fields::default();
        fields.add("rate", rate.to_string());
        fields.item(Thing::Rate, &format!("{from} to {to} of {date}"))
    }));
    items.extend(books.rules().iter().map(rule));
    items
}

#[derive(Default)]
struct Fields(Vec<Field>);

impl Fields {
    fn add(&mut self, name: &str, value: impl Into<String>) {
        self.0.push(Field { name: name.to_owned(), value: value.into() });
    }

    fn expr(&mut self, name: &str, value: Option<&Expr>) {
        if let Some(value) = value {
            self.add(name, value.source());
        }
    }

    fn template(&mut self, name: &str, value: Option<&Template>) {
        if let Some(value) = value {
            self.add(name, value.source());
        }
    }

    fn item(self, thing: Thing, name: &str) -> Item {
        Item { thing, name: name.to_owned(), fields: self.0 }
    }
}

fn settings(books: &Books) -> Item {
    let mut fields = Fields::default();
    fields.add("name", &books.name);
    fields.add("base_currency", books.base_currency.code());
    fields.add("timezone", books.calendar.timezone.name());
    fields.add("late_events", books.calendar.late_events().as_str());
    let unmatched = match books.unmatched {
        Unmatched::Reject => "reject",
        Unmatched::Ignore => "ignore",
    };
    fields.add("unmatched", unmatched);
    if books.auto_replay {
        fields.add("auto_replay", "true");
    }
    if let Some(code) = &books.rounding_account {
        fields.add("rounding_account", code.as_str());
    }
    fields.item(Thing::Settings, "")
}

fn account(account: &Account) -> Item {
    let mut fields = Fields::default();
    fields.add("name", &account.name);
    fields.add("type", account.kind.as_str());
    if let Some(currency) = account.currency {
        fields.add("currency", currency.code());
    }
    fields.add("status", if account.closed { "closed" } else { "open" });
    fields.item(Thing::Account, account.code.as_str())
}

fn rule(rule: &Rule) -> Item {
    let mut fields = Fields::default();
    fields.add("on", rule.on.text());
    fields.expr("when", rule.when.as_ref());
    match &rule.action {
        Action::Ignore => fields.add("ignore", "true"),
        Action::Reverse(reverse) => {
            fields.expr("reverses", Some(&reverse.original));
            fields.expr("date", reverse.date.as_ref());
            fields.template("description", reverse.description.as_ref());
        }
        Action::Post(post) => posting(&mut fields, post),
    }
    if let Some(retry) = &rule.retry {
        fields.add("retry.max_retries", retry.max_retries.to_string());
        fields.add("retry.base_delay_seconds", retry.base_delay_seconds.to_string());
        fields.add("retry.backoff_multiplier", retry.backoff_multiplier.to_string());
        fields.add("retry.max_delay_seconds", retry.max_delay_seconds.to_string());
        fields.add("retry.jitter_seconds", retry.jitter_seconds.to_string());
    }
    fields.item(Thing::Rule, &rule.name)
}

fn posting(fields: &mut Fields, post: &PostAction) {
    fields.expr("each", post.each.as_ref());
    fields.expr("date", post.date.as_ref());
    fields.expr("currency", Some(&post.currency));
    fields.template("description", Some(&post.description));
    for (number, line) in post.lines.iter().enumerate() {
        fields.add(&format!("line {}", number + 1), line_text(line));
    }
}

/// The parts are divided by words that no expression contains outside quotes in this order.
fn line_text(line: &LineRule) -> String {
    let mut text = format!("{} {}, amount {}", line.side.as_str(), line.account.source(), line.amount.source());
    if let Some(currency) = &line.currency {
        text.push_str(", currency ");
        text.push_str(currency.source());
    }
    if let Some(when) = &line.when {
        text.push_str(", when ");
        text.push_str(when.source());
    }
    text
}
