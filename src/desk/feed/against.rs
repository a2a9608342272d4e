//! The feed beside the ledger: everything that was announced must have arrived, and must be what was posted.

use std::collections::HashMap;
use std::fmt;

use crate::desk::{Desk, DeskError};
use crate::domain::checkpoint::Head;
use crate::domain::feed::Proof;
use crate::store::audit::hash_at;
use crate::store::heads;
use crate::store::outbox::first_pending;

/// A promise of the ledger that the feed does not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedDebt {
    /// The feed ends before the last announced entry.
    Short { tenant_id: String, announced: i64, reached: i64 },
    /// An entry has another hash in the feed than in the ledger.
    OtherHash { tenant_id: String, sequence: i64, feed: String, ledger: String },
    /// The feed has an entry that the ledger does not have.
    Unknown { tenant_id: String, sequence: i64 },
}

impl fmt::Display for FeedDebt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { tenant_id, announced, reached } => write!(
                f,
                "tenant {tenant_id}: the ledger has announced sequence {announced}, the feed ends at {reached}"
            ),
            Self::OtherHash { tenant_id, sequence, feed, ledger } => write!(
                f,
                "tenant {tenant_id}: sequence {sequence} has the hash {feed} in the feed and {ledger} in the ledger"
            ),
            Self::Unknown { tenant_id, sequence } => {
                write!(f, "tenant {tenant_id}: the feed reaches sequence {sequence}, which the ledger does not have")
            }
        }
    }
}

impl serde::Serialize for FeedDebt {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The ledger before the feed was read.
pub struct Announced<'a> {
    desk: &'a Desk,
    heads: Vec<Head>,
    /// The first entry of each tenant that had not been announced.
    pending: HashMap<String, i64>,
}

impl<'a> Announced<'a> {
    pub async fn read(desk: &'a Desk) -> Result<Self, DeskError> {
        let pool = &desk.postgres.pool;
        // The heads first: an entry that is posted and announced in between is then beyond what is asked for.
        let heads = heads::all(pool).await?;
        let pending = first_pending(&mut *pool.acquire().await?).await?;
        Ok(Self { desk, heads, pending })
    }

    /// The debts of the feed.
    pub async fn compare(&self, proof: &Proof) -> Result<Vec<FeedDebt>, DeskError> {
        let mut debts = Vec::new();
        let asked = |tenant: &str| proof.only.as_ref().is_none_or(|only| only.as_str() == tenant);
        for head in self.heads.iter().filter(|head| asked(&head.tenant_id)) {
            let tenant = &head.tenant_id;
            let announced = self.pending.get(tenant).map_or(head.sequence, |first| head.sequence.min(first - 1));
            let reached = proof.tenants().find(|(name, _)| name.as_str() == tenant).map_or(0, |(_, seen)| seen.last);
            if reached < announced {
                debts.push(FeedDebt::Short { tenant_id: tenant.clone(), announced, reached });
            }
        }
        for (tenant, seen) in proof.tenants() {
            let (tenant_id, sequence) = (tenant.to_string(), seen.last);
            match hash_at(&self.desk.postgres.pool, tenant.as_str(), sequence).await? {
                Some(hash) if hash == seen.hash => {}
                Some(ledger) => {
                    debts.push(FeedDebt::OtherHash { tenant_id, sequence, feed: seen.hash.clone(), ledger });
                }
                None => debts.push(FeedDebt::Unknown { tenant_id, sequence }),
            }
        }
        Ok(debts)
    }
}
