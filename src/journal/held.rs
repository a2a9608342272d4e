//! Held events, called back before their time, by a person or because their cause is gone. A release moves the due time of a row; the
//! inbox does the rest. It touches a row only under the lock of the tenant's head, so it cannot race with a posting.

use std::collections::BTreeSet;

use sqlx::{PgConnection, PgPool};

use crate::domain::books::Books;
use crate::domain::chain::ChainedEntry;
use crate::domain::disposition::Reason;
use crate::domain::ids::{EventId, TenantId};
use crate::domain::letter::LetterAct;
use crate::domain::operator::Operator;
use crate::domain::waits_for::WaitsFor;
use crate::faults::crash_points::{self, crash_point};
use crate::store::heads::lock_heads;
use crate::store::held::{self, HeldFilter, RELEASED_MAX};
use crate::store::operator_log;

/// The events that a record names; of the others it has the number.
const NAMED_MAX: usize = 10;

/// The fate of the wish to release an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Released {
    #[serde(rename = "released")]
    Now,
    /// The event is due already.
    #[serde(rename = "due already")]
    Before,
    #[serde(rename = "not held")]
    NotHeld,
}

impl Released {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Now => "released",
            Self::Before => "due already",
            Self::NotHeld => "not held",
        }
    }
}

/// Calls back the named events of one tenant.
///
/// # Errors
/// The database is away; nothing was released.
pub async fn release_events(
    pool: &PgPool,
    tenant: &TenantId,
    events: &[EventId],
    who: &Operator,
) -> Result<Vec<Released>, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    lock_heads(&mut transaction, &[tenant.as_str()]).await?;
    let events: Vec<&str> = events.iter().map(EventId::as_str).collect();
    let held = held::among(&mut transaction, tenant, &events).await?;
    let freed = held::free_events(&mut transaction, tenant, &events).await?;
    if !freed.is_empty() {
        let named: Vec<&str> = freed.iter().take(NAMED_MAX).map(String::as_str).collect();
        let more = freed.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let done = format!("released held events of {tenant}: {}{more}", named.join(", "));
        operator_log::record(&mut transaction, LetterAct::Release, who, &done).await?;
    }
    crash_point(crash_points::BEFORE_RELEASE);
    transaction.commit().await?;
    crash_point(crash_points::AFTER_RELEASE);
    let is_held = |event: &str| held.iter().any(|held| held == event);
    let is_freed = |event: &str| freed.iter().any(|freed| freed == event);
    let outcome = |event: &&str| match (is_freed(event), is_held(event)) {
        (true, _) => Released::Now,
        (false, true) => Released::Before,
        (false, false) => Released::NotHeld,
    };
    Ok(events.iter().map(outcome).collect())
}

/// Calls back whatever matches, some at a time; returns how many.
///
/// # Errors
/// The database is away; some may have been released.
pub async fn release_matching(pool: &PgPool, filter: &HeldFilter, who: &Operator) -> Result<u64, sqlx::Error> {
    let mut released = 0;
    loop {
        let some = release_some(pool, filter, who).await?;
        released += some;
        // Each round takes what the one before has left, so the rounds have an end.
        if some < RELEASED_MAX {
            return Ok(released);
        }
    }
}

async fn release_some(pool: &PgPool, filter: &HeldFilter, who: &Operator) -> Result<u64, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    let tenants = held::tenants(&mut transaction, filter.tenant.as_ref()).await?;
    let tenants: Vec<&str> = tenants.iter().map(String::as_str).collect();
    lock_heads(&mut transaction, &tenants).await?;
    // Only the tenants that are locked: one that came since is left alone.
    let released = held::free_matching(&mut transaction, &tenants, filter.reason.map(Reason::code)).await?;
    if released > 0 {
        let tenant = filter.tenant.as_ref().map_or_else(|| "all tenants".to_owned(), ToString::to_string);
        let reason = filter.reason.map(|reason| format!(", held for {}", reason.code())).unwrap_or_default();
        let done = format!("released {released} held events of {tenant}{reason}");
        operator_log::record(&mut transaction, LetterAct::Release, who, &done).await?;
    }
    transaction.commit().await?;
    Ok(released)
}

/// Calls back the events that wait for one of these entries, now that it is posted. Inside the posting transaction. Returns how many.
pub async fn free_waiting_for(db: &mut PgConnection, entries: &[ChainedEntry]) -> Result<u64, sqlx::Error> {
    let tenants: Vec<&str> = entries.iter().map(|entry| entry.origin.tenant_id.as_str()).collect();
    let distinct: Vec<&str> = BTreeSet::from_iter(tenants.iter().copied()).into_iter().collect();
    if !held::any_waits_for_event(&mut *db, &distinct).await? {
        return Ok(0);
    }
    let causes: Vec<String> =
        entries.iter().map(|entry| WaitsFor::Event(entry.origin.event_id.clone()).to_string()).collect();
    held::free_causes(db, &tenants, &causes).await
}

/// Calls back the events whose cause is gone under new books, the first of them where there are many. The others stay: a retry that cannot succeed would only spend
/// their attempts. Inside the transaction that puts the books in force, with the tenant's head locked.
pub async fn free_by_books(db: &mut PgConnection, books: &Books) -> Result<u64, sqlx::Error> {
    let causes = held::causes(&mut *db, &books.tenant_id).await?;
    let is_gone = |cause: &String| WaitsFor::parse(cause).is_some_and(|cause| books.is_gone(&cause));
    let gone: Vec<String> = causes.into_iter().filter(is_gone).collect();
    if gone.is_empty() {
        return Ok(0);
    }
    held::free_tenant_causes(db, &books.tenant_id, &gone).await
}
