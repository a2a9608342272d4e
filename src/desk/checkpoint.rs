//! Checkpoints: the end of every chain, signed, to be kept where the database's administrators cannot reach it; and the ledger held to one
//! that was signed before. A checkpoint of another key, or one that was altered, is never compared.

use std::fmt;

use chrono::{DateTime, Utc};

use super::{Desk, DeskError};
use crate::domain::checkpoint::{Checkpoint, signed_text};
use crate::platform::signing::Signer;
use crate::platform::time;
use crate::store::audit::hash_at;
use crate::store::heads;

/// A checkpoint with the name by which its reader knows it.
#[derive(Debug, Clone)]
pub struct NamedCheckpoint {
    pub name: String,
    pub checkpoint: Checkpoint,
}

/// A head of a checkpoint that the ledger does not have any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPromise {
    pub tenant_id: String,
    pub sequence: i64,
    pub signed_at: DateTime<Utc>,
    /// False: it has another hash.
    pub is_gone: bool,
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = if self.is_gone { "is gone" } else { "has another hash" };
        let signed = self.signed_at.format("%Y-%m-%d %H:%M:%S UTC");
        write!(f, "{}: sequence {}, signed on {signed}, {found}", self.tenant_id, self.sequence)
    }
}

impl serde::Serialize for BrokenPromise {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Desk {
    /// The end of every chain, signed with the configured key.
    ///
    /// # Errors
    /// There is no key, or the database is away.
    pub async fn checkpoint(&self) -> Result<Checkpoint, DeskError> {
        let signer = Signer::new(&self.config.audit.signing_key)?;
        let heads = heads::all(&self.postgres.pool).await?;
        let at = time::now();
        let signature = signer.sign(&signed_text(at, &heads));
        Ok(Checkpoint { at, heads, public_key: signer.public_key(), signature })
    }

    /// Holds the ledger to a checkpoint: what it says must still be so. Returns what is not.
    ///
    /// # Errors
    /// The checkpoint is not one of the configured key, there is no key, or the database is away.
    pub async fn hold_to(&self, named: &NamedCheckpoint) -> Result<Vec<BrokenPromise>, DeskError> {
        let NamedCheckpoint { name, checkpoint } = named;
        let signer = Signer::new(&self.config.audit.signing_key)?;
        if !signer.made(&signed_text(checkpoint.at, &checkpoint.heads), &checkpoint.signature) {
            return Err(DeskError::Refused {
                why: format!("{name} is not signed with the configured key, or was altered"),
            });
        }
        let mut broken = Vec::new();
        for head in &checkpoint.heads {
            let hash = hash_at(&self.postgres.pool, &head.tenant_id, head.sequence).await?;
            if hash.as_deref() != Some(&head.hash) {
                broken.push(BrokenPromise {
                    tenant_id: head.tenant_id.clone(),
                    sequence: head.sequence,
                    signed_at: checkpoint.at,
                    is_gone: hash.is_none(),
                });
            }
        }
        Ok(broken)
    }
}
