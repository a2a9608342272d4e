//! Faults of what the tables keep beside the chain itself: heads, balances, what the feed has still to announce. Each must agree with the chain.

use futures::StreamExt;
use sqlx::PgConnection;

use crate::domain::chain::{ChainHead, GENESIS};
use crate::domain::seal::AppliedBooks;
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

/// Every version of the books must be there with the text, the names and the time that its seal covers, and the newest must be the one in force.
pub async fn books_fault(db: &mut PgConnection, tenant: &str) -> Result<Option<String>, sqlx::Error> {
    let (mut fault, mut newest, mut previous) = (None, 0, GENESIS.to_owned());
    {
        let mut versions = audit::books(db, tenant);
        while let Some(books) = versions.next().await.transpose()? {
            let applied = AppliedBooks {
                tenant_id: tenant,
                version: books.version,
                previous: &previous,
                applied_at: books.applied_at,
                applied_by: &books.applied_by,
                login: &books.login,
                source: &books.source,
            };
            if books.version != newest + 1 {
                fault.get_or_insert_with(|| format!("version {} of the books is missing", newest + 1));
            } else if applied.seal() != books.hash {
                fault.get_or_insert_with(|| {
                    format!("version {} of the books does not have the hash it carries", books.version)
                });
            }
            (newest, previous) = (books.version, books.hash);
        }
    }
    let in_force = heads::books_version(db, tenant).await?;
    if fault.is_none() && in_force.is_some_and(|in_force| in_force != newest) {
        fault =
            in_force.map(|in_force| format!("version {in_force} of the books is in force, and {newest} is the newest"));
    }
    Ok(fault)
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
