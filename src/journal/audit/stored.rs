//! What the tables keep beside the chain itself: heads, balances, what the feed has still to announce. Each must agree with it.

use sqlx::{PgConnection, PgPool, Row};

use crate::domain::chain::{ChainHead, GENESIS};
use crate::domain::checkpoint::Head;

/// The end of every chain that has entries, in tenant order.
///
/// # Errors
/// The database is away.
pub async fn heads(pool: &PgPool) -> Result<Vec<Head>, sqlx::Error> {
    let rows = sqlx::query("select tenant_id, seq, hash from fis_chain_head where seq > 0 order by tenant_id")
        .fetch_all(pool)
        .await?;
    let head = |row: &sqlx::postgres::PgRow| {
        Ok(Head { tenant_id: row.try_get("tenant_id")?, sequence: row.try_get("seq")?, hash: row.try_get("hash")? })
    };
    rows.iter().map(head).collect()
}

/// The hash of one entry, where there is one.
///
/// # Errors
/// The database is away.
pub async fn hash_at(pool: &PgPool, tenant: &str, seq: i64) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar("select hash from fis_journal_entry where tenant_id = $1 and seq = $2")
        .bind(tenant)
        .bind(seq)
        .fetch_optional(pool)
        .await
}

/// The stored head must be where the chain ends.
pub async fn end_fault(db: &mut PgConnection, tenant: &str, end: &ChainHead) -> Result<Option<String>, sqlx::Error> {
    let row = sqlx::query("select seq, hash from fis_chain_head where tenant_id = $1")
        .bind(tenant)
        .fetch_optional(db)
        .await?;
    let Some(row) = row else {
        return Ok(Some(format!("the chain ends at sequence {}, but its head is missing", end.seq)));
    };
    let stored = ChainHead { seq: row.try_get("seq")?, hash: row.try_get("hash")? };
    debug_assert!(end.seq > 0 || end.hash == GENESIS);
    Ok((stored != *end)
        .then(|| format!("the chain ends at sequence {}, but its head says sequence {}", end.seq, stored.seq)))
}

/// What the feed has still to announce must be the end of the chain, without a hole: anything else was skipped.
pub async fn feed_fault(db: &mut PgConnection, tenant: &str, head: i64) -> Result<Option<String>, sqlx::Error> {
    let row = sqlx::query("select min(seq) as first, max(seq) as last, count(*) as pending from fis_outbox where tenant_id = $1 and seq is not null")
        .bind(tenant)
        .fetch_one(db)
        .await?;
    let (Some(first), Some(last)) = (row.try_get::<Option<i64>, _>("first")?, row.try_get::<Option<i64>, _>("last")?)
    else {
        return Ok(None);
    };
    let pending: i64 = row.try_get("pending")?;
    let whole = last == head && pending == last - first + 1;
    Ok((!whole).then(|| {
        format!(
            "the feed has {pending} entries to announce from sequence {first} to {last}, and the chain ends at {head}"
        )
    }))
}

/// The first account whose kept balance is not the sum of its lines.
///
/// # Errors
/// The database is away.
pub async fn balance_fault(db: &mut PgConnection, tenant: &str) -> Result<Option<String>, sqlx::Error> {
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
