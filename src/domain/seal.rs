//! The seal of a version of the books: a hash over the text as it was applied, when and by whom, and over the seal of the version before.
//! The table makes it when a version is applied; it is made anew here, from the written form in `docs/hash-chain.md`, to compare.

use chrono::{DateTime, Utc};

use super::chain::{Netstrings, instant_text};

/// The first text of every seal.
const VERSION: &str = "fis-books-v1";

/// A version of a tenant's books, with everything that its seal covers.
#[derive(Debug, Clone, Copy)]
pub struct AppliedBooks<'a> {
    pub tenant_id: &'a str,
    pub version: i32,
    /// The seal of the version before; 64 zeros before the first.
    pub previous: &'a str,
    pub applied_at: DateTime<Utc>,
    pub applied_by: &'a str,
    /// The role that had logged in.
    pub login: &'a str,
    pub source: &'a str,
}

impl AppliedBooks<'_> {
    #[must_use]
    pub fn seal(&self) -> String {
        let mut text = Netstrings::with_capacity(256 + self.source.len());
        text.put(VERSION);
        text.put(self.tenant_id);
        text.put_shown(self.version);
        text.put(self.previous);
        text.put(&instant_text(self.applied_at));
        text.put(self.applied_by);
        text.put(self.login);
        text.put(self.source);
        text.hash()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::chain::GENESIS;

    /// Made by another program from the page.
    #[test]
    fn a_seal_is_that_of_the_written_form() {
        let books = AppliedBooks {
            tenant_id: "acme",
            version: 1,
            previous: GENESIS,
            applied_at: DateTime::parse_from_rfc3339("2026-02-25T10:00:01.234567Z").unwrap().to_utc(),
            applied_by: "änna",
            login: "fis_service",
            source: "tenant = \"acme\"\n",
        };
        assert_eq!(books.seal(), "757f916eef63a04febb86ef9cc29dfafffe1be146449c63aa5c5b445718c0f8e");
        assert_ne!(AppliedBooks { applied_by: "anna", ..books }.seal(), books.seal());
    }
}
