//! The progress of a publisher's batch, as PostgreSQL has counted it. A tenant and a batch id enter, the counts leave.

use chrono::{DateTime, Utc};

use super::{Desk, DeskError};
use crate::domain::ids::{EventId, TenantId};
use crate::store::batches::find_batch;

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

impl Desk {
    /// The progress of one batch.
    ///
    /// # Errors
    /// No member of the batch has come, or the database is away.
    pub async fn batch(&self, tenant: &TenantId, id: &EventId) -> Result<BatchReport, DeskError> {
        let found = find_batch(&mut *self.postgres.pool.acquire().await?, tenant, id).await?;
        let batch = found.ok_or_else(|| DeskError::NotFound { what: "batch", name: id.to_string() })?;
        let progress = &batch.progress;
        Ok(BatchReport {
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
        })
    }
}
