//! Faults of what the tables keep beside the chain itself: heads, balances, what the feed has still to announce. Each must agree with the chain.

use sqlx::PgConnection;

use crate::domain::chain::{ChainHead, GENESIS};
use crate::store::{audit, heads};

/// The stored head must be where the chain ends.
pub async fn end_fault(db: &mut PgConnection, tenant: &str, end: &ChainHead) -> Result<Option<String>, sqlx::Error> {
    let Some(stored) = heads::find(db, tenant).await? else {
        return Ok(Some(format!("the chain ends at sequence {}, but its head is missing", end.seq)));
    };
    debug_assert!(end.seq > 0 || end.hash == GENESIS);
    Ok((stored != *end)
        .then(|| format!("the chain ends at sequence {}, but its head says sequence {}", end.seq, stored.seq)))
}

/// The entries that the feed has still to announce must be the end of the chain, without a hole: anything else was skipped.
pub async fn feed_fault(db: &mut PgConnection, tenant: &str, head: i64) -> Result<Option<String>, sqlx::Error> {
    let Some(left) = audit::unannounced(db, tenant).await? else { return Ok(None) };
    let whole = left.last == head && left.entries == left.last - left.first + 1;
    Ok((!whole).then(|| {
        format!(
            "the feed has {} entries to announce from sequence {} to {}, and the chain ends at {head}",
            left.entries, left.first, left.last
        )
    }))
}

/// The first account whose kept balance is not the sum of its lines.
///
/// # Errors
/// The database is away.
pub async fn balance_fault(db: &mut PgConnection, tenant: &str) -> Result<Option<String>, sqlx::Error> {
    let wrong = audit::wrong_balance(db, tenant).await?;
    Ok(wrong.map(|(account, currency)| wrong_balance(&account, &currency)))
}

pub(super) fn wrong_balance(account: &str, currency: &str) -> String {
    format!("the balance of account {account} in {currency} is not the sum of its lines")
}
