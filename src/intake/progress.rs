//! The progress of publishers' batches, mirrored in Redis for cheap polling: committed numbers enter, the hash
//! `fis:batch:{tenant}:{batch}` is written. Numbers are absolute and carry the revision of their row, so that a late
//! writer cannot take a newer one's back. Nothing reads this but publishers; PostgreSQL has the truth.

use deadpool_redis::redis::Pipeline;

use crate::domain::ids::{EventId, TenantId};
use crate::platform::metrics;
use crate::platform::redis::Redis;

/// 7 days: longer than any batch runs, and long enough to be asked about after a weekend.
const LIFE_SECONDS: u64 = 604_800;

/// Writes unless a newer revision of the same ledger is there. Another ledger's numbers say nothing about this one's.
const WRITE: &str = "local seen = redis.call('HMGET', KEYS[1], 'ledger', 'revision')
if seen[1] == ARGV[1] and seen[2] and tonumber(seen[2]) > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'ledger', ARGV[1], 'revision', ARGV[2], 'status', ARGV[3], 'total', ARGV[4], 'done', ARGV[5], 'errors', ARGV[6])
redis.call('EXPIRE', KEYS[1], ARGV[7])
return 1";

/// A batch as it was committed.
#[derive(Debug, Clone, Copy)]
pub struct Numbers<'a> {
    pub tenant_id: &'a TenantId,
    pub batch_id: &'a EventId,
    pub completed: bool,
    /// 0: no member has named the size yet.
    pub total: i64,
    pub done: i64,
    pub errors: i64,
    pub revision: i64,
}

/// Writes all of them in one round trip. A failure is not one: the next member writes absolute numbers again.
pub async fn mirror(redis: &Redis, ledger: &str, batches: &[Numbers<'_>]) {
    if batches.is_empty() {
        return;
    }
    let mut pipeline = Pipeline::with_capacity(batches.len());
    for batch in batches {
        pipeline
            .cmd("EVAL")
            .arg(WRITE)
            .arg(1)
            .arg(format!("fis:batch:{}:{}", batch.tenant_id, batch.batch_id))
            .arg(ledger)
            .arg(batch.revision)
            .arg(if batch.completed { "COMPLETED" } else { "RUNNING" })
            .arg(batch.total)
            .arg(batch.done)
            .arg(batch.errors)
            .arg(LIFE_SECONDS);
    }
    if redis.run(&mut pipeline).await.is_err() {
        metrics::redis_away();
    }
}
