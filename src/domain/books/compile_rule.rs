//! Rules of a books file: sources with their places enter, compiled rules leave. Every expression is read, also of a rule
//! that is wrong elsewhere, so that an author mends the file once.

use std::collections::HashMap;

use super::Rule;
use super::fields::Text;
use super::file::{LineSource, RuleSource};
use super::rule::{Action, LineRule, PostAction, ROOTS, ReverseAction};
use super::source::Compiler;
use super::topic::TopicPattern;
use crate::domain::entry::Side;
use crate::domain::expr::{Expr, ITEM, ParseError, Template};
use crate::domain::retry::RetryPolicy;

const RULES_MAX: usize = 10_000;
const NAME_BYTES_MAX: usize = 255;

impl Compiler<'_> {
    pub(super) fn rules(&mut self, sources: Vec<RuleSource>) -> Vec<Rule> {
        if sources.len() > RULES_MAX {
            self.mistakes.add(0, "rules", format!("there are more than {RULES_MAX}"));
            return Vec::new();
        }
        let mut seen = HashMap::with_capacity(sources.len());
        let mut rules: Vec<Rule> = Vec::with_capacity(sources.len());
        for source in sources {
            if let Some(name) = &source.name {
                if name.value.is_empty() || name.value.len() > NAME_BYTES_MAX {
                    self.mistakes.add(name.at, &source.place, format!("a name has 1 to {NAME_BYTES_MAX} bytes"));
                }
                self.once(&mut seen, &source.place, &name.value, name.at);
            }
            rules.extend(self.rule(source));
        }
        rules
    }

    fn rule(&mut self, source: RuleSource) -> Option<Rule> {
        let place = source.place.as_str();
        let (inner, outer) = (roots(source.each.is_some()), roots(false));
        let when = self.optional(place, "when", source.when.as_ref(), &outer);
        let date = self.optional(place, "date", source.date.as_ref(), &outer);
        let each = self.optional(place, "each", source.each.as_ref(), &outer);
        let reverses = self.optional(place, "reverses", source.reverses.as_ref(), &outer);
        let currency = self.currency_of(place, source.currency.as_ref(), &inner);
        let description = source.description.as_ref().map(|text| self.template(place, "description", text, &outer));
        let mut lines: Vec<LineRule> = source.lines.iter().filter_map(|line| self.line(line, &inner)).collect();
        if each.is_some() {
            remember_constants(&mut lines);
        }
        if let Some((at, policy)) = &source.retry
            && let Some(fault) = RetryPolicy::fault(policy)
        {
            self.mistakes.add(*at, place, format!("`retry`: {fault}"));
        }
        if source.kinds? != 1 {
            self.mistakes.add(source.at, place, "needs exactly one of `lines`, `reverses` and `ignore = true`");
            return None;
        }
        let name = source.name?.value;
        let action = if source.ignore {
            Action::Ignore
        } else if source.reverses.is_some() {
            Action::Reverse(Box::new(ReverseAction { original: reverses?, date, description: description.flatten() }))
        } else {
            if !source.has_currency {
                self.mistakes.add(source.at, place, "`currency` is missing");
            }
            // A name is a text, never a template: braces in it stand for themselves.
            let description = description.unwrap_or_else(|| Template::parse(&escaped(&name), &outer).ok());
            Action::Post(Box::new(PostAction { each, date, currency: currency?, description: description?, lines }))
        };
        let retry = source.retry.map(|(_, policy)| policy);
        Some(Rule { name, on: TopicPattern::new(&source.on?.value), when, action, retry })
    }

    fn line(&mut self, source: &LineSource, roots: &[&str]) -> Option<LineRule> {
        let place = source.place.as_str();
        let amount = source.amount.as_ref().and_then(|amount| self.expr(place, "amount", amount, roots));
        let currency = self.currency_of(place, source.currency.as_ref(), roots);
        let when = self.optional(place, "when", source.when.as_ref(), roots);
        let (side, account) = match (&source.debit, &source.credit) {
            (Some(account), None) => (Side::Debit, account),
            (None, Some(account)) => (Side::Credit, account),
            // One is there and is no text, which has been told.
            (None, None) if source.sides == 1 => return None,
            _ => {
                self.mistakes.add(source.at, place, "needs exactly one of `debit` and `credit`");
                return None;
            }
        };
        let template = self.template(place, side.as_str(), account, roots);
        if let Some(code) = template.as_ref().and_then(Template::literal) {
            self.known_account(place, account.at, code);
        }
        Some(LineRule { side, account: template?, amount: amount?, currency, when })
    }

    /// A currency that is the same for every event is checked now.
    fn currency_of(&mut self, place: &str, text: Option<&Text>, roots: &[&str]) -> Option<Expr> {
        let text = text?;
        let expr = self.expr(place, "currency", text, roots);
        if let Some(code) = expr.as_ref().and_then(Expr::literal_text) {
            self.currency_at(place, text.at, code);
        }
        expr
    }

    fn optional(&mut self, place: &str, name: &str, text: Option<&Text>, roots: &[&str]) -> Option<Expr> {
        text.and_then(|text| self.expr(place, name, text, roots))
    }

    fn expr(&mut self, place: &str, name: &str, text: &Text, roots: &[&str]) -> Option<Expr> {
        Expr::parse(&text.value, roots).map_err(|error| self.unreadable(place, name, text, &error)).ok()
    }

    fn template(&mut self, place: &str, name: &str, text: &Text, roots: &[&str]) -> Option<Template> {
        Template::parse(&text.value, roots).map_err(|error| self.unreadable(place, name, text, &error)).ok()
    }

    fn unreadable(&mut self, place: &str, name: &str, text: &Text, error: &ParseError) {
        let before = text.value.get(..error.offset).unwrap_or(&text.value);
        let hint =
            if text.is_plain() { String::new() } else { format!(" (at character {})", before.chars().count() + 1) };
        // One mistake, one line.
        let value = text.value.replace('\n', " ");
        let message = format!("`{name} = \"{value}\"`: {error}{hint}");
        self.mistakes.add(text.place_of(error.offset), place, message);
    }
}

/// The lines of an `each` are evaluated for every item; what is the same for all of them is worked out for the first.
fn remember_constants(lines: &mut [LineRule]) {
    let mut slots = 0;
    for line in lines {
        line.account.remember_constants(&mut slots);
        for expression in [Some(&mut line.amount), line.currency.as_mut(), line.when.as_mut()].into_iter().flatten() {
            expression.remember_constants(&mut slots);
        }
    }
}

fn roots(each: bool) -> Vec<&'static str> {
    ROOTS.into_iter().filter(|root| each || *root != ITEM).collect()
}

fn escaped(name: &str) -> String {
    name.replace('{', "{{").replace('}', "}}")
}
