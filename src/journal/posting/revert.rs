//! A reversal by hand: an entry's id enters, its mirror leaves, posted like any other entry: under the tenant's lock, in the
//! chain, on the feed. An operator can reverse an entry once, and can reverse that reversal; nothing is ever removed.

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{PgConnection, PgPool};

use super::decide::{append, reverse};
use super::plan::{LedgerView, Plan};
use crate::domain::books::{Books, ReversalRequest};
use crate::domain::canonical::payload_hash;
use crate::domain::chain::{ChainedEntry, Provenance};
use crate::domain::disposition::{Failure, Reason};
use crate::domain::ids::{EventId, EventType, TenantId};
use crate::domain::json;
use crate::domain::letter::LetterAct;
use crate::domain::operator::Operator;
use crate::domain::receipt::Receipt;
use crate::journal::books::{BooksError, stored};
use crate::platform::time;
use crate::store;
use crate::store::journal::known;
use crate::store::received::Totals;

/// The origin that the entry names, in the place of an event type and of a rule.
const EVENT_TYPE: &str = "fis.entry.revert";
const RULE: &str = "by hand";

#[derive(Debug, thiserror::Error)]
pub enum RevertError {
    #[error("tenant `{0}` has no books")]
    NoTenant(String),
    #[error("there is no entry {0}")]
    NoEntry(String),
    #[error("the date of the reversal")]
    OtherDate,
    #[error(transparent)]
    Refused(#[from] Failure),
    #[error(transparent)]
    Books(#[from] BooksError),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

/// The wish to reverse an entry.
#[derive(Debug)]
pub struct Reverse<'a> {
    pub tenant: &'a TenantId,
    pub seq: i64,
    /// None: the entry's own date where its period is open, else today.
    pub date: Option<NaiveDate>,
    pub operator: &'a Operator,
}

/// The mirror of an entry, and what it was made of.
#[derive(Debug)]
pub struct Reversed {
    pub receipt: Receipt,
    pub entry: ChainedEntry,
    pub original_date: NaiveDate,
    /// The day of the act, in the tenant's zone.
    pub today: NaiveDate,
}

/// Posts the mirror of an entry, with who did it and why.
///
/// # Errors
/// There is no such entry, it is reversed already, or the books do not allow it now; or the date is no longer the one that was `shown`. Nothing is
/// written then.
pub async fn revert(pool: &PgPool, asked: &Reverse<'_>, shown: Option<NaiveDate>) -> Result<Reversed, RevertError> {
    let mut transaction = pool.begin().await?;
    let reversed = post(&mut transaction, asked).await?;
    if shown.is_some_and(|shown| shown != reversed.entry.accounting_date) {
        return Err(RevertError::OtherDate);
    }
    transaction.commit().await?;
    Ok(reversed)
}

/// Posts the mirror of an entry and takes it back: what [`revert`] would do now.
///
/// # Errors
/// Those of [`revert`].
pub async fn rehearse_revert(pool: &PgPool, asked: &Reverse<'_>) -> Result<Reversed, RevertError> {
    let mut transaction = pool.begin().await?;
    let reversed = post(&mut transaction, asked).await?;
    transaction.rollback().await?;
    Ok(reversed)
}

async fn post(transaction: &mut PgConnection, asked: &Reverse<'_>) -> Result<Reversed, RevertError> {
    let Reverse { tenant, seq, date, operator } = asked;
    let (seq, by, why) = (*seq, operator.by(), operator.why());
    let mut heads = store::heads::lock_heads(&mut *transaction, &[tenant.as_str()]).await?;
    let Some(head) = heads.remove(*tenant) else {
        return Err(RevertError::NoTenant(tenant.to_string()));
    };
    // Behind the lock: entries are posted in the order of their places.
    let now = time::now();
    let books = books_in_force(&mut *transaction, tenant, head.books_version).await?;
    let entry_id = crate::domain::ids::entry_id(tenant, seq);
    let Some(original) = known::event_at(&mut *transaction, tenant, seq).await? else {
        return Err(RevertError::NoEntry(entry_id));
    };
    let key = ((*tenant).clone(), original.clone());
    let originals = known::find_originals(&mut *transaction, std::slice::from_ref(&key)).await?;
    let original_date = originals.get(&key).map(|original| original.accounting_date).unwrap_or_default();
    let mut known = LedgerView { originals, ..LedgerView::default() };
    known.heads.insert((*tenant).clone(), head.chain);
    let today = books.calendar.local_date(now);

    let request = ReversalRequest {
        original,
        asked_date: *date,
        own_date: today,
        description: Some(format!("Reversal of {entry_id} by {by}: {why}")),
        rule: RULE.to_owned(),
    };
    let origin = provenance(tenant, &entry_id, operator, now, books.version)?;
    let (entry, _, reverses) = reverse(tenant, request, &books, &known)?;
    let mut plan = Plan::default();
    let receipt = append(origin, entry, reverses, None, &mut known, &mut plan, now);
    plan.write(&known.heads, &Totals::default())?.run(&mut *transaction).await?;
    let done = format!("reversed {entry_id} by {}", receipt.entry_id);
    store::operator_log::record(transaction, LetterAct::Revert, operator, &done).await?;
    let Some(entry) = plan.entries.pop() else { unreachable!("the entry was appended to the plan above") };
    Ok(Reversed { receipt, entry, original_date, today })
}

async fn books_in_force(db: &mut PgConnection, tenant: &TenantId, version: i32) -> Result<Books, RevertError> {
    let source = store::books::source(db, tenant, version).await?;
    Ok(stored(tenant, version, &source)?)
}

/// The operator's act in the place of an event: its id is unique, its hash covers who, what and why.
fn provenance(
    tenant: &TenantId,
    entry_id: &str,
    operator: &Operator,
    now: DateTime<Utc>,
    version: i32,
) -> Result<Provenance, Failure> {
    let refused = |_| Failure::new(Reason::BadField, "the reason or the name has a character that cannot be stored");
    let act = serde_json::json!({ "by": operator.by(), "entryId": entry_id, "why": operator.why() }).to_string();
    let payload = json::parse(&act).map_err(|error| Failure::new(Reason::BadField, error.to_string()))?;
    Ok(Provenance {
        event_id: EventId::parse(&format!("revert:{entry_id}:{}", now.timestamp_micros())).map_err(refused)?,
        event_type: EventType::parse(EVENT_TYPE).map_err(refused)?,
        payload_hash: payload_hash(EVENT_TYPE, &payload, tenant.as_str()),
        tenant_id: tenant.clone(),
        rule_name: RULE.to_owned(),
        rule_version: version,
        lane: "hand",
        message_id: None,
        correlation_id: None,
        traceparent: None,
    })
}
