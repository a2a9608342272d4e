//! A checkpoint: where every chain ended at a moment, as a text that can be signed and kept elsewhere. What a checkpoint says can
//! never become untrue in an honest ledger: chains only grow.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::chain::instant_text;

/// The first line of every signed text: without the books, with them, and with the operators' log as well.
const CHAINS: &str = "fis-checkpoint-v1";
const CHAINS_AND_BOOKS: &str = "fis-checkpoint-v2";
const CHAINS_BOOKS_AND_LOG: &str = "fis-checkpoint-v3";

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

/// The last block of the operators' log, with its hash, which covers the blocks before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogHead {
    /// 0, with 64 zeros for its hash: nothing was sealed yet.
    pub block: i64,
    pub hash: String,
}

/// Heads, in tenant order, with the signature over `signed_text`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Checkpoint {
    pub at: DateTime<Utc>,
    /// Absent in checkpoints from before the log was sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogHead>,
    pub heads: Vec<Head>,
    /// The public key, for whoever wants to know which one it was; trust comes from elsewhere.
    pub public_key: String,
    pub signature: String,
}

/// The version, the moment, the last block of the log with its hash, and a line for every head: tenant, sequence, hash, and the version and the seal of its
/// books. A tenant's name has no space.
#[must_use]
pub fn signed_text(at: DateTime<Utc>, log: Option<&LogHead>, heads: &[Head]) -> String {
    let with_books = heads.iter().any(|head| head.books.is_some());
    let form = match log {
        Some(_) => CHAINS_BOOKS_AND_LOG,
        None if with_books => CHAINS_AND_BOOKS,
        None => CHAINS,
    };
    let mut text = format!("{form}\n{}\n", instant_text(at));
    if let Some(LogHead { block, hash }) = log {
        text.push_str(&format!("{block} {hash}\n"));
    }
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
        let signed = signed_text(at, None, std::slice::from_ref(&head));
        assert_eq!(signed, "fis-checkpoint-v1\n2026-02-25T10:00:00.000000Z\nacme 7 ab\n");
        let heads = [Head { books, ..head }];
        assert_eq!(signed_text(at, None, &heads), "fis-checkpoint-v2\n2026-02-25T10:00:00.000000Z\nacme 7 ab 3 cd\n");
        let log = LogHead { block: 5, hash: "ef".to_owned() };
        assert_eq!(
            signed_text(at, Some(&log), &heads),
            "fis-checkpoint-v3\n2026-02-25T10:00:00.000000Z\n5 ef\nacme 7 ab 3 cd\n"
        );
    }
}
