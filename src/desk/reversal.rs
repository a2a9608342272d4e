//! A reversal by hand. An entry's place with who wants it reversed and why enters, its mirror leaves, posted like any other entry. An act
//! without a reason never gets this far: the reason becomes part of the entry's description.

use super::{Desk, DeskError, log_act};
use crate::domain::ids::{TenantId, entry_id};
use crate::domain::operator::{Operator, WHY_BYTES_MAX};
use crate::journal::revert;

/// The wish to reverse one entry; its reason is one line that says something.
#[derive(Debug, Clone)]
pub struct RevertEntry {
    operator: Operator,
    tenant: TenantId,
    sequence: i64,
}

impl RevertEntry {
    /// # Errors
    /// The reason is empty, or more than one line.
    pub fn new(operator: Operator, tenant: TenantId, sequence: i64) -> Result<Self, DeskError> {
        let wrong = |why: String| Err(DeskError::Member { member: "why", why });
        if operator.why().is_empty() {
            return wrong("must say something".to_owned());
        }
        if operator.why().contains(char::is_control) {
            return wrong(format!("is one line of at most {WHY_BYTES_MAX} bytes"));
        }
        Ok(Self { operator, tenant, sequence })
    }
}

/// The entry that reverses another one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reversal {
    pub entry_id: String,
    pub sequence: i64,
    pub hash: String,
    /// The id of the entry that was reversed.
    pub reverses: String,
}

impl Desk {
    /// Posts the mirror of an entry.
    ///
    /// # Errors
    /// There is no such entry, it is reversed already, or the books do not allow it now. Nothing is written then.
    pub async fn revert(&self, request: &RevertEntry) -> Result<Reversal, DeskError> {
        let RevertEntry { operator, tenant, sequence } = request;
        let receipt = revert(&self.postgres.pool, tenant, *sequence, operator).await?;
        let reverses = entry_id(tenant, *sequence);
        log_act(operator, &format!("reversed {reverses} by {}", receipt.entry_id));
        Ok(Reversal {
            entry_id: receipt.entry_id.to_string(),
            sequence: receipt.seq,
            hash: receipt.hash.to_string(),
            reverses,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::operator::Through;

    #[test]
    fn a_reversal_without_a_reason_of_one_line_is_refused() {
        let asked = |why: &str| {
            let operator = Operator::new("anna", why, Through::CommandLine).unwrap();
            RevertEntry::new(operator, TenantId::parse("acme").unwrap(), 1)
        };
        assert!(asked("sent in error").is_ok());
        assert_eq!(asked(" ").unwrap_err().to_string(), "why must say something");
        assert_eq!(asked("a\nb").unwrap_err().to_string(), "why is one line of at most 500 bytes");
    }
}
