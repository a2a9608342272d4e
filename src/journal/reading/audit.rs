//! The audit: reads the whole ledger and believes none of it. Every hash is computed anew, every entry balanced, every
//! account summed, the rest of the feed counted. The first thing that does not hold is named with its tenant and
//! sequence.
//!
//! Entries and lines of a tenant come as two streams of text from one snapshot, side by side, so that nothing is joined,
//! sorted or collected: memory holds one entry and the tenant's accounts.

mod copy;
mod kept;
mod sums;

use futures::{Stream, StreamExt};
use sqlx::{PgConnection, PgPool};

use crate::domain::chain::ChainHead;
use crate::domain::ids::TenantId;
use crate::store::audit as store;
use copy::{EntryRow, LineRow};
pub use kept::balance_fault;
use kept::{books_fault, end_fault, feed_fault};
use sums::{EntrySum, Sums};

/// The number of entries after which `progress` hears something.
const PROGRESS_EVERY: u64 = 10_000;

/// The findings of the audit for one tenant.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantAudit {
    pub tenant_id: String,
    /// The last sequence whose link holds.
    pub entries: i64,
    #[serde(rename = "hash")]
    pub head: String,
    /// The first thing that does not hold.
    pub fault: Option<String>,
}

/// The part of the ledger that is to be audited.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    pub tenant: Option<TenantId>,
    /// The first sequence to check. What lies before it is believed, and balances are not compared.
    pub from: Option<i64>,
}

/// Audits the ledger. `progress` hears the number of entries checked so far.
///
/// # Errors
/// The database is away.
pub async fn verify(
    pool: &PgPool,
    scope: &Scope,
    mut progress: impl FnMut(u64),
) -> Result<Vec<TenantAudit>, sqlx::Error> {
    let (mut entries, mut lines, mut rest) = (pool.acquire().await?, pool.acquire().await?, pool.acquire().await?);
    // One view of everything, or a batch committed in between would look like a fault.
    let snapshot = store::begin(&mut entries, None).await?;
    store::begin(&mut lines, Some(&snapshot)).await?;
    store::begin(&mut rest, Some(&snapshot)).await?;
    let mut audits = Vec::new();
    let mut checked = 0;
    for tenant in store::tenants(&mut rest, scope.tenant.as_ref()).await? {
        let start = start_of(&mut rest, &tenant, scope.from).await?;
        let mut walk = Walk { head: start, fault: None, sums: Sums::default() };
        // A tenant's name has no quote: it was checked when its books were applied, and is checked again here.
        let Ok(name) = TenantId::parse(&tenant) else {
            let fault = Some("no tenant can have this name".to_owned());
            audits.push(TenantAudit { tenant_id: tenant, entries: 0, head: walk.head.hash, fault });
            continue;
        };
        {
            let entry_rows = entries.copy_out_raw(&store::entries_query(&name, walk.head.seq)).await?;
            let line_rows = lines.copy_out_raw(&store::lines_query(&name, walk.head.seq)).await?;
            walk.along(tenant.as_bytes(), entry_rows, line_rows, &mut checked, &mut progress).await?;
        }
        if walk.fault.is_none() {
            walk.fault = end_fault(&mut rest, &tenant, &walk.head).await?;
        }
        if walk.fault.is_none() && scope.from.is_none() {
            walk.fault = walk.sums.fault(&store::balances(&mut rest, &tenant).await?);
        }
        if walk.fault.is_none() {
            walk.fault = books_fault(&mut rest, &tenant).await?;
        }
        if walk.fault.is_none() {
            walk.fault = feed_fault(&mut rest, &tenant, walk.head.seq).await?;
        }
        audits.push(TenantAudit { tenant_id: tenant, entries: walk.head.seq, head: walk.head.hash, fault: walk.fault });
    }
    for mut db in [entries, lines, rest] {
        store::end(&mut db).await?;
    }
    progress(checked);
    Ok(audits)
}

/// The link before the first one to check.
async fn start_of(db: &mut PgConnection, tenant: &str, from: Option<i64>) -> Result<ChainHead, sqlx::Error> {
    let before = from.unwrap_or(1).saturating_sub(1);
    let hash = store::hash_at(db, tenant, before).await?;
    Ok(hash.map_or_else(ChainHead::genesis, |hash| ChainHead { seq: before, hash }))
}

/// Along a tenant's chain, up to the first fault.
struct Walk {
    head: ChainHead,
    fault: Option<String>,
    sums: Sums,
}

impl Walk {
    async fn along<B: AsRef<[u8]>>(
        &mut self,
        tenant: &[u8],
        mut entries: impl Stream<Item = Result<B, sqlx::Error>> + Unpin,
        mut lines: impl Stream<Item = Result<B, sqlx::Error>> + Unpin,
        checked: &mut u64,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), sqlx::Error> {
        let mut hash = copy::EntryHash::default();
        let mut next_line = lines.next().await.transpose()?;
        while let Some(row) = entries.next().await.transpose()? {
            let entry = EntryRow::parse(row.as_ref()).ok_or_else(unreadable)?;
            hash.begin(tenant, &entry);
            let mut sum = EntrySum::default();
            while let Some(row) = &next_line {
                let line = LineRow::parse(row.as_ref()).ok_or_else(unreadable)?;
                if line.seq > entry.seq {
                    break;
                }
                if line.seq == entry.seq {
                    hash.add(&line);
                    sum.add(&line);
                    self.sums.add(&line);
                } else {
                    self.fault
                        .get_or_insert_with(|| format!("sequence {} is missing: it has lines but no entry", line.seq));
                }
                next_line = lines.next().await.transpose()?;
            }
            // Behind a fault the streams are still read to their end: a connection must not be left in the middle of one.
            if self.fault.is_none() {
                self.fault = self.entry_fault(&entry, &hash.finish(), &sum);
                if self.fault.is_none() {
                    self.head = ChainHead { seq: entry.seq, hash: String::from_utf8_lossy(entry.hash).into_owned() };
                }
            }
            *checked += 1;
            if checked.is_multiple_of(PROGRESS_EVERY) {
                progress(*checked);
            }
        }
        while let Some(row) = next_line {
            let line = LineRow::parse(row.as_ref()).ok_or_else(unreadable)?;
            self.fault.get_or_insert_with(|| format!("sequence {} is missing: it has lines but no entry", line.seq));
            next_line = lines.next().await.transpose()?;
        }
        Ok(())
    }

    fn entry_fault(&self, entry: &EntryRow<'_>, computed: &str, sum: &EntrySum) -> Option<String> {
        let seq = entry.seq;
        if seq != self.head.seq + 1 {
            return Some(format!("sequence {} is missing", self.head.seq + 1));
        }
        if entry.previous_hash != self.head.hash.as_bytes() {
            return Some(format!("sequence {seq}: its previous hash is not the hash of sequence {}", self.head.seq));
        }
        if entry.hash != computed.as_bytes() {
            return Some(format!("sequence {seq}: its content does not have the hash it carries"));
        }
        sum.fault().map(|fault| format!("sequence {seq}: {fault}"))
    }
}

fn unreadable() -> sqlx::Error {
    sqlx::Error::Protocol("a row of the journal cannot be read".to_owned())
}
