//! Sections within sections, by dotted names: a table enters, `outbox.mirror.exchange` and its value leave, and back.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// Every value by its dotted name. A table whose name is no section stays a value: whoever checks it will not know it.
pub fn flat(table: Table, is_section: &dyn Fn(&str) -> bool) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut left: Vec<(String, Value)> = table.into_iter().collect();
    while let Some((name, value)) = left.pop() {
        match value {
            Value::Table(keys) if is_section(&name) => {
                left.extend(keys.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
            }
            // Of a section that nobody knows, the first key is told.
            Value::Table(keys) if !name.contains('.') && !keys.is_empty() => {
                found.extend(keys.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
            }
            value => drop(found.insert(name, value)),
        }
    }
    found
}

/// The other way.
pub fn plant(table: &mut Table, name: &str, value: Value) {
    match name.split_once('.') {
        None => drop(table.insert(name.to_owned(), value)),
        Some((section, rest)) => {
            if let Value::Table(keys) = table.entry(section).or_insert_with(|| Value::Table(Table::new())) {
                plant(keys, rest, value);
            }
        }
    }
}

/// `auto, json or human`.
pub fn listed(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        words => words.concat(),
    }
}
