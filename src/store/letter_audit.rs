//! The questions of the audit about letters: each with what the log says of it, copies and entries beside their rows of the log. Rows leave; nothing is
//! judged here but whether a row is there.

use chrono::{DateTime, Utc};
use futures::stream::BoxStream;
use sqlx::PgConnection;

use crate::domain::log_chain::{EditedContent, ParkedContent};

/// A letter as it is, beside the newest row of the log that names its state and the one of the day on which it was parked.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct LetterBesideLog {
    id: String,
    tenant_id: Option<String>,
    event_id: Option<String>,
    event_type: Option<String>,
    routing_key: String,
    lane: String,
    amount: Option<String>,
    currency: Option<String>,
    message_id: Option<String>,
    correlation_id: Option<String>,
    payload_hash: Option<String>,
    first_seen_at: DateTime<Utc>,
    properties: String,
    body_hash: String,
    status: String,
    reason: String,
    /// The hash in the log of what was parked; `None`: the log does not know the letter.
    pub logged_content: Option<String>,
    pub logged_status: Option<String>,
    pub logged_reason: Option<String>,
    /// The newest row repeats the letter's detail, resolution, entry and replay.
    pub is_as_logged: bool,
}

impl LetterBesideLog {
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    #[must_use]
    pub fn status(&self) -> &str {
        &self.status
    }

    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    #[must_use]
    pub fn content(&self) -> ParkedContent<'_> {
        ParkedContent {
            id: &self.id,
            tenant_id: self.tenant_id.as_deref(),
            event_id: self.event_id.as_deref(),
            event_type: self.event_type.as_deref(),
            routing_key: &self.routing_key,
            lane: &self.lane,
            amount: self.amount.as_deref(),
            currency: self.currency.as_deref(),
            message_id: self.message_id.as_deref(),
            correlation_id: self.correlation_id.as_deref(),
            payload_hash: self.payload_hash.as_deref(),
            first_seen_at: self.first_seen_at,
            properties: &self.properties,
            body_hash: &self.body_hash,
        }
    }
}

/// All letters, one at a time.
pub fn letters(db: &mut PgConnection) -> BoxStream<'_, Result<LetterBesideLog, sqlx::Error>> {
    sqlx::query_as(
        "select d.id, d.tenant_id, d.event_id, d.event_type, d.routing_key, d.lane, trim_scale(d.amount)::text as amount, d.currency,
                d.message_id, d.correlation_id, d.payload_hash, d.first_seen_at, d.properties,
                encode(sha256(d.body), 'hex') as body_hash, d.status, d.reason,
                parked.content as logged_content, newest.to_status as logged_status, newest.reason as logged_reason,
                coalesce(newest.detail = d.detail and newest.resolved_as is not distinct from d.resolved_as
                         and newest.entry_id is not distinct from d.entry_id
                         and newest.replay_id is not distinct from d.replay_id, false) as is_as_logged
           from fis_dead_letter d
           left join lateral (select l.content
                                from fis_operator_log l
                               where l.letter_id = d.id and l.act = 'park'
                               order by l.id desc
                               limit 1) parked on true
           left join lateral (select l.to_status, l.reason, l.detail, l.resolved_as, l.entry_id, l.replay_id
                                from fis_operator_log l
                               where l.letter_id = d.id and l.to_status is not null
                               order by l.id desc
                               limit 1) newest on true
          order by d.id",
    )
    .fetch(db)
}

/// Letters that the log knows and the table does not, each with its last state, though retention did not remove them; and letters that retention cannot
/// have removed, because they were open. At most so many of each.
///
/// # Errors
/// The database is away.
pub async fn missing(db: &mut PgConnection, most: i64) -> Result<Vec<(String, Option<String>)>, sqlx::Error> {
    sqlx::query_as(
        "(select newest.letter_id, newest.to_status
            from (select distinct on (letter_id) letter_id, act, to_status
                    from fis_operator_log
                   where letter_id is not null and act not in ('edit', 'book')
                   order by letter_id, id desc) newest
           where newest.act <> 'prune' and not exists (select from fis_dead_letter d where d.id = newest.letter_id)
           order by 1
           limit $1)
         union all
         (select letter_id, from_status
            from fis_operator_log
           where act = 'prune' and letter_id is not null and from_status in ('parked', 'replaying')
           order by id
           limit $1)",
    )
    .bind(most)
    .fetch_all(db)
    .await
}

/// An edited copy, beside its row of the log.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct EditBesideLog {
    pub letter_id: String,
    pub edit_no: i32,
    edited_by: String,
    why: String,
    edited_at: DateTime<Utc>,
    body_hash: String,
    /// `None`: the log does not know it.
    pub logged_content: Option<String>,
}

impl EditBesideLog {
    #[must_use]
    pub fn content(&self) -> EditedContent<'_> {
        EditedContent {
            letter_id: &self.letter_id,
            edit_no: self.edit_no,
            edited_by: &self.edited_by,
            why: &self.why,
            edited_at: self.edited_at,
            body_hash: &self.body_hash,
        }
    }
}

/// All edited copies, one at a time.
pub fn edits(db: &mut PgConnection) -> BoxStream<'_, Result<EditBesideLog, sqlx::Error>> {
    sqlx::query_as(
        "select e.letter_id, e.edit_no, e.edited_by, e.why, e.edited_at, encode(sha256(e.body), 'hex') as body_hash,
                (select l.content
                   from fis_operator_log l
                  where l.letter_id = e.letter_id and l.act = 'edit' and l.detail = 'edit ' || e.edit_no
                  order by l.id
                  limit 1) as logged_content
           from fis_dead_letter_edit e
          order by e.letter_id, e.edit_no",
    )
    .fetch(db)
}

/// Copies that the log knows and the tables do not, and entries of copies about which tables and log differ: as sentences, at most so many of each.
///
/// # Errors
/// The database is away.
pub async fn copies_astray(db: &mut PgConnection, most: i64) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "(select format('%s of dead letter %s is gone: the operators'' log says that %s made it', l.detail, l.letter_id, l.by)
            from fis_operator_log l
           where l.act = 'edit'
             and not exists (select from fis_dead_letter_edit e
                              where e.letter_id = l.letter_id and 'edit ' || e.edit_no = l.detail)
           order by l.id
           limit $1)
         union all
         (select format('entry %s: the record of %s of dead letter %s is gone', l.entry_id, l.detail, l.letter_id)
            from fis_operator_log l
           where l.act = 'book'
             and not exists (select from fis_entry_edit b
                              where b.entry_id = l.entry_id and b.letter_id = l.letter_id and 'edit ' || b.edit_no = l.detail)
           order by l.id
           limit $1)
         union all
         (select format('entry %s: the record of edit %s of dead letter %s is not as it was logged', b.entry_id,
                        b.edit_no, b.letter_id)
            from fis_entry_edit b
           where not exists (select from fis_operator_log l
                              where l.act = 'book' and l.letter_id = b.letter_id and l.entry_id = b.entry_id
                                and l.detail = 'edit ' || b.edit_no)
              or not exists (select from fis_dead_letter_edit e
                              where e.letter_id = b.letter_id and e.edit_no = b.edit_no
                                and e.edited_by = b.edited_by and e.why = b.why and e.edited_at = b.edited_at)
           order by b.entry_id, b.letter_id
           limit $1)",
    )
    .bind(most)
    .fetch_all(db)
    .await
}
