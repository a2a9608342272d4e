//! What an expression can see of an event, and the work that may be done for it. Borrowed values enter under their root names; look-ups leave
//! them. All evaluations of one event share a scope: they draw from one budget of steps, and what does not depend on the item is worked out once.
//! What must never happen: a copy of the event, or a second budget for it. A scope holds references only, and rebinding `item` moves two words.

use std::cell::{Cell, RefCell};

use rust_decimal::Decimal;

use super::STEPS_MAX;
use super::value::Value;
use crate::domain::json::Json;

/// Roots a usual scope has (payload, item, and the five of the envelope), so that it is allocated once.
const ROOTS_USUAL: usize = 8;

/// The root that is bound anew for every element of an `each`; all others stay as they are for an event.
pub const ITEM: &str = "item";

/// The value that a root name stands for.
#[derive(Debug, Clone, Copy)]
pub enum Root<'a> {
    Json(&'a Json<'a>),
    Text(&'a str),
}

/// Root names and what they stand for. Look-ups are fastest where names are bound in the order of the list the
/// expressions were compiled with.
#[derive(Debug, Default)]
pub struct Scope<'a> {
    bound: Vec<(&'a str, Root<'a>)>,
    /// The steps that were taken for this event.
    steps: Cell<u32>,
    /// Values that do not depend on the item, by the slots that the compiler gave their nodes.
    known: RefCell<Vec<Option<Known>>>,
}

/// A value that is remembered.
#[derive(Debug, Clone, Copy)]
enum Known {
    Bool(bool),
    Decimal(Decimal),
}

impl<'a> Scope<'a> {
    #[must_use]
    pub fn new() -> Self {
        Scope { bound: Vec::with_capacity(ROOTS_USUAL), steps: Cell::new(0), known: RefCell::default() }
    }

    /// Binds a name, or binds it anew.
    pub fn bind(&mut self, name: &'a str, root: Root<'a>) {
        if name != ITEM {
            self.known.get_mut().clear();
        }
        match self.bound.iter_mut().find(|(bound, _)| *bound == name) {
            Some(place) => place.1 = root,
            None => self.bound.push((name, root)),
        }
    }

    /// Binds a JSON value: `payload`, `item`.
    pub fn bind_json(&mut self, name: &'a str, json: &'a Json<'a>) {
        self.bind(name, Root::Json(json));
    }

    /// Binds a text: `eventType`, `tenantId`.
    pub fn bind_text(&mut self, name: &'a str, text: &'a str) {
        self.bind(name, Root::Text(text));
    }

    /// Takes so many steps of the event's budget; false where it is used up.
    pub fn spend(&self, count: u32) -> bool {
        let taken = self.steps.get().saturating_add(count);
        self.steps.set(taken);
        taken <= STEPS_MAX
    }

    /// The steps that were taken so far.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.steps.get()
    }

    /// Looks up the value that `name` stands for. `hint` is where it probably is.
    pub(super) fn look_up(&self, name: &str, hint: usize) -> Option<Root<'a>> {
        match self.bound.get(hint) {
            Some((bound, root)) if *bound == name => Some(*root),
            Some(_) | None => self.bound.iter().find(|(bound, _)| *bound == name).map(|(_, root)| *root),
        }
    }

    pub(super) fn recall<'v>(&self, slot: usize) -> Option<Value<'v>> {
        match self.known.borrow().get(slot).copied().flatten()? {
            Known::Bool(truth) => Some(Value::Bool(truth)),
            Known::Decimal(number) => Some(Value::Decimal(number)),
        }
    }

    pub(super) fn remember(&self, slot: usize, value: &Value<'_>) {
        let known = match value {
            Value::Bool(truth) => Known::Bool(*truth),
            Value::Decimal(number) => Known::Decimal(*number),
            Value::Null | Value::Text(_) | Value::Array(_) | Value::Object(_) | Value::Items(_) | Value::List(_) => {
                return;
            }
        };
        let mut slots = self.known.borrow_mut();
        if slots.len() <= slot {
            slots.resize(slot + 1, None);
        }
        if let Some(place) = slots.get_mut(slot) {
            *place = Some(known);
        }
    }
}
