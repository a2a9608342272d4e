//! The fields of one TOML table. A parsed table enters; texts, dates, words and flags leave, each with its place in the
//! file. A field of the wrong kind, an unknown one or a missing one is written down, and the reading goes on: serde
//! would stop at the first.

use chrono::NaiveDate;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml::value::Datetime;

use super::mistake::Mistakes;
use crate::domain::expr::closest;

/// A text of the file and where it stands.
#[derive(Debug, Clone)]
pub struct Text {
    pub value: String,
    /// The place where the value begins, which is at its opening quote.
    pub at: usize,
    /// The place of its first character, if the file spells it without escapes.
    inside: Option<usize>,
}

impl Text {
    fn new(file: &str, at: usize, value: &str) -> Self {
        // One quote, three, or three and the line end that TOML leaves out.
        let quotes = [1, 3, 4].into_iter();
        let inside = quotes.map(|quote| at + quote).find(|start| file.get(*start..start + value.len()) == Some(value));
        Self { value: value.to_owned(), at, inside }
    }

    /// The place of the character at this offset of the value; the value's start where escapes forbid to count.
    #[must_use]
    pub fn place_of(&self, offset: usize) -> usize {
        self.inside.map_or(self.at, |inside| inside + offset.min(self.value.len()))
    }

    /// Tells whether an offset can be shown as a place of its own.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.inside.is_some()
    }
}

/// One table, and what it is called in a mistake.
pub struct Fields<'a> {
    file: &'a str,
    members: &'a DeTable<'a>,
    pub at: usize,
    pub place: String,
}

impl<'a> Fields<'a> {
    #[must_use]
    pub fn new(file: &'a str, members: &'a DeTable<'a>, at: usize, place: String) -> Self {
        Self { file, members, at, place }
    }

    #[must_use]
    pub fn member(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.members.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    /// Complains about every name that is not among the known ones.
    pub fn only(&self, known: &[&str], mistakes: &mut Mistakes) {
        for (key, _) in self.members {
            let name = key.get_ref().as_ref();
            if known.contains(&name) {
                continue;
            }
            let hint = match closest(name, known.iter().copied()) {
                Some(near) => format!(", did you mean `{near}`?"),
                None => format!("; there are {}", list(known.iter().copied())),
            };
            mistakes.add(key.span().start, &self.place, format!("unknown key `{name}`{hint}"));
        }
    }

    pub fn text(&self, name: &str, mistakes: &mut Mistakes) -> Option<Text> {
        let value = self.member(name)?;
        match value.get_ref() {
            DeValue::String(text) => Some(Text::new(self.file, value.span().start, text)),
            other => self.wrong_kind(name, value, other, "a text in quotes", mistakes),
        }
    }

    pub fn required_text(&self, name: &str, mistakes: &mut Mistakes) -> Option<Text> {
        self.required(name, mistakes).then(|| self.text(name, mistakes)).flatten()
    }

    pub fn flag(&self, name: &str, mistakes: &mut Mistakes) -> bool {
        let Some(value) = self.member(name) else { return false };
        match value.get_ref() {
            DeValue::Boolean(flag) => *flag,
            other => self.wrong_kind(name, value, other, "true or false", mistakes).unwrap_or(false),
        }
    }

    /// A date with where it stands. A date is one day in the calendar, without a time.
    pub fn required_date(&self, name: &str, mistakes: &mut Mistakes) -> Option<(usize, NaiveDate)> {
        if !self.required(name, mistakes) {
            return None;
        }
        let value = self.member(name)?;
        let at = value.span().start;
        match value.get_ref() {
            DeValue::Datetime(Datetime { date: Some(date), time: None, offset: None }) => {
                let day = NaiveDate::from_ymd_opt(i32::from(date.year), u32::from(date.month), u32::from(date.day));
                day.map(|day| (at, day))
            }
            DeValue::Datetime(moment) => {
                mistakes.add(at, &self.place, format!("`{name}`: `{moment}` is not a date such as 2026-02-01"));
                None
            }
            other => self.wrong_kind(name, value, other, "a date such as 2026-02-01, without quotes", mistakes),
        }
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)], mistakes: &mut Mistakes) -> Option<T> {
        self.word_or_like(name, words, &[], mistakes)
    }

    /// One of a few words. `others` are words that people use for them, each with the word that is meant.
    pub fn word_or_like<T: Copy>(
        &self,
        name: &str,
        words: &[(&str, T)],
        others: &[(&str, &str)],
        mistakes: &mut Mistakes,
    ) -> Option<T> {
        let text = self.text(name, mistakes)?;
        let known = words.iter().find(|(word, _)| *word == text.value).map(|(_, value)| *value);
        if known.is_none() {
            let meant = others.iter().find(|(other, _)| other.eq_ignore_ascii_case(&text.value)).map(|(_, word)| *word);
            let near = meant.or_else(|| closest(&text.value, words.iter().map(|(word, _)| *word)));
            let near = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
            let all = list(words.iter().map(|(word, _)| *word));
            mistakes.add(text.at, &self.place, format!("`{name}` is `{}`, it can be {all}{near}", text.value));
        }
        known
    }

    /// The number that stands where a text should, as it is written: `1000` of `code = 1000`.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<&'a str> {
        let value = self.member(name)?;
        matches!(value.get_ref(), DeValue::Integer(_) | DeValue::Float(_))
            .then(|| self.file.get(value.span()))
            .flatten()
    }

    /// Complains where the field is missing.
    pub fn required(&self, name: &str, mistakes: &mut Mistakes) -> bool {
        let given = self.member(name).is_some();
        if !given {
            mistakes.add(self.at, &self.place, format!("`{name}` is missing"));
        }
        given
    }

    /// The tables of a list, called `what` and their number until they tell their name.
    pub fn tables(&self, name: &str, what: &str, mistakes: &mut Mistakes) -> Vec<Fields<'a>> {
        let Some(value) = self.member(name) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong_kind::<()>(name, value, value.get_ref(), &format!("a list, written as `[[{name}]]`"), mistakes);
            return Vec::new();
        };
        let mut tables = Vec::with_capacity(items.len());
        for (number, item) in items.iter().enumerate() {
            let place = format!("{what} {}", number + 1);
            match item.get_ref() {
                DeValue::Table(members) => tables.push(Fields::new(self.file, members, item.span().start, place)),
                other => mistakes.add(item.span().start, &place, format!("must be a table, it is {}", kind(other))),
            }
        }
        tables
    }

    fn wrong_kind<T>(
        &self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        found: &DeValue<'_>,
        needed: &str,
        mistakes: &mut Mistakes,
    ) -> Option<T> {
        mistakes.add(value.span().start, &self.place, format!("`{name}` must be {needed}, it is {}", kind(found)));
        None
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn list<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
