//! The audit: reads the whole ledger and believes none of it. Every hash is computed anew, every entry balanced, every
//! account summed. The first thing that does not hold is named with its tenant and sequence. Memory is constant.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use rust_decimal::Decimal;
use sqlx::{PgConnection, PgPool, Row};

use super::read;
use crate::domain::chain::{ChainHead, ChainedEntry};
use crate::domain::entry::Side;
use crate::domain::ids::TenantId;

/// Entries per round trip: a few megabytes.
const PAGE: i64 = 5_000;

/// What the audit found for one tenant.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantAudit {
    pub tenant_id: String,
    pub entries: i64,
    pub head: String,
    /// The first thing that does not hold.
    pub fault: Option<String>,
}

/// Audits all tenants, or one. `progress` hears the number of entries checked so far.
///
/// # Errors
/// The database is away.
pub async fn verify(
    pool: &PgPool,
    only: Option<&TenantId>,
    mut progress: impl FnMut(u64),
) -> Result<Vec<TenantAudit>, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    // One view of everything, or a batch committed in between would look like a fault.
    sqlx::query("set transaction isolation level repeatable read, read only").execute(&mut *transaction).await?;
    let tenants: Vec<String> = sqlx::query_scalar(
        "select tenant_id from fis_chain_head union select distinct tenant_id from fis_journal_entry order by 1",
    )
    .fetch_all(&mut *transaction)
    .await?;
    let mut audits = Vec::new();
    let mut checked = 0;
    for tenant in tenants.iter().filter(|tenant| only.is_none_or(|only| only.as_str() == tenant.as_str())) {
        let mut audit = walk_chain(&mut transaction, tenant, &mut checked, &mut progress).await?;
        if audit.fault.is_none() {
            audit.fault = balance_fault(&mut transaction, tenant).await?;
        }
        audits.push(audit);
    }
    transaction.rollback().await?;
    Ok(audits)
}

async fn walk_chain(
    db: &mut PgConnection,
    tenant: &str,
    checked: &mut u64,
    progress: &mut impl FnMut(u64),
) -> Result<TenantAudit, sqlx::Error> {
    let mut head = ChainHead::genesis();
    let mut fault = None;
    while fault.is_none() {
        let page = page(db, tenant, head.seq).await?;
        if page.is_empty() {
            break;
        }
        for entry in &page {
            fault = entry_fault(entry, &head);
            if fault.is_some() {
                break;
            }
            head = ChainHead { seq: entry.seq, hash: entry.hash.clone() };
        }
        *checked += page.len() as u64;
        progress(*checked);
    }
    if fault.is_none() {
        let stored = sqlx::query("select seq, hash from fis_chain_head where tenant_id = $1")
            .bind(tenant)
            .fetch_optional(db)
            .await?;
        let stored = match stored {
            Some(row) => Some(ChainHead { seq: row.try_get("seq")?, hash: row.try_get("hash")? }),
            None => None,
        };
        if stored.as_ref() != Some(&head) {
            let says = stored.map_or_else(|| "is missing".to_owned(), |stored| format!("says sequence {}", stored.seq));
            fault = Some(format!("the chain ends at sequence {}, but its head {says}", head.seq));
        }
    }
    Ok(TenantAudit { tenant_id: tenant.to_owned(), entries: head.seq, head: head.hash, fault })
}

async fn page(db: &mut PgConnection, tenant: &str, after: i64) -> Result<Vec<ChainedEntry>, sqlx::Error> {
    let mut entries = Vec::new();
    {
        let mut rows =
            sqlx::query("select * from fis_journal_entry where tenant_id = $1 and seq > $2 order by seq limit $3")
                .bind(tenant)
                .bind(after)
                .bind(PAGE)
                .fetch(&mut *db);
        while let Some(row) = rows.try_next().await? {
            entries.push(read::entry(&row)?);
        }
    }
    let Some(last) = entries.last().map(|entry| entry.seq) else { return Ok(entries) };
    let mut lines: BTreeMap<i64, Vec<_>> = BTreeMap::new();
    let mut rows = sqlx::query(
        "select * from fis_journal_line where tenant_id = $1 and seq > $2 and seq <= $3 order by seq, line_no",
    )
    .bind(tenant)
    .bind(after)
    .bind(last)
    .fetch(&mut *db);
    while let Some(row) = rows.try_next().await? {
        lines.entry(row.try_get("seq")?).or_default().push(read::line(&row)?);
    }
    for entry in &mut entries {
        entry.lines = lines.remove(&entry.seq).unwrap_or_default();
    }
    Ok(entries)
}

fn entry_fault(entry: &ChainedEntry, head: &ChainHead) -> Option<String> {
    let seq = entry.seq;
    if seq != head.seq + 1 {
        return Some(format!("sequence {} is missing", head.seq + 1));
    }
    if entry.previous_hash != head.hash {
        return Some(format!("sequence {seq}: its previous hash is not the hash of sequence {}", head.seq));
    }
    if entry.compute_hash() != entry.hash {
        return Some(format!("sequence {seq}: its content does not have the hash it carries"));
    }
    let sum = |side| entry.lines.iter().filter(|line| line.side == side).map(|line| line.base_amount).sum::<Decimal>();
    let (debit, credit) = (sum(Side::Debit), sum(Side::Credit));
    (debit != credit).then(|| format!("sequence {seq}: debits are {debit}, credits are {credit} in the base currency"))
}

async fn balance_fault(db: &mut PgConnection, tenant: &str) -> Result<Option<String>, sqlx::Error> {
    let row = sqlx::query(
        "select coalesce(b.account_code, l.account_code) as account, coalesce(b.currency, l.currency) as currency
           from (select account_code, currency, debit, credit from fis_account_balance where tenant_id = $1) b
           full join (select account_code, currency,
                             coalesce(sum(amount) filter (where side = 'debit'), 0) as debit,
                             coalesce(sum(amount) filter (where side = 'credit'), 0) as credit
                        from fis_journal_line
                       where tenant_id = $1
                       group by account_code, currency) l using (account_code, currency)
          where b.debit is distinct from l.debit or b.credit is distinct from l.credit
          order by 1, 2
          limit 1",
    )
    .bind(tenant)
    .fetch_optional(db)
    .await?;
    row.map(|row| {
        let (account, currency): (String, String) = (row.try_get("account")?, row.try_get("currency")?);
        Ok(format!("the balance of account {account} in {currency} is not the sum of its lines"))
    })
    .transpose()
}
