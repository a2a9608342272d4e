//! Templates: text with `{expression}` parts. A rule's text enters once; each event's text leaves.
//! What must never happen: a value in the text that is not text or a number, or a text without bound.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::error::{EvalError, EvalErrorKind, Fault, ParseError};
use super::run::{Ran, Run};
use super::scope::Scope;
use super::value::Value;
use super::{Expr, SOURCE_BYTES_MAX};

/// Longest text a template may yield: account codes are short, and a description is one line in a journal.
pub const TEMPLATE_CHARS_MAX: usize = 1_000;
/// Room for a usual description.
const TEXT_BYTES_USUAL: usize = 64;

/// A compiled template.
#[derive(Debug, Clone)]
pub struct Template {
    source: Box<str>,
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Text(Box<str>),
    Expr(Expr),
}

impl Template {
    /// Compiles `source`: `{expression}` is replaced by its value, `{{` and `}}` stand for braces.
    ///
    /// # Errors
    /// The first mistake; the offset counts from the start of the template.
    pub fn parse(source: &str, roots: &[&str]) -> Result<Template, ParseError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(ParseError::at(0, format!("longer than {SOURCE_BYTES_MAX} bytes")));
        }
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = source;
        while let Some(place) = rest.find(['{', '}']) {
            let offset = source.len() - rest.len() + place;
            let (before, brace) = rest.split_at_checked(place).unwrap_or((rest, ""));
            text.push_str(before);
            if let Some(after) = brace.strip_prefix("{{") {
                text.push('{');
                rest = after;
            } else if let Some(after) = brace.strip_prefix("}}") {
                text.push('}');
                rest = after;
            } else if let Some(inside) = brace.strip_prefix('{') {
                let (expression, after) = split_expression(inside)
                    .ok_or_else(|| ParseError::at(offset, "this `{` has no `}`; write `{{` for a brace in the text"))?;
                push_text(&mut parts, &mut text);
                parts.push(Part::Expr(parse_part(expression, offset + 1, roots)?));
                rest = after;
            } else {
                return Err(ParseError::at(offset, "this `}` has no `{`; write `}}` for a brace in the text"));
            }
        }
        text.push_str(rest);
        push_text(&mut parts, &mut text);
        Ok(Template { source: source.into(), parts })
    }

    /// The text this was compiled from.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text, where it is the same for every event, so that books can be checked early.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The roots this template reads; one may occur several times.
    pub fn roots(&self) -> impl Iterator<Item = &str> {
        self.expressions().flat_map(Expr::roots)
    }

    /// Tells whether this template reads that root.
    #[must_use]
    pub fn uses(&self, root: &str) -> bool {
        self.expressions().any(|expression| expression.uses(root))
    }

    /// As [`Expr::remember_constants`], for each of its expressions.
    pub fn remember_constants(&mut self, next: &mut usize) {
        for part in &mut self.parts {
            if let Part::Expr(expression) = part {
                expression.remember_constants(next);
            }
        }
    }

    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.parts.iter().filter_map(|part| match part {
            Part::Expr(expression) => Some(expression),
            Part::Text(_) => None,
        })
    }

    /// The text for this event. A constant template is not copied.
    ///
    /// # Errors
    /// An expression without a value, a value that is neither text nor a number, or a text that gets too long.
    pub fn eval<'v>(&'v self, scope: &Scope<'v>) -> Result<Cow<'v, str>, EvalError> {
        match self.literal() {
            Some(text) => Ok(Cow::Borrowed(text)),
            None => self.fill(scope).map(Cow::Owned).map_err(|fault| fault.within(&self.source)),
        }
    }

    fn fill(&self, scope: &Scope<'_>) -> Ran<String> {
        let mut text = String::with_capacity(TEXT_BYTES_USUAL);
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Expr(expression) => {
                    let mut run = Run::new(&expression.source, scope);
                    match run.value(&expression.tree)? {
                        Value::Text(value) => {
                            run.text_steps(value.len())?;
                            text.push_str(value);
                        }
                        Value::Decimal(number) => {
                            // Writing to a string cannot fail.
                            let _ = write!(text, "{number}");
                        }
                        other => return Err(run.wrong_kind(&expression.tree, &other, "text or a number is needed")),
                    }
                }
            }
            // Bytes are at least as many as characters, so the count is rarely needed.
            if text.len() > TEMPLATE_CHARS_MAX && text.chars().count() > TEMPLATE_CHARS_MAX {
                let message = format!("the text has more than {TEMPLATE_CHARS_MAX} characters");
                return Err(Fault::new(EvalErrorKind::TooLarge, None, message));
            }
        }
        Ok(text)
    }
}

fn parse_part(expression: &str, offset: usize, roots: &[&str]) -> Result<Expr, ParseError> {
    Expr::parse(expression, roots).map_err(|error| ParseError { offset: error.offset + offset, ..error })
}

fn push_text(parts: &mut Vec<Part>, text: &mut String) {
    if !text.is_empty() {
        parts.push(Part::Text(std::mem::take(text).into()));
    }
}

/// Splits at the brace that closes the expression; a brace inside quotes does not.
fn split_expression(inside: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let mut escaped = false;
    for (at, character) in inside.char_indices() {
        match (quote, character) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '}') => return Some((inside.get(..at)?, inside.get(at + 1..)?)),
            (Some(_) | None, _) => {}
        }
    }
    None
}
