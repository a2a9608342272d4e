//! The SQL of batch progress. Read under the lock of the tenants' heads, written in the posting transaction; only
//! transactions that have a batch's member pay. Five statements at most, whatever the size of the batch.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::{column, rows};
use crate::domain::batch::{BatchKey, BatchMember, BatchProgress, Ending, Progress, Tally};
use crate::domain::ids::{EventId, TenantId};

/// The batches of these members, and which of the members have come to an end before.
///
/// # Errors
/// The database is away, or holds what no version of this program has written.
pub async fn find(db: &mut PgConnection, members: &[&BatchMember]) -> Result<Tally, sqlx::Error> {
    let mut tally = Tally::default();
    if members.is_empty() {
        return Ok(tally);
    }
    let keys: BTreeSet<_> =
        members.iter().map(|member| (member.tenant_id.as_str(), member.batch.id.as_str())).collect();
    let rows = sqlx::query(
        "select b.tenant_id, b.batch_id, b.size, b.posted, b.rejected, b.ignored, b.completed_at, b.revision
           from unnest($1::text[], $2::text[]) as wanted (tenant_id, batch_id)
           join fis_batch b using (tenant_id, batch_id)",
    )
    .bind(column!(keys, (tenant, _) => *tenant))
    .bind(column!(keys, (_, batch) => *batch))
    .fetch_all(&mut *db)
    .await?;
    for row in rows {
        tally.batches.insert(batch_key(&row)?, progress(&row)?);
    }
    if tally.batches.is_empty() {
        return Ok(tally);
    }
    let rows = sqlx::query(
        "select distinct m.tenant_id, m.batch_id, m.event_id, m.outcome
           from unnest($1::text[], $2::text[], $3::text[]) as wanted (tenant_id, batch_id, event_id)
           join fis_batch_member m using (tenant_id, batch_id, event_id)",
    )
    .bind(column!(members, member => member.tenant_id.as_str()))
    .bind(column!(members, member => member.batch.id.as_str()))
    .bind(column!(members, member => member.event_id.as_str()))
    .fetch_all(db)
    .await?;
    for row in rows {
        let outcome: &str = row.try_get("outcome")?;
        let ending = Ending::ALL.into_iter().find(|ending| ending.as_str() == outcome);
        let ending = ending.ok_or_else(|| rows::impossible("outcome"))?;
        tally.members.insert((batch_key(&row)?, rows::event(&row, "event_id")?), ending);
    }
    Ok(tally)
}

fn batch_key(row: &PgRow) -> Result<BatchKey, sqlx::Error> {
    Ok((rows::tenant(row)?, rows::event(row, "batch_id")?))
}

fn progress(row: &PgRow) -> Result<Progress, sqlx::Error> {
    Ok(Progress {
        size: row.try_get("size")?,
        posted: row.try_get("posted")?,
        rejected: row.try_get("rejected")?,
        ignored: row.try_get("ignored")?,
        completed: row.try_get::<Option<DateTime<Utc>>, _>("completed_at")?.is_some(),
        revision: row.try_get("revision")?,
    })
}

/// Writes batches as they are now, and the members that have just come to an end.
///
/// # Errors
/// The database is away.
pub async fn write(
    db: &mut PgConnection,
    batches: &[BatchProgress],
    members: &BTreeMap<(BatchKey, EventId), Ending>,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    if batches.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into fis_batch as b (tenant_id, batch_id, size, posted, rejected, ignored, revision, completed_at,
                                     first_seen_at, updated_at)
         select t, i, s, p, r, g, v, case when c then $9 end, $9, $9
           from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                       $8::boolean[]) as told (t, i, s, p, r, g, v, c)
             on conflict (tenant_id, batch_id)
             do update set size = excluded.size, posted = excluded.posted, rejected = excluded.rejected,
                           ignored = excluded.ignored, revision = excluded.revision, updated_at = excluded.updated_at,
                           completed_at = coalesce(b.completed_at, excluded.completed_at)",
    )
    .bind(column!(batches, batch => batch.tenant_id.as_str()))
    .bind(column!(batches, batch => batch.batch_id.as_str()))
    .bind(column!(batches, batch => batch.progress.size))
    .bind(column!(batches, batch => batch.progress.posted))
    .bind(column!(batches, batch => batch.progress.rejected))
    .bind(column!(batches, batch => batch.progress.ignored))
    .bind(column!(batches, batch => batch.progress.revision))
    .bind(column!(batches, batch => batch.progress.completed))
    .bind(now)
    .execute(&mut *db)
    .await?;
    if !members.is_empty() {
        sqlx::query(
            "insert into fis_batch_member (tenant_id, batch_id, event_id, outcome)
             select * from unnest($1::text[], $2::text[], $3::text[], $4::text[])
                 on conflict (tenant_id, batch_id, event_id) do update set outcome = excluded.outcome",
        )
        .bind(column!(members, (((tenant, _), _), _) => tenant.as_str()))
        .bind(column!(members, (((_, batch), _), _) => batch.as_str()))
        .bind(column!(members, ((_, event), _) => event.as_str()))
        .bind(column!(members, (_, ending) => ending.as_str()))
        .execute(db)
        .await?;
    }
    Ok(())
}

/// A batch, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBatch {
    pub progress: Progress,
    pub first_seen_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub completed_at: Option<DateTime<Utc>>,
}

/// One batch, where it is known.
///
/// # Errors
/// The database is away.
pub async fn find_batch(
    db: &mut PgConnection,
    tenant: &TenantId,
    batch: &EventId,
) -> Result<Option<StoredBatch>, sqlx::Error> {
    let row = sqlx::query(
        "select size, posted, rejected, ignored, completed_at, revision, first_seen_at, updated_at
           from fis_batch
          where tenant_id = $1 and batch_id = $2",
    )
    .bind(tenant.as_str())
    .bind(batch.as_str())
    .fetch_optional(db)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(StoredBatch {
        progress: progress(&row)?,
        first_seen_at: row.try_get("first_seen_at")?,
        updated_at: row.try_get("updated_at")?,
        completed_at: row.try_get("completed_at")?,
    }))
}
