//! The oracle's own JSON: a small tree that can be written in several ways, and the payload hash of `docs/hash-chain.md` over it.
//! Numbers are kept as they are spelt.

use fastrand::Rng;
use sha2::{Digest, Sha256};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    Text(String),
    /// Digits with at most one point, as `12.50`.
    Number(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

pub fn text(value: impl Into<String>) -> Json {
    Json::Text(value.into())
}

pub fn number(value: impl ToString) -> Json {
    Json::Number(value.to_string())
}

pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

impl Json {
    pub fn with(mut self, name: &str, value: Json) -> Self {
        if let Json::Object(members) = &mut self {
            members.retain(|(known, _)| known != name);
            members.push((name.to_owned(), value));
        }
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        if let Json::Object(members) = &mut self {
            members.retain(|(known, _)| known != name);
        }
        self
    }

    pub fn compact(&self) -> String {
        match self {
            Json::Text(text) => quoted(text),
            Json::Number(digits) => digits.clone(),
            Json::List(items) => format!("[{}]", joined(items.iter().map(Json::compact))),
            Json::Object(members) => {
                format!("{{{}}}", joined(members.iter().map(|(name, value)| member(name, &value.compact()))))
            }
        }
    }

    /// The same, written by somebody else: members in another order, white space, other spellings of numbers and letters.
    pub fn rewritten(&self, rng: &mut Rng) -> String {
        match self {
            Json::Text(text) => match text.chars().next().filter(|first| first.is_ascii_alphabetic()) {
                Some(first) if rng.bool() => {
                    format!("\"\\u{:04X}{}", u32::from(first), &quoted(text)[1 + first.len_utf8()..])
                }
                _ => quoted(text),
            },
            Json::Number(digits) => match digits.split_once('.') {
                Some((whole, decimals)) if whole != "0" && rng.bool() => {
                    format!("{whole}{decimals}e-{}", decimals.len())
                }
                Some(_) => format!("{digits}0"),
                None => digits.clone(),
            },
            Json::List(items) => format!("[ {}\n]", joined(items.iter().map(|item| item.rewritten(rng)))),
            Json::Object(members) => {
                let mut members: Vec<&(String, Json)> = members.iter().collect();
                rng.shuffle(&mut members);
                let written =
                    members.iter().map(|(name, value)| format!("\t{} : {}", quoted(name), value.rewritten(rng)));
                format!("{{\n{} }}", joined(written))
            }
        }
    }

    pub fn canonical(&self) -> String {
        match self {
            Json::Text(text) => quoted(text),
            Json::Number(digits) => plain(digits),
            Json::List(items) => format!("[{}]", joined(items.iter().map(Json::canonical))),
            Json::Object(members) => {
                let mut members: Vec<&(String, Json)> = members.iter().collect();
                members.sort_by(|(a, _), (b, _)| a.chars().cmp(b.chars()));
                format!("{{{}}}", joined(members.iter().map(|(name, value)| member(name, &value.canonical()))))
            }
        }
    }
}

pub fn payload_hash(event_type: &str, payload: &Json, tenant: &str) -> String {
    let whole =
        object([("eventType", text(event_type)), ("payload", payload.clone()), ("tenantId", text(tenant))]).canonical();
    format!("sha256:{}", sha256(whole.as_bytes()))
}

pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A decimal without zeros at the end of its decimals.
pub fn plain(digits: &str) -> String {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.').to_owned() } else { digits.to_owned() }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

fn member(name: &str, value: &str) -> String {
    format!("{}:{value}", quoted(name))
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
