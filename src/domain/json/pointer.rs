//! One value of a JSON text is replaced, and not another byte of it. A text and an assignment (`/payload/total=119.00`) enter, the new
//! text leaves. A number is never read as a number, so it cannot change on the way.

use std::ops::Range;

use super::{JsonError, parse};

/// An assignment that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    #[error("the body is not JSON ({0})")]
    NotJson(JsonError),
    #[error("an assignment is written /POINTER=VALUE")]
    NoAssignment,
    #[error("a pointer begins with a slash: /payload/total, not {0}")]
    NoSlash(String),
    #[error("{pointer}: there is no `{name}`")]
    Nowhere { pointer: String, name: String },
    #[error("{value}: {error}")]
    NotAValue { value: String, error: JsonError },
}

/// The place that a pointer leads to.
enum Place {
    Value(Range<usize>),
    /// The object is there, the member is not: behind its last member.
    Missing {
        at: usize,
        first: bool,
        name: String,
    },
}

/// Sets what `assignment` says: `/a/b=text`, where a value that is not a string takes JSON too, or `/a/b:=JSON`.
///
/// # Errors
/// The text is not JSON, the pointer leads nowhere, or the value is not JSON where it must be.
pub fn set(text: &str, assignment: &str) -> Result<String, PointerError> {
    parse(text).map_err(PointerError::NotJson)?;
    let (pointer, value, exact) = match (assignment.split_once(":="), assignment.split_once('=')) {
        (Some((pointer, value)), Some((shorter, _))) if pointer.len() < shorter.len() => (pointer, value, true),
        (_, Some((pointer, value))) => (pointer, value, false),
        (_, None) => return Err(PointerError::NoAssignment),
    };
    let Some(path) = pointer.strip_prefix('/') else {
        return Err(PointerError::NoSlash(pointer.to_owned()));
    };
    let names: Vec<String> = path.split('/').map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
    let nowhere = |name| PointerError::Nowhere { pointer: pointer.to_owned(), name };
    let place = Scanner { text, at: 0 }.find(&names).map_err(nowhere)?;
    let is_string = |range: &Range<usize>| text.get(range.clone()).is_some_and(|value| value.starts_with('"'));
    let spelled = match &place {
        _ if exact => match parse(value) {
            Ok(_) => value.to_owned(),
            Err(error) => return Err(PointerError::NotAValue { value: value.to_owned(), error }),
        },
        Place::Value(range) if is_string(range) => quoted(value),
        Place::Value(_) | Place::Missing { .. } if parse(value).is_ok() => value.to_owned(),
        Place::Value(_) | Place::Missing { .. } => quoted(value),
    };
    let (range, new) = match place {
        Place::Value(range) => (range, spelled),
        Place::Missing { at, first, name } => {
            (at..at, format!("{}{}:{spelled}", if first { "" } else { "," }, quoted(&name)))
        }
    };
    let (before, after) = (text.get(..range.start).unwrap_or_default(), text.get(range.end..).unwrap_or_default());
    Ok(format!("{before}{new}{after}"))
}

/// A text as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Walks a text that is known to be JSON.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn find(mut self, names: &[String]) -> Result<Place, String> {
        let Some((name, rest)) = names.split_first() else {
            self.space();
            let start = self.at;
            self.value();
            return Ok(Place::Value(start..self.at));
        };
        self.space();
        let object = self.take('{');
        if !object && !self.take('[') {
            return Err(name.clone());
        }
        let (mut index, mut first) = (0usize, true);
        loop {
            self.space();
            if self.peek() == Some(if object { '}' } else { ']' }) || self.peek().is_none() {
                let missing = object && rest.is_empty();
                return if missing {
                    Ok(Place::Missing { at: self.end_of_last(), first, name: name.clone() })
                } else {
                    Err(name.clone())
                };
            }
            let matched = if object {
                let start = self.at;
                self.value();
                let key = self.text.get(start..self.at).and_then(|key| serde_json::from_str::<String>(key).ok());
                self.space();
                self.take(':');
                key.as_deref() == Some(name)
            } else {
                index.to_string() == *name
            };
            if matched {
                return self.find(rest);
            }
            self.value();
            self.space();
            self.take(',');
            (index, first) = (index + 1, false);
        }
    }

    /// Behind the last member, before the white space in front of the brace.
    fn end_of_last(&self) -> usize {
        self.text.get(..self.at).map_or(self.at, |before| before.trim_end().len())
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at..).and_then(|rest| rest.chars().next())
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    /// Passes one value.
    fn value(&mut self) {
        self.space();
        let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
        let rest = self.text.get(self.at..).unwrap_or_default();
        for (offset, c) in rest.char_indices() {
            let end = self.at + offset;
            if quoted {
                quoted = escaped || c != '"';
                escaped = !escaped && c == '\\';
                if !quoted && depth == 0 {
                    self.at = end + 1;
                    return;
                }
                continue;
            }
            match c {
                '"' => quoted = true,
                '{' | '[' => depth += 1,
                '}' | ']' if depth > 1 => depth -= 1,
                '}' | ']' if depth == 1 => {
                    self.at = end + 1;
                    return;
                }
                '}' | ']' | ',' if depth == 0 => {
                    self.at = end;
                    return;
                }
                c if depth == 0 && c.is_whitespace() => {
                    self.at = end;
                    return;
                }
                _ => {}
            }
        }
        self.at = self.text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::set;

    #[test]
    fn one_value_is_replaced_and_no_other_byte() {
        let text = r#"{ "a" : 1.10, "b/c": {"total" : "1,\"}", "list": [1, {"x": true}] } , "e": {} }"#;
        let rows = [
            ("/a=2.50", r#"{ "a" : 2.50, "b/c": {"total" : "1,\"}", "list": [1, {"x": true}] } , "e": {} }"#),
            (
                "/b~1c/total=119.00",
                r#"{ "a" : 1.10, "b/c": {"total" : "119.00", "list": [1, {"x": true}] } , "e": {} }"#,
            ),
            (
                "/b~1c/total:=119.00",
                r#"{ "a" : 1.10, "b/c": {"total" : 119.00, "list": [1, {"x": true}] } , "e": {} }"#,
            ),
            ("/b~1c/list/1/x=no", r#"{ "a" : 1.10, "b/c": {"total" : "1,\"}", "list": [1, {"x": "no"}] } , "e": {} }"#),
            (
                "/b~1c/new=x=y",
                r#"{ "a" : 1.10, "b/c": {"total" : "1,\"}", "list": [1, {"x": true}],"new":"x=y" } , "e": {} }"#,
            ),
            ("/e/n=1", r#"{ "a" : 1.10, "b/c": {"total" : "1,\"}", "list": [1, {"x": true}] } , "e": {"n":1} }"#),
        ];
        for (assignment, expected) in rows {
            assert_eq!(set(text, assignment).as_deref(), Ok(expected), "{assignment}");
        }
    }

    #[test]
    fn a_pointer_that_leads_nowhere_is_said_so() {
        for (text, assignment) in [
            ("{}", "a=1"),
            ("{}", "/a/b=1"),
            ("[1]", "/1=2"),
            ("{\"a\":1}", "/a/b=1"),
            ("{", "/a=1"),
            ("{}", "/a"),
            ("{}", "/a:=x y"),
        ] {
            assert!(set(text, assignment).is_err(), "{text} {assignment}");
        }
    }
}
