//! What became of one event: its tenant and id enter, everything that the ledger has written down about it leaves.
//! PostgreSQL alone is asked. What a rule ignores leaves no trace and cannot be told from what never came.

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{PgConnection, Row};

use super::held::{HeldEvent, held_event};
use crate::domain::ids::{EventId, TenantId};
use crate::store::dead_letters::{self, EventLetter};

/// Letters of one event beyond this are not listed: the newest ones tell the story.
const LETTERS_MAX: i64 = 20;

/// Everything known about an event; nothing of it: never seen, or ignored by a rule.
#[derive(Debug, Clone, Default)]
pub struct Account {
    pub posted: Option<PostedEntry>,
    pub held: Option<HeldEvent>,
    /// The newest first.
    pub letters: Vec<EventLetter>,
}

#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PostedEntry {
    pub entry_id: String,
    pub sequence: i64,
    pub hash: String,
    pub payload_hash: String,
    pub accounting_date: NaiveDate,
    pub posted_at: DateTime<Utc>,
    /// The entry that reverses it.
    pub reversed_by: Option<String>,
    /// False: the announcement is still in the outbox.
    pub announced: bool,
}

/// # Errors
/// The database is away.
pub async fn account_of(db: &mut PgConnection, tenant: &TenantId, event: &EventId) -> Result<Account, sqlx::Error> {
    // Posted and held in one statement: between two of them a held event could be posted and seen nowhere.
    let row = sqlx::query(
        "select h.tenant_id, h.event_id, h.event_type, h.reason, h.detail, h.waits_for, h.attempts, h.due_at,
                h.first_held_at, h.last_held_at,
                e.entry_id, e.seq, e.hash, e.payload_hash, e.accounting_date, e.posted_at,
                (select r.entry_id from fis_journal_entry r
                  where r.tenant_id = $1 and r.reverses_entry_id = e.entry_id) as reversed_by,
                e.seq is not null and exists (select from fis_outbox o
                  where o.tenant_id = $1 and o.seq = e.seq) as waits
           from (select $1::text as tenant_id, $2::text as event_id) asked
           left join lateral (select * from fis_held where tenant_id = $1 and event_id = $2
                               order by last_held_at desc limit 1) h on true
           left join fis_journal_entry e on e.tenant_id = $1 and e.event_id = $2",
    )
    .bind(tenant.as_str())
    .bind(event.as_str())
    .fetch_one(&mut *db)
    .await?;
    let mut account = Account::default();
    if let Some(entry_id) = row.try_get("entry_id")? {
        account.posted = Some(PostedEntry {
            entry_id,
            sequence: row.try_get("seq")?,
            hash: row.try_get("hash")?,
            payload_hash: row.try_get("payload_hash")?,
            accounting_date: row.try_get("accounting_date")?,
            posted_at: row.try_get("posted_at")?,
            reversed_by: row.try_get("reversed_by")?,
            announced: !row.try_get::<bool, _>("waits")?,
        });
    }
    if row.try_get::<Option<String>, _>("reason")?.is_some() {
        account.held = Some(held_event(&row)?);
    }
    account.letters = dead_letters::of_event(db, tenant, event, LETTERS_MAX).await?;
    Ok(account)
}
