//! The feed beside the ledger: what was announced must have arrived, and must be what was posted.

use std::collections::HashMap;

use crate::domain::checkpoint::Head;
use crate::domain::feed::Proof;
use crate::platform::config::Config;
use crate::platform::postgres::Postgres;
use crate::store::outbox::first_pending;
use crate::store::{audit, heads};

/// The ledger before the feed was read.
pub struct Ledger {
    postgres: Postgres,
    heads: Vec<Head>,
    /// The first entry of each tenant that had not been announced.
    pending: HashMap<String, i64>,
}

impl Ledger {
    pub async fn read(config: &Config) -> anyhow::Result<Self> {
        let postgres = super::super::database(config).await?;
        // The heads first: an entry that is posted and announced in between is then beyond what is asked for.
        let heads = heads::all(&postgres.pool).await?;
        let pending = first_pending(&mut *postgres.pool.acquire().await?).await?;
        Ok(Self { postgres, heads, pending })
    }

    /// What the feed owes, one sentence each.
    pub async fn compare(&self, proof: &Proof) -> anyhow::Result<Vec<String>> {
        let mut missing = Vec::new();
        let asked = |tenant: &str| proof.only.as_ref().is_none_or(|only| only.as_str() == tenant);
        for head in self.heads.iter().filter(|head| asked(&head.tenant_id)) {
            let tenant = &head.tenant_id;
            let announced = self.pending.get(tenant).map_or(head.sequence, |first| head.sequence.min(first - 1));
            let reached = proof.tenants().find(|(name, _)| name.as_str() == tenant).map_or(0, |(_, seen)| seen.last);
            if reached < announced {
                missing.push(format!(
                    "tenant {tenant}: the ledger has announced sequence {announced}, the feed ends at {reached}"
                ));
            }
        }
        for (tenant, seen) in proof.tenants() {
            match audit::hash_at(&self.postgres.pool, tenant.as_str(), seen.last).await? {
                Some(hash) if hash == seen.hash => {}
                Some(hash) => missing.push(format!(
                    "tenant {tenant}: sequence {} has the hash {} in the feed and {hash} in the ledger",
                    seen.last, seen.hash
                )),
                None => missing.push(format!(
                    "tenant {tenant}: the feed reaches sequence {}, which the ledger does not have",
                    seen.last
                )),
            }
        }
        Ok(missing)
    }
}
