//! The settings as people look at them: a configuration enters; every setting with its value and its origin leaves. What must never happen: a
//! password is among the values.

use std::collections::BTreeMap;
use std::fmt;

use toml::{Table, Value};

use super::{Config, tree};

/// Where the settings came from: a file, the environment, or neither.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    file: Option<String>,
    /// The origin of every setting that was given, by its dotted name.
    given: BTreeMap<String, String>,
}

/// Two configurations are equal where their settings are, wherever they came from.
impl PartialEq for Sources {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Sources {
    pub(super) fn new(file: Option<String>, given: impl Iterator<Item = (String, String)>) -> Self {
        Self { file, given: given.collect() }
    }
}

/// One sentence for the log: the file, and the variables by their names.
impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<&str> =
            self.given.values().filter_map(|origin| origin.strip_prefix(super::VARIABLE)).collect();
        match (&self.file, variables.is_empty()) {
            (None, true) => f.write_str("every setting is the default"),
            (Some(file), true) => write!(f, "settings from {file}"),
            (None, false) => write!(f, "settings from {}; no file", variables.join(", ")),
            (Some(file), false) => write!(f, "settings from {file} and {}", variables.join(", ")),
        }
    }
}

/// A setting with its value, as it may be shown, and its origin.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Listed {
    pub name: String,
    pub value: String,
    pub origin: String,
}

impl Config {
    /// Every setting, by name.
    #[must_use]
    pub fn listing(&self) -> Vec<Listed> {
        let table = Table::try_from(self).unwrap_or_default();
        let listed = |(name, value): (String, Value)| {
            let origin = self.sources.given.get(&name).map_or("default", String::as_str).to_owned();
            let value = match value {
                Value::String(text) => shown(&name, &text),
                other => other.to_string(),
            };
            Listed { name, value, origin }
        };
        tree::flat(table, &|_| true).into_iter().map(listed).collect()
    }
}

/// The text of a setting without its secrets.
fn shown(name: &str, text: &str) -> String {
    match name {
        // A comma between addresses, or in a password: then a piece is no address, and nothing is shown.
        "amqp.url" if text.split(',').all(|url| url.contains("://")) => {
            text.split(',').map(|url| without_password(url.trim())).collect::<Vec<_>>().join(",")
        }
        "amqp.url" => "***".to_owned(),
        "redis.url" | "database.url" => without_password(text.trim()),
        "audit.signing_key" if !text.is_empty() => "***".to_owned(),
        _ => text.to_owned(),
    }
}

/// An address whose password, and every parameter's value, is masked. A text that is no address is masked whole.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    // A password may contain anything but its end, the last `@`.
    let (who, place) = rest.rsplit_once('@').map_or((None, rest), |(who, place)| (Some(who), place));
    let (place, query) = place.split_once('?').map_or((place, None), |(place, query)| (place, Some(query)));
    let who = match who.map(|who| who.split_once(':').map_or((who, false), |(user, _)| (user, true))) {
        None => String::new(),
        // The last `@` is that of a parameter.
        Some((user, _)) if user.contains(['/', '?']) => return format!("{scheme}://***"),
        Some((user, true)) => format!("{user}:***@"),
        Some((user, false)) => format!("{user}@"),
    };
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned() + "=***";
    let query = query.map(|query| query.split('&').map(name).collect::<Vec<_>>().join("&"));
    format!("{scheme}://{who}{place}{}", query.map(|query| format!("?{query}")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (url, expected) in [
            ("postgres://fis@h:5432/fis", "postgres://fis@h:5432/fis"),
            (
                "postgres://fis:tops3cret@h/fis?sslpassword=x&sslmode=require",
                "postgres://fis:***@h/fis?sslpassword=***&sslmode=***",
            ),
            ("redis://:p@ss@h:6379/1", "redis://:***@h:6379/1"),
            ("redis://h:6379/1", "redis://h:6379/1"),
            ("tops3cret", "***"),
            ("postgres://fis:tops,3cret@h/fis", "postgres://fis:***@h/fis"),
            ("postgres://fis:tops?3cret@h/fis", "postgres://fis:***@h/fis"),
            ("postgres://h/fis?password=tops@3cret", "postgres://***"),
        ] {
            assert_eq!(shown("database.url", url), expected);
        }
        assert_eq!(shown("amqp.url", "amqp://a:tops@h1,amqp://b:3cret@h2"), "amqp://a:***@h1,amqp://b:***@h2");
        assert_eq!(shown("amqp.url", "amqp://a:tops,3cret@h1"), "***");
    }
}
