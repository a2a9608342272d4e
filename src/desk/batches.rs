//! The progress of a publisher's batch, as PostgreSQL has counted it. A tenant and a batch id enter, the counts leave. A batch whose members named a wrong size is
//! closed by hand: the members that have come to an end are all of it.

use chrono::{DateTime, Utc};

use std::collections::BTreeMap;

use super::{Desk, DeskError, log_act};
use crate::domain::batch::{BatchProgress, Progress};
use crate::domain::ids::{EventId, TenantId};
use crate::domain::letter::LetterAct;
use crate::domain::operator::Operator;
use crate::outbox;
use crate::platform::time;
use crate::store::batches::{StoredBatch, find_batch, write};
use crate::store::outbox::insert_announcements;
use crate::store::{heads, operator_log};

/// A batch with the number of its members that are done.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchReport {
    pub tenant_id: String,
    pub batch_id: String,
    pub status: BatchStatus,
    /// None: no member has said how many there are.
    pub total: Option<i64>,
    pub done: i64,
    pub posted: i64,
    pub rejected: i64,
    pub ignored: i64,
    pub first_seen_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub completed_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BatchStatus {
    Running,
    Completed,
}

impl BatchStatus {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
        }
    }
}

/// The wish to close a batch that will never be complete by itself.
#[derive(Debug, Clone)]
pub struct CloseBatch {
    pub tenant: TenantId,
    pub id: EventId,
    /// Somebody has seen the numbers and wants it all the same: it cannot be taken back.
    pub confirmed: bool,
    pub operator: Operator,
}

impl Desk {
    /// The progress of one batch.
    ///
    /// # Errors
    /// No member of the batch has come, or the database is away.
    pub async fn batch(&self, tenant: &TenantId, id: &EventId) -> Result<BatchReport, DeskError> {
        let found = find_batch(&mut *self.postgres.pool.acquire().await?, tenant, id).await?;
        let batch = found.ok_or_else(|| DeskError::NotFound { what: "batch", name: id.to_string() })?;
        Ok(report(tenant, id, &batch))
    }

    /// Closes a batch: what has come to an end is all of it, and its completion is announced, once. Members that come later are booked as any
    /// others, and tell nobody. The copy of the numbers in Redis is written anew by the next member.
    ///
    /// # Errors
    /// There is no reason or no confirmation, no member has come to an end yet, the batch is complete, or the database is away. Nothing is written then.
    pub async fn close_batch(&self, request: &CloseBatch) -> Result<BatchReport, DeskError> {
        let CloseBatch { tenant, id, confirmed, operator } = request;
        if operator.why().is_empty() {
            return Err(DeskError::Member { member: "why", why: "must say something".to_owned() });
        }
        if !confirmed {
            return Err(DeskError::NotConfirmed { what: "a batch that is closed stays closed".to_owned() });
        }
        let mut transaction = self.postgres.pool.begin().await?;
        // Members are counted under this lock.
        heads::lock_heads(&mut transaction, &[tenant.as_str()]).await?;
        let missing = || DeskError::NotFound { what: "batch", name: id.to_string() };
        let batch = find_batch(&mut transaction, tenant, id).await?.ok_or_else(missing)?;
        let done = batch.progress.done();
        if batch.progress.completed || done == 0 {
            let why = match done {
                0 => format!("no member of batch `{id}` has come to an end yet"),
                _ => format!("batch `{id}` is complete"),
            };
            return Err(DeskError::Refused { why });
        }
        let now = time::now();
        let size = batch.progress.size.map_or("an unknown number".to_owned(), |size| size.to_string());
        let progress =
            Progress { size: Some(done), completed: true, revision: batch.progress.revision + 1, ..batch.progress };
        let closed = BatchProgress { tenant_id: tenant.clone(), batch_id: id.clone(), progress };
        write(&mut transaction, std::slice::from_ref(&closed), &BTreeMap::new(), now).await?;
        insert_announcements(&mut transaction, &[closed.announcement(now)], outbox::properties_text).await?;
        let said = format!("closed batch {id} of {tenant} with {done} members, of {size} that were told");
        operator_log::record(&mut transaction, LetterAct::Close, operator, &said).await?;
        transaction.commit().await?;
        log_act(operator, &said);
        let batch = StoredBatch { progress, updated_at: now, completed_at: Some(now), ..batch };
        Ok(report(tenant, id, &batch))
    }
}

fn report(tenant: &TenantId, id: &EventId, batch: &StoredBatch) -> BatchReport {
    let progress = &batch.progress;
    BatchReport {
        tenant_id: tenant.to_string(),
        batch_id: id.to_string(),
        status: if progress.completed { BatchStatus::Completed } else { BatchStatus::Running },
        total: progress.total(),
        done: progress.done(),
        posted: progress.posted,
        rejected: progress.rejected,
        ignored: progress.ignored,
        first_seen_at: batch.first_seen_at,
        updated_at: batch.updated_at,
        completed_at: batch.completed_at,
    }
}
