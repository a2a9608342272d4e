//! A checkpoint: where every chain ended at a moment, as a text that can be signed and kept elsewhere. What a checkpoint says can
//! never become untrue in an honest ledger: chains only grow.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::chain::instant_text;

/// The first line of every signed text.
const VERSION: &str = "fis-checkpoint-v1";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Head {
    pub tenant_id: String,
    pub sequence: i64,
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

/// The version, the moment, and a line for every head: tenant, sequence, hash. A tenant's name has no space.
#[must_use]
pub fn signed_text(at: DateTime<Utc>, heads: &[Head]) -> String {
    let mut text = format!("{VERSION}\n{}\n", instant_text(at));
    for Head { tenant_id, sequence, hash } in heads {
        text.push_str(&format!("{tenant_id} {sequence} {hash}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_text_is_lines_that_a_person_can_read() {
        let at = DateTime::parse_from_rfc3339("2026-02-25T10:00:00Z").unwrap().to_utc();
        let heads = [Head { tenant_id: "acme".to_owned(), sequence: 7, hash: "ab".to_owned() }];
        assert_eq!(signed_text(at, &heads), "fis-checkpoint-v1\n2026-02-25T10:00:00.000000Z\nacme 7 ab\n");
    }
}
