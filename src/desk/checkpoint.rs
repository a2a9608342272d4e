//! Checkpoints: the end of every chain, signed, to be kept where the database's administrators cannot reach it; and the ledger held to one
//! that was signed before. A checkpoint of another key, or one that was altered, is never compared.

use std::fmt;

use chrono::{DateTime, Utc};

use super::{Desk, DeskError};
use crate::domain::checkpoint::{Checkpoint, signed_text};
use crate::platform::signing::Signer;
use crate::platform::time;
use crate::store::audit::{hash_at, seal_at};
use crate::store::heads;

/// A checkpoint with the name by which its reader knows it.
#[derive(Debug, Clone)]
pub struct NamedCheckpoint {
    pub name: String,
    pub checkpoint: Checkpoint,
}

/// The part of a checkpoint that can turn out untrue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The entry at this sequence.
    Entry(i64),
    /// This version of the books.
    Books(i32),
}

/// A promise of a checkpoint that the ledger does not keep any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPromise {
    pub tenant_id: String,
    pub promise: Promise,
    pub signed_at: DateTime<Utc>,
    /// False: it has another hash.
    pub is_gone: bool,
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = if self.is_gone { "is gone" } else { "has another hash" };
        let signed = self.signed_at.format("%Y-%m-%d %H:%M:%S UTC");
        let tenant = &self.tenant_id;
        match self.promise {
            Promise::Entry(sequence) => write!(f, "{tenant}: sequence {sequence}, signed on {signed}, {found}"),
            Promise::Books(version) => {
                write!(f, "{tenant}: version {version} of the books, signed on {signed}, {found}")
            }
        }
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
            let mut hold = |promise: Promise, signed: &str, found: Option<String>| {
                if found.as_deref() != Some(signed) {
                    let (tenant_id, is_gone) = (head.tenant_id.clone(), found.is_none());
                    broken.push(BrokenPromise { tenant_id, promise, signed_at: checkpoint.at, is_gone });
                }
            };
            let hash = hash_at(&self.postgres.pool, &head.tenant_id, head.sequence).await?;
            hold(Promise::Entry(head.sequence), &head.hash, hash);
            if let Some(books) = &head.books {
                let seal = seal_at(&self.postgres.pool, &head.tenant_id, books.version).await?;
                hold(Promise::Books(books.version), &books.hash, seal);
            }
        }
        Ok(broken)
    }
}
