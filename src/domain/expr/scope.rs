//! What an expression can see of an event. Borrowed values enter under their root names; look-ups leave them.
//! What must never happen: a copy of the event. A scope holds references only, and rebinding `item` moves two words.

use crate::domain::json::Json;

/// Roots a usual scope has (payload, item, and the five of the envelope), so that it is allocated once.
const ROOTS_USUAL: usize = 8;

/// The value that a root name stands for.
#[derive(Debug, Clone, Copy)]
pub enum Root<'a> {
    Json(&'a Json<'a>),
    Text(&'a str),
}

/// Root names and what they stand for. Look-ups are fastest where names are bound in the order of the list the
/// expressions were compiled with.
#[derive(Debug, Clone, Default)]
pub struct Scope<'a> {
    bound: Vec<(&'a str, Root<'a>)>,
}

impl<'a> Scope<'a> {
    #[must_use]
    pub fn new() -> Self {
        Scope { bound: Vec::with_capacity(ROOTS_USUAL) }
    }

    /// Binds a name, or binds it anew.
    pub fn bind(&mut self, name: &'a str, root: Root<'a>) {
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

    /// Looks up the value that `name` stands for. `hint` is where it probably is.
    pub(super) fn look_up(&self, name: &str, hint: usize) -> Option<Root<'a>> {
        match self.bound.get(hint) {
            Some((bound, root)) if *bound == name => Some(*root),
            Some(_) | None => self.bound.iter().find(|(bound, _)| *bound == name).map(|(_, root)| *root),
        }
    }
}
