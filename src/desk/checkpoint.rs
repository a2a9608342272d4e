//! Checkpoints: the end of every chain, signed, to be kept where the database's administrators cannot reach it; and the ledger held to one
//! that was signed before. A checkpoint of another key, or one that was altered, is never compared.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::{Desk, DeskError};
use crate::domain::checkpoint::{Checkpoint, Head, LogHead, signed_text};
use crate::parking::seal::{self, Sealed};
use crate::platform::signing::{Signer, SigningError, Verifier};
use crate::platform::time;
use crate::store::audit::{hash_at, seal_at};
use crate::store::{heads, log_blocks};

/// The longest wait for a transaction that writes to the log; what it writes is in the next checkpoint.
const SEAL_PATIENCE: Duration = Duration::from_secs(2);

/// A checkpoint with the name by which its reader knows it.
#[derive(Debug, Clone)]
pub struct NamedCheckpoint {
    pub name: String,
    pub checkpoint: Checkpoint,
    /// The public key of whoever signed it, in hexadecimal digits; `None`: it was signed with the configured key.
    pub public_key: Option<String>,
}

/// The part of a checkpoint that can turn out untrue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The entry at this sequence.
    Entry(i64),
    /// This version of the books.
    Books(i32),
    /// This block of the operators' log.
    Block(i64),
}

/// A promise of a checkpoint that the ledger does not keep any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPromise {
    /// The tenant, or the log.
    pub whose: String,
    pub promise: Promise,
    pub signed_at: DateTime<Utc>,
    /// False: it has another hash.
    pub is_gone: bool,
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = if self.is_gone { "is gone" } else { "has another hash" };
        let signed = self.signed_at.format("%Y-%m-%d %H:%M:%S UTC");
        let whose = &self.whose;
        match self.promise {
            Promise::Entry(sequence) => write!(f, "{whose}: sequence {sequence}, signed on {signed}, {found}"),
            Promise::Books(version) => {
                write!(f, "{whose}: version {version} of the books, signed on {signed}, {found}")
            }
            Promise::Block(no) => write!(f, "{whose}: block {no}, signed on {signed}, {found}"),
        }
    }
}

impl serde::Serialize for BrokenPromise {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Desk {
    /// The end of every chain, signed with the configured key. The log is sealed first, where the role may; what is being written to it just now is not in it.
    ///
    /// # Errors
    /// There is no key, or the database is away.
    pub async fn checkpoint(&self) -> Result<Checkpoint, DeskError> {
        let signer = Signer::new(&self.config.audit.signing_key)?;
        let mut db = self.postgres.pool.acquire().await?;
        if log_blocks::may_insert(&mut db).await? {
            while seal::step(&mut db, SEAL_PATIENCE).await? == Sealed::More {}
        }
        let newest = log_blocks::newest(&mut *db).await?;
        let log = Some(LogHead { block: newest.no, hash: newest.hash });
        let heads = heads::all(&self.postgres.pool).await?;
        let at = time::now();
        let signature = signer.sign(&signed_text(at, log.as_ref(), &heads));
        Ok(Checkpoint { at, log, heads, public_key: signer.public_key(), signature })
    }

    /// Holds the ledger to a checkpoint: what it says must still be so. Returns what is not.
    ///
    /// # Errors
    /// The checkpoint is not one of the key, there is no key, or the database is away.
    pub async fn hold_to(&self, named: &NamedCheckpoint) -> Result<Vec<BrokenPromise>, DeskError> {
        let NamedCheckpoint { name, checkpoint, public_key } = named;
        let (verifier, whose) = match public_key {
            Some(key) => (Verifier::parse(key)?, "that"),
            None => match Signer::new(&self.config.audit.signing_key) {
                Err(SigningError::NoKey) => return Err(SigningError::NothingToCheckWith.into()),
                signer => (signer?.verifier(), "the configured"),
            },
        };
        let text = signed_text(checkpoint.at, checkpoint.log.as_ref(), &checkpoint.heads);
        if !verifier.made(&text, &checkpoint.signature) {
            return Err(DeskError::Refused { why: format!("{name} is not signed with {whose} key, or was altered") });
        }
        let mut db = self.postgres.pool.acquire().await?;
        let mut kept = log_kept(&mut db, checkpoint.log.as_ref()).await?;
        for head in &checkpoint.heads {
            kept.append(&mut head_kept(&mut db, head).await?);
        }
        let broken = kept.into_iter().filter(|kept| kept.found.as_ref() != Some(&kept.signed));
        let promise = |kept: Kept| BrokenPromise {
            whose: kept.whose,
            promise: kept.promise,
            signed_at: checkpoint.at,
            is_gone: kept.found.is_none(),
        };
        Ok(broken.map(promise).collect())
    }
}

/// A promise with the hash that was signed and the one that is there now.
struct Kept {
    whose: String,
    promise: Promise,
    signed: String,
    found: Option<String>,
}

async fn log_kept(db: &mut PgConnection, log: Option<&LogHead>) -> Result<Vec<Kept>, sqlx::Error> {
    // Block 0 is none: nothing was sealed.
    let Some(LogHead { block, hash }) = log.filter(|log| log.block > 0) else { return Ok(Vec::new()) };
    let found = log_blocks::hash_of(db, *block).await?;
    let whose = "the operators' log".to_owned();
    Ok(vec![Kept { whose, promise: Promise::Block(*block), signed: hash.clone(), found }])
}

async fn head_kept(db: &mut PgConnection, head: &Head) -> Result<Vec<Kept>, sqlx::Error> {
    let Head { tenant_id, sequence, hash, books } = head;
    let found = hash_at(&mut *db, tenant_id, *sequence).await?;
    let entry = Promise::Entry(*sequence);
    let mut kept = vec![Kept { whose: tenant_id.clone(), promise: entry, signed: hash.clone(), found }];
    if let Some(books) = books {
        let found = seal_at(db, tenant_id, books.version).await?;
        let promise = Promise::Books(books.version);
        kept.push(Kept { whose: tenant_id.clone(), promise, signed: books.hash.clone(), found });
    }
    Ok(kept)
}
