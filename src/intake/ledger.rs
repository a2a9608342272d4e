//! Which ledger stands behind a COMPLETED, and the proof that fis wrote it for that ledger. The epoch of PostgreSQL (system, database, timeline) changes with a fail-over or a
//! recovery, but not when a cold copy of its files is put back. So Redis also remembers how far it had come: the position in
//! the write-ahead log, and the last entry. A PostgreSQL that is behind that position, or has another entry in that place, has
//! forgotten something, and gets a new name; keys of the old name prove nothing. The position alone would not do: what is
//! written after the restoring, before anybody asks, takes it past where it was.

use std::sync::{Arc, Mutex};

use deadpool_redis::redis::{FromRedisValue, Pipeline};

use crate::domain::ids::{EventId, TenantId};
use crate::platform::mac::MacKey;
use crate::platform::postgres::{Postgres, Work};
use crate::platform::redis::Redis;
use crate::store::ledger;

/// The question which ledger this is.
const ASK: Work = Work::of("intake.ledger");

/// The ledger that keys speak of. The default is one that nobody knows: no key is believed, and none says that it was posted there.
#[derive(Clone, Default)]
pub struct Ledger {
    name: String,
    /// The secret of PostgreSQL, by which fis knows its own keys. Whoever can write to Redis does not have it.
    secret: Option<Arc<MacKey>>,
}

impl Ledger {
    #[cfg(test)]
    pub(super) fn of(name: &str, secret: &[u8]) -> Self {
        Self { name: name.to_owned(), secret: Some(Arc::new(MacKey::new(secret))) }
    }

    /// The name, as keys carry it; empty where it is not known.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The code that makes a COMPLETED believed: of this ledger, for this event, with this content. `None`: nobody knows this ledger.
    #[must_use]
    pub fn prove(&self, tenant: &TenantId, event: &EventId, payload_hash: &str) -> Option<String> {
        let secret = self.secret.as_ref()?;
        Some(secret.code(&self.statement(tenant, event, payload_hash)))
    }

    /// Tells whether that code is this one.
    #[must_use]
    pub fn proves(&self, tenant: &TenantId, event: &EventId, payload_hash: &str, code: &str) -> bool {
        let secret = self.secret.as_ref();
        secret.is_some_and(|secret| secret.made(&self.statement(tenant, event, payload_hash), code))
    }

    fn statement<'a>(&'a self, tenant: &'a TenantId, event: &'a EventId, payload_hash: &'a str) -> [&'a str; 5] {
        ["fis:ik COMPLETED", tenant.as_str(), event.as_str(), payload_hash, &self.name]
    }
}

/// The ledger as far as it is known.
#[derive(Default)]
pub struct LedgerEpoch {
    /// With the number of connections made when it was found out: a new connection may lead to another past.
    known: Mutex<Option<(u64, Ledger)>>,
}

impl LedgerEpoch {
    /// The ledger behind the pool.
    pub async fn ledger(&self, postgres: &Postgres, redis: &Redis) -> Ledger {
        let connections = postgres.connections();
        if let Ok(known) = self.known.lock()
            && let Some((at, ledger)) = known.as_ref()
            && *at == connections
        {
            return ledger.clone();
        }
        let Some(ledger) = find_out(postgres, redis).await else { return Ledger::default() };
        // Only if nothing was connected meanwhile: the question itself may have made the first connection.
        if let Ok(mut known) = self.known.lock() {
            *known = (postgres.connections() == connections).then(|| (connections, ledger.clone()));
        }
        ledger
    }
}

fn key(epoch: &str) -> String {
    format!("fis:ledger:{epoch}")
}

async fn find_out(postgres: &Postgres, redis: &Redis) -> Option<Ledger> {
    // Redis first: where it is away, no key can be believed and PostgreSQL need not be asked.
    redis.ping().await.ok()?;
    let secret = postgres.run(ASK, ledger::secret).await.ok()?;
    let secret = Some(Arc::new(MacKey::new(&secret)));
    Some(Ledger { name: find_name(postgres, redis).await?, secret })
}

async fn find_name(postgres: &Postgres, redis: &Redis) -> Option<String> {
    let (epoch, mut position) = postgres.run(ASK, ledger::position).await.ok()?;
    let key = key(&epoch);
    let (since, reached, entry) = read(redis, &key).await?;
    let is_behind = |position: i64| reached.is_some_and(|reached| position < reached);
    if is_behind(position) {
        // A batch may have committed between the two questions: only a position that is asked for later than Redis counts.
        let (again, later) = postgres.run(ASK, ledger::position).await.ok()?;
        if again != epoch {
            return None;
        }
        position = later;
    }
    let forgotten = is_behind(position) || !has(postgres, entry.as_deref()).await?;
    if forgotten {
        tracing::warn!(
            position,
            reached,
            entry,
            "PostgreSQL is behind what Redis remembers of it: it was restored. Redis is not believed about anything before"
        );
    }
    if since.is_none() || forgotten {
        let since = begin(redis, &key, position, forgotten).await?;
        return Some(format!("{epoch}-{since:x}"));
    }
    since.map(|since| format!("{epoch}-{since:x}"))
}

/// A new name, or the one that somebody else has just begun. It is a number of its own, not the position: a copy that is put
/// back twice comes to the same position twice.
async fn begin(redis: &Redis, key: &str, position: i64, anew: bool) -> Option<i64> {
    let mut write = Pipeline::with_capacity(4);
    if anew {
        write.cmd("DEL").arg(key);
    }
    write.cmd("HSETNX").arg(key).arg("since").arg(fastrand::i64(1..));
    write.cmd("HSETNX").arg(key).arg("reached").arg(position);
    write.cmd("HGET").arg(key).arg("since");
    // All or nothing: an old name that could not be taken away must not be taken for the new one.
    let answers: Vec<_> = redis.run(&mut write).await.ok()?.into_iter().collect::<Result<_, _>>().ok()?;
    FromRedisValue::from_redis_value(answers.into_iter().last()?).ok()?
}

/// Tells whether the entry is where Redis remembers it. `None`: nobody can say.
async fn has(postgres: &Postgres, entry: Option<&str>) -> Option<bool> {
    let Some(entry) = entry else { return Some(true) };
    let mut parts = entry.splitn(3, ' ');
    let (seq, hash, tenant) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    postgres.run(ASK, async |db| ledger::has_entry(db, tenant, seq, hash).await).await.ok()
}

async fn read(redis: &Redis, key: &str) -> Option<(Option<i64>, Option<i64>, Option<String>)> {
    let mut read = Pipeline::with_capacity(1);
    read.cmd("HMGET").arg(key).arg("since").arg("reached").arg("entry");
    let values = redis.run(&mut read).await.ok()?.pop()?.ok()?;
    FromRedisValue::from_redis_value(values).ok()
}

/// The point that a commit has brought the ledger to: the position in its write-ahead log, and the commit's last entry.
#[derive(Debug, Clone, Copy)]
pub struct Reached<'a> {
    pub position: i64,
    pub tenant_id: &'a TenantId,
    pub seq: i64,
    pub hash: &'a str,
}

/// Adds to a pipeline that the ledger has come this far.
pub fn remember(pipeline: &mut Pipeline, name: &str, reached: Reached<'_>) {
    if let Some((epoch, _)) = name.rsplit_once('-') {
        let Reached { position, tenant_id, seq, hash } = reached;
        let entry = format!("{seq} {hash} {tenant_id}");
        pipeline.cmd("HSET").arg(key(epoch)).arg("reached").arg(position).arg("entry").arg(entry);
    }
}
