//! The evaluation. A tree and a scope enter; a value, or a fault in the author's words, leaves.
//! What must never happen: a step that is not counted, or a missing member that becomes a number.

use std::borrow::Cow;

use rust_decimal::Decimal;

use super::LIST_ITEMS_MAX;
use super::error::{EvalErrorKind, Fault};
use super::lookup::{Looked, absent_fault, too_many_items};
use super::run::{Ran, Run};
use super::tree::{Comparison, Function, Kind, Node};
use super::value::Value;
use crate::domain::json::{Json, NumberError, decimal_from_str};

impl<'v> Run<'v, '_> {
    /// The value of a node; a missing member is an error.
    pub(super) fn value(&mut self, node: &'v Node) -> Ran<Value<'v>> {
        self.step()?;
        if let Some(known) = self.recall(node) {
            return Ok(known);
        }
        let value = self.work_out(node)?;
        self.remember(node, &value);
        Ok(value)
    }

    fn work_out(&mut self, node: &'v Node) -> Ran<Value<'v>> {
        match &node.kind {
            Kind::Null => Ok(Value::Null),
            Kind::Bool(truth) => Ok(Value::Bool(*truth)),
            Kind::Number(number) => Ok(Value::Decimal(*number)),
            Kind::Text(text) => Ok(Value::Text(text)),
            Kind::Path(path) => match self.look(path)? {
                Looked::Found(found) => self.read(path, found),
                Looked::Absent(absent) => Err(absent_fault(path, &absent)),
            },
            Kind::List(nodes) => {
                let values: Ran<Vec<_>> = nodes.iter().map(|node| self.value(node)).collect();
                Ok(Value::List(values?))
            }
            Kind::Not(condition) => Ok(Value::Bool(!self.truth(condition)?)),
            Kind::Any(conditions) => self.find(conditions, true).map(Value::Bool),
            Kind::All(conditions) => self.find(conditions, false).map(|found| Value::Bool(!found)),
            Kind::Compare { how, left, right } => self.compare(*how, left, right).map(Value::Bool),
            Kind::Within { negated, item, list } => Ok(Value::Bool(self.within(item, list)? != *negated)),
            Kind::Negate(_) | Kind::Sum { .. } | Kind::Product { .. } => self.arithmetic(node).map(Value::Decimal),
            Kind::Call { function, arguments } => self.call(node, *function, arguments),
        }
    }

    /// The value of a node, or the missing member where one may be missing: a path, or a `coalesce` of such.
    pub(super) fn optional(&mut self, node: &'v Node) -> Ran<Option<Value<'v>>> {
        let found = match &node.kind {
            Kind::Path(_) | Kind::Call { function: Function::Coalesce, .. } if self.recall(node).is_some() => {
                return self.value(node).map(Some);
            }
            Kind::Path(path) => {
                self.step()?;
                match self.look(path)? {
                    Looked::Found(found) => Some(self.read(path, found)?),
                    Looked::Absent(_) => None,
                }
            }
            Kind::Call { function: Function::Coalesce, arguments } => self.coalesce(arguments)?,
            _ => return self.value(node).map(Some),
        };
        if let Some(value) = &found {
            self.remember(node, value);
        }
        Ok(found)
    }

    /// Tells whether one of the conditions is `wanted`; those behind it are not looked at.
    fn find(&mut self, conditions: &'v [Node], wanted: bool) -> Ran<bool> {
        for condition in conditions {
            if self.truth(condition)? == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn compare(&mut self, how: Comparison, left: &'v Node, right: &'v Node) -> Ran<bool> {
        if let Comparison::Equal | Comparison::NotEqual = how {
            let one = self.optional(left)?.unwrap_or(Value::Null);
            let other = self.optional(right)?.unwrap_or(Value::Null);
            let equal = self.equal(&one, left, &other, right)?;
            return Ok(equal == (how == Comparison::Equal));
        }
        let order = self.number(left)?.cmp(&self.number(right)?);
        Ok(match how {
            Comparison::Less => order.is_lt(),
            Comparison::LessEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterEqual => order.is_ge(),
            Comparison::Equal | Comparison::NotEqual => order.is_eq(),
        })
    }

    /// Equal in the sense of `==`: text that spells a number equals that number; other kinds never mix.
    fn equal(&self, one: &Value<'v>, left: &'v Node, other: &Value<'v>, right: &'v Node) -> Ran<bool> {
        match (one, other) {
            (Value::Null, Value::Null) => Ok(true),
            (Value::Bool(one), Value::Bool(other)) => Ok(one == other),
            (Value::Decimal(one), Value::Decimal(other)) => Ok(one == other),
            (Value::Text(one), Value::Text(other)) => {
                self.text_steps(one.len().min(other.len()))?;
                Ok(one == other)
            }
            (Value::Decimal(number), Value::Text(text)) => self.text_equals(text, *number, right),
            (Value::Text(text), Value::Decimal(number)) => self.text_equals(text, *number, left),
            (one, other) if one.list_len().is_some() && other.list_len().is_some() => Err(not_comparable("lists")),
            (Value::Object(_), Value::Object(_)) => Err(not_comparable("objects")),
            _ => Ok(false),
        }
    }

    fn text_equals(&self, text: &str, number: Decimal, node: &Node) -> Ran<bool> {
        self.text_steps(text.len())?;
        match decimal_from_str(text) {
            Ok(spelt) => Ok(spelt == number),
            Err(NumberError::NotANumber) => Ok(false),
            Err(error) => Err(self.not_exact(node, error)),
        }
    }

    fn within(&mut self, item: &'v Node, list: &'v Node) -> Ran<bool> {
        let wanted = self.value(item)?;
        let values = self.list(list)?;
        for index in 0..values.list_len().unwrap_or_default() {
            self.step()?;
            let value = self.element(&values, list, index)?;
            if self.equal(&wanted, item, &value, list)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The value of a condition.
    pub(super) fn truth(&mut self, node: &'v Node) -> Ran<bool> {
        match self.value(node)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(self.wrong_kind(node, &other, "true or false is needed")),
        }
    }

    /// The value as a number; text that spells one counts.
    pub(super) fn number(&mut self, node: &'v Node) -> Ran<Decimal> {
        if let Kind::Number(number) = node.kind {
            return self.step().map(|()| number);
        }
        match self.value(node)? {
            Value::Decimal(number) => Ok(number),
            Value::Text(text) => {
                self.text_steps(text.len())?;
                decimal_from_str(text).map_err(|error| self.not_exact(node, error))
            }
            other => Err(self.wrong_kind(node, &other, "a number is needed")),
        }
    }

    /// The value as text.
    pub(super) fn text(&mut self, node: &'v Node) -> Ran<Cow<'v, str>> {
        match self.value(node)? {
            Value::Text(text) => Ok(Cow::Borrowed(text)),
            Value::Decimal(number) => Ok(Cow::Owned(number.to_string())),
            other => Err(self.wrong_kind(node, &other, "text or a number is needed")),
        }
    }

    /// The value as a list of allowed length.
    pub(super) fn list(&mut self, node: &'v Node) -> Ran<Value<'v>> {
        let value = self.value(node)?;
        match value.list_len() {
            Some(0..=LIST_ITEMS_MAX) => Ok(value),
            Some(_) => Err(too_many_items()),
            None => Err(self.wrong_kind(node, &value, "a list is needed")),
        }
    }

    /// The elements of a list that stands in the event.
    pub(super) fn elements(&mut self, node: &'v Node) -> Ran<Vec<&'v Json<'v>>> {
        match self.list(node)? {
            Value::Array(elements) => Ok(elements.iter().collect()),
            Value::Items(items) => Ok(items),
            other => Err(self.wrong_kind(node, &other, "a list of the event is needed")),
        }
    }

    /// The element at `index` of a list that `node` is worth.
    pub(super) fn element(&self, list: &Value<'v>, node: &'v Node, index: usize) -> Ran<Value<'v>> {
        match list.list_at(index) {
            Some(Ok(value)) => self.text_steps(list.number_bytes_at(index)).map(|()| value),
            Some(Err(error)) => Err(self.bad_element(node, index, EvalErrorKind::NotExact, &error.to_string())),
            None => Ok(Value::Null),
        }
    }
}

/// Faults that name the part of the source they are about.
impl<'v> Run<'v, '_> {
    /// The author's own text of a node, and its path if it is one.
    fn subject(&self, node: &Node) -> (String, Option<String>) {
        match &node.kind {
            Kind::Path(path) => {
                let place = path.describe(usize::MAX, &[]);
                (format!("`{place}`"), Some(place))
            }
            _ => match self.source.get(node.start..node.end) {
                Some(part) if part != self.source => (format!("`{part}`"), None),
                Some(_) | None => ("the result".to_owned(), None),
            },
        }
    }

    #[cold]
    pub(super) fn fault(&self, kind: EvalErrorKind, node: &Node, problem: &str) -> Fault {
        let (subject, path) = self.subject(node);
        Fault::new(kind, path, format!("{subject} {problem}"))
    }

    #[cold]
    pub(super) fn wrong_kind(&self, node: &Node, value: &Value<'v>, needed: &str) -> Fault {
        self.fault(EvalErrorKind::WrongKind, node, &format!("is {}, {needed}", value.kind_name()))
    }

    #[cold]
    pub(super) fn not_exact(&self, node: &Node, error: NumberError) -> Fault {
        match error {
            NumberError::NotANumber => {
                self.fault(EvalErrorKind::WrongKind, node, "is text that does not spell a number")
            }
            NumberError::TooManyDigits | NumberError::TooManyDecimals => {
                self.fault(EvalErrorKind::NotExact, node, &error.to_string())
            }
        }
    }

    #[cold]
    pub(super) fn bad_element(&self, node: &Node, index: usize, kind: EvalErrorKind, problem: &str) -> Fault {
        if let Kind::Path(path) = &node.kind {
            let place = self.place_of_element(path, index);
            return Fault::new(kind, Some(place.clone()), format!("`{place}` {problem}"));
        }
        let (subject, _) = self.subject(node);
        Fault::new(kind, None, format!("element {} of {subject} {problem}", index + 1))
    }
}

#[cold]
fn not_comparable(what: &str) -> Fault {
    Fault::new(EvalErrorKind::WrongKind, None, format!("{what} can only be compared with null"))
}
