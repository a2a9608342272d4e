//! The eight invariants, from the tables, the feed and the broker. Each breach says which one it is and whose event it is about.

pub mod books;
pub mod feed;
mod letters;
pub mod places;
pub mod story;

/// One violation.
#[derive(Debug, Clone)]
pub struct Breach {
    /// The number of the invariant.
    pub invariant: u8,
    pub what: String,
    /// The tenant and event whose story is told.
    pub event: Option<(String, String)>,
}

impl Breach {
    pub fn new(invariant: u8, what: impl Into<String>) -> Self {
        Self { invariant, what: what.into(), event: None }
    }

    pub fn of(mut self, tenant: &str, event: &str) -> Self {
        self.event = Some((tenant.to_owned(), event.to_owned()));
        self
    }
}
