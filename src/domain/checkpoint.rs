//! A checkpoint: where every chain ended at a moment, as a text that can be signed and kept elsewhere. What a checkpoint says can
//! never become untrue in an honest ledger: chains only grow.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::chain::instant_text;

/// The first line of every signed text: without the books, and with them.
const CHAINS: &str = "fis-checkpoint-v1";
const CHAINS_AND_BOOKS: &str = "fis-checkpoint-v2";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Head {
    pub tenant_id: String,
    pub sequence: i64,
    pub hash: String,
    /// Absent in checkpoints from before the books were sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub books: Option<BooksHead>,
}

/// The version of the books that was in force, with its seal, which covers the versions before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BooksHead {
    pub version: i32,
    pub hash: String,
}

/// Heads, in tenant order, with the signature over `signed_text`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Checkpoint {
    pub at: DateTime<Utc>,
    pub heads: Vec<Head>,
    /// The public key, for whoever wants to know which one it was; trust comes from elsewhere.
    pub public_key: String,
    pub signature: String,
}

/// The version, the moment, and a line for every head: tenant, sequence, hash, and the version and the seal of its books. A tenant's name has no
/// space.
#[must_use]
pub fn signed_text(at: DateTime<Utc>, heads: &[Head]) -> String {
    let form = if heads.iter().any(|head| head.books.is_some()) { CHAINS_AND_BOOKS } else { CHAINS };
    let mut text = format!("{form}\n{}\n", instant_text(at));
    for Head { tenant_id, sequence, hash, books } in heads {
        let books = books.as_ref().map_or(String::new(), |books| format!(" {} {}", books.version, books.hash));
        text.push_str(&format!("{tenant_id} {sequence} {hash}{books}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_text_is_lines_that_a_person_can_read() {
        let at = DateTime::parse_from_rfc3339("2026-02-25T10:00:00Z").unwrap().to_utc();
        let head = Head { tenant_id: "acme".to_owned(), sequence: 7, hash: "ab".to_owned(), books: None };
        let books = Some(BooksHead { version: 3, hash: "cd".to_owned() });
        let signed = signed_text(at, std::slice::from_ref(&head));
        assert_eq!(signed, "fis-checkpoint-v1\n2026-02-25T10:00:00.000000Z\nacme 7 ab\n");
        let signed = signed_text(at, &[Head { books, ..head }]);
        assert_eq!(signed, "fis-checkpoint-v2\n2026-02-25T10:00:00.000000Z\nacme 7 ab 3 cd\n");
    }
}
