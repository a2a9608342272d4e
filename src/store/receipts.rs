//! What became of one event: its tenant and id enter, everything that the ledger has written down about it leaves.
//! PostgreSQL alone is asked. An ignored event is remembered for a month; after that it cannot be told from one that never came.

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::column;
use super::held::{HeldEvent, held_event};
use crate::domain::ids::{EventId, TenantId};
use crate::store::dead_letters::{self, EventLetter};
use crate::store::ignored::{self, IgnoredEvent};

/// Letters of one event beyond this are not listed: the newest ones tell the story.
const LETTERS_MAX: i64 = 20;

/// Everything known about an event.
#[derive(Debug, Clone, Default)]
pub struct Account {
    pub posted: Option<PostedEntry>,
    pub held: Option<HeldEvent>,
    /// The newest first.
    pub letters: Vec<EventLetter>,
    pub ignored: Option<IgnoredEvent>,
}

#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PostedEntry {
    pub entry_id: String,
    pub sequence: i64,
    pub event_type: String,
    pub description: String,
    pub rule: String,
    pub rule_version: i32,
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
                e.entry_id, e.seq, e.event_type as posted_type, e.description, e.rule_name, e.rule_version, e.hash, e.payload_hash, e.accounting_date, e.posted_at,
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
            event_type: row.try_get("posted_type")?,
            description: row.try_get("description")?,
            rule: row.try_get("rule_name")?,
            rule_version: row.try_get("rule_version")?,
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
    account.letters = dead_letters::of_event(&mut *db, tenant, event, LETTERS_MAX).await?;
    account.ignored = ignored::find(db, tenant.as_str(), event.as_str()).await?;
    Ok(account)
}

/// An event whose state is asked for; what could not be read of it is missing.
#[derive(Debug, Clone, Copy)]
pub struct AskedEvent<'a> {
    pub tenant_id: Option<&'a str>,
    pub event_id: Option<&'a str>,
    pub payload_hash: Option<&'a str>,
    /// The dead letter that its message is, if it was rejected.
    pub letter_id: &'a str,
}

/// The state of an event, in short.
#[derive(Debug, Clone, Default)]
pub struct EventState {
    pub entry: Option<EntryState>,
    pub letter: Option<LetterState>,
    /// Reason and detail of the hold of the same content.
    pub held: Option<(String, String)>,
    pub ignored: Option<IgnoredEvent>,
}

#[derive(Debug, Clone)]
pub struct EntryState {
    pub entry_id: String,
    pub sequence: i64,
    pub payload_hash: String,
    pub message_id: Option<String>,
}

#[derive(Debug, Clone)]
pub struct LetterState {
    pub reason: String,
    pub detail: String,
    pub attempts: i32,
}

/// The states of some events, each in the place of its question.
///
/// # Errors
/// The database is away.
pub async fn states_of(db: &mut PgConnection, asked: &[AskedEvent<'_>]) -> Result<Vec<EventState>, sqlx::Error> {
    // `offset 0` keeps the planner from joining whole tables instead of looking up a few rows.
    let rows = sqlx::query(
        "select e.entry_id, e.seq, e.payload_hash, e.message_id,
                d.reason as letter_reason, d.detail as letter_detail, d.attempts,
                h.reason as held_reason, h.detail as held_detail,
                i.rule_name, i.books_version, i.received_on, i.ignored_at
           from unnest($1::text[], $2::text[], $3::text[], $4::text[])
                with ordinality as asked (tenant_id, event_id, payload_hash, letter_id, place)
           left join lateral (select * from fis_journal_entry
                               where tenant_id = asked.tenant_id and event_id = asked.event_id offset 0) e on true
           left join lateral (select * from fis_dead_letter where id = asked.letter_id offset 0) d on true
           left join lateral (select * from fis_held
                               where tenant_id = asked.tenant_id and event_id = asked.event_id
                                 and payload_hash = asked.payload_hash offset 0) h on true
           left join lateral (select * from fis_ignored
                               where tenant_id = asked.tenant_id and event_id = asked.event_id offset 0) i on true
          order by asked.place",
    )
    .bind(column!(asked, event => event.tenant_id))
    .bind(column!(asked, event => event.event_id))
    .bind(column!(asked, event => event.payload_hash))
    .bind(column!(asked, event => event.letter_id))
    .fetch_all(db)
    .await?;
    rows.iter().map(state).collect()
}

fn state(row: &PgRow) -> Result<EventState, sqlx::Error> {
    let mut state = EventState::default();
    if let Some(entry_id) = row.try_get("entry_id")? {
        let (payload_hash, message_id) = (row.try_get("payload_hash")?, row.try_get("message_id")?);
        state.entry = Some(EntryState { entry_id, sequence: row.try_get("seq")?, payload_hash, message_id });
    }
    if let Some(attempts) = row.try_get("attempts")? {
        let (reason, detail) = (row.try_get("letter_reason")?, row.try_get("letter_detail")?);
        state.letter = Some(LetterState { reason, detail, attempts });
    }
    if let Some(reason) = row.try_get("held_reason")? {
        state.held = Some((reason, row.try_get("held_detail")?));
    }
    if let Some(books_version) = row.try_get("books_version")? {
        let (rule, received_on) = (row.try_get("rule_name")?, row.try_get("received_on")?);
        let ignored_at = row.try_get("ignored_at")?;
        state.ignored = Some(IgnoredEvent { rule, books_version, received_on, ignored_at });
    }
    Ok(state)
}
