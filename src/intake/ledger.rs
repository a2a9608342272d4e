//! Which ledger stands behind a COMPLETED. The epoch of PostgreSQL (system, database, timeline) changes with a fail-over or a
//! recovery, but not when a cold copy of its files is put back. So Redis also remembers how far the write-ahead log had come:
//! a PostgreSQL that is behind that has forgotten something, and gets a new name; keys of the old name prove nothing.

use std::sync::Mutex;

use deadpool_redis::redis::{FromRedisValue, Pipeline};

use crate::platform::postgres::Postgres;
use crate::platform::redis::Redis;

/// The ledger's name as far as it is known.
#[derive(Default)]
pub struct Ledger {
    /// With the number of connections made when it was found out: a new connection may lead to another past.
    known: Mutex<Option<(u64, String)>>,
}

impl Ledger {
    /// The name of the ledger behind the pool; empty where it cannot be told, and then no key is believed.
    pub async fn name(&self, postgres: &Postgres, redis: &Redis) -> String {
        let connections = postgres.connections();
        if let Ok(known) = self.known.lock()
            && let Some((at, name)) = known.as_ref()
            && *at == connections
        {
            return name.clone();
        }
        let Some(name) = find_out(postgres, redis).await else { return String::new() };
        // Only if nothing was connected meanwhile: the question itself may have made the first connection.
        if let Ok(mut known) = self.known.lock() {
            *known = (postgres.connections() == connections).then(|| (connections, name.clone()));
        }
        name
    }
}

fn key(epoch: &str) -> String {
    format!("fis:ledger:{epoch}")
}

async fn find_out(postgres: &Postgres, redis: &Redis) -> Option<String> {
    // Redis first: where it is away, no key can be believed and PostgreSQL need not be asked.
    redis.ping().await.ok()?;
    let (epoch, position) = postgres.place().await.ok()?;
    let key = key(&epoch);
    let (since, reached) = read(redis, &key).await?;
    let forgotten = reached.is_some_and(|reached| position < reached);
    if forgotten {
        tracing::warn!(
            position,
            reached,
            "PostgreSQL is behind what Redis remembers of it: it was restored. Redis is not believed about anything before"
        );
    }
    if since.is_none() || forgotten {
        let mut write = Pipeline::with_capacity(1);
        write.cmd("HSET").arg(&key).arg("since").arg(position).arg("reached").arg(position);
        redis.run(&mut write).await.ok()?.pop()?.ok()?;
        return Some(format!("{epoch}-{position:x}"));
    }
    since.map(|since| format!("{epoch}-{since:x}"))
}

async fn read(redis: &Redis, key: &str) -> Option<(Option<i64>, Option<i64>)> {
    let mut read = Pipeline::with_capacity(1);
    read.cmd("HMGET").arg(key).arg("since").arg("reached");
    let values = redis.run(&mut read).await.ok()?.pop()?.ok()?;
    FromRedisValue::from_redis_value(values).ok()
}

/// Adds to a pipeline that the ledger has come this far.
pub fn remember(pipeline: &mut Pipeline, name: &str, position: i64) {
    if let Some((epoch, _)) = name.rsplit_once('-') {
        pipeline.cmd("HSET").arg(key(epoch)).arg("reached").arg(position);
    }
}
