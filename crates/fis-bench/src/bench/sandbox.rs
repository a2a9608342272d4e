//! A database and a virtual host for one measurement, so that it starts from nothing and leaves nothing. In Redis it has the
//! keys that carry its name.

use anyhow::Context;
use deadpool_redis::redis::{FromRedisValue, Pipeline};
use fis::platform::amqp::management::{Management, encode};
use fis::platform::amqp::topology::Topology;
use fis::platform::amqp::{Connection, address};
use fis::platform::config::{self, Config};
use fis::platform::postgres::Postgres;
use fis::platform::redis::Redis;

use crate::rights;

/// The books that a sandbox has from its start: those of the orders' tenant.
pub const BOOKS: &str = include_str!("../../../../books/shop.toml");

pub struct Sandbox {
    pub config: Config,
    pub postgres: Postgres,
    redis: Redis,
    admin: Postgres,
    pub management: Management,
    pub name: String,
}

const REDIS_PATIENCE_MS: u64 = 5_000;
/// Unlinks some of the keys that match, and returns where to go on.
const UNLINK: &str = "local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', 1000) \
                      if #found[2] > 0 then redis.call('UNLINK', unpack(found[2])) end return found[1]";

impl Sandbox {
    /// Needs a role that may create databases, and a broker user that may create virtual hosts: the private servers'.
    pub async fn make(config: &Config) -> anyhow::Result<Self> {
        let name = format!("fis_bench_{:08x}", fastrand::u32(..));
        let admin = Postgres::new(&config.database)?;
        let management = Management::of(&config.amqp)?;
        // The service goes on without a Redis that is slow; the bench waits for it.
        let redis = Redis::new(&config::Redis { timeout_ms: REDIS_PATIENCE_MS, ..config.redis.clone() })?;
        let user = address::parse(&config.amqp)?.into_iter().next().map(|first| first.user).unwrap_or_default();
        let mut own = config.clone();
        own.amqp.url = elsewhere(config.amqp.url.expose(), &name).as_str().into();
        own.database.url = elsewhere(config.database.url.expose(), &name).as_str().into();
        let postgres = Postgres::new(&own.database)?;
        // The name is ours: letters, digits and underscores.
        sqlx::raw_sql(&format!("create database {name}")).execute(&admin.pool).await?;
        own.database = rights::restricted(&own.database, &postgres).await?;
        let sandbox = Self { config: own, postgres, redis, admin, management, name };
        match sandbox.prepare(&user).await {
            Ok(()) => Ok(sandbox),
            Err(error) => {
                sandbox.remove().await;
                Err(error)
            }
        }
    }

    async fn prepare(&self, user: &str) -> anyhow::Result<()> {
        fis::store::schema::migrate(&self.postgres).await?;
        fis::journal::books::apply(&self.postgres.pool, BOOKS, "fis-bench").await?;
        let vhost = format!("vhosts/{}", self.name);
        self.management.put_json(&vhost, &serde_json::json!({})).await.context("cannot create a virtual host")?;
        let rights = serde_json::json!({ "configure": ".*", "write": ".*", "read": ".*" });
        self.management.put_json(&self.path("permissions", &encode(user)), &rights).await?;
        let connection = Connection::open(&self.config.amqp, "fis-bench").await?;
        connection.apply_topology(&Topology::embedded()?).await?;
        connection.close().await;
        Ok(())
    }

    /// Best effort: what is left over is named after us.
    pub async fn remove(self) {
        self.postgres.pool.close().await;
        let statement = format!("drop database if exists {} with (force)", self.name);
        let dropped = sqlx::raw_sql(&statement);
        if let Err(error) = dropped.execute(&self.admin.pool).await {
            eprintln!("cannot drop the database {}: {error}", self.name);
        }
        if let Err(error) = self.management.delete(&format!("vhosts/{}", self.name)).await {
            eprintln!("cannot delete the virtual host {}: {error}", self.name);
        }
        if let Err(error) = self.forget().await {
            eprintln!("cannot remove the keys of {} from Redis: {error}", self.name);
        }
    }

    async fn forget(&self) -> anyhow::Result<()> {
        let (mut cursor, pattern) = ("0".to_owned(), format!("fis:*{}-*", self.name));
        loop {
            cursor = self.redis_text(&["EVAL", UNLINK, "0", &cursor, &pattern]).await?.unwrap_or_default();
            if matches!(cursor.as_str(), "" | "0") {
                return Ok(());
            }
        }
    }

    /// Runs one command of Redis whose answer is text; a nil is none.
    pub async fn redis_text(&self, words: &[&str]) -> anyhow::Result<Option<String>> {
        let mut pipeline = Pipeline::with_capacity(1);
        let (name, arguments) = words.split_first().context("a command of Redis has a name")?;
        pipeline.cmd(name).arg(arguments);
        let answer = self.redis.run(&mut pipeline).await?.pop().context("Redis gave no answer")??;
        Ok(FromRedisValue::from_redis_value(answer)?)
    }

    /// Everything below `kinds/` of this virtual host.
    pub fn path(&self, kind: &str, rest: &str) -> String {
        format!("{kind}/{}/{rest}", self.name)
    }
}

/// The URL, or each of several, with another path: its database or virtual host.
fn elsewhere(urls: &str, name: &str) -> String {
    urls.split(',').map(|url| one_elsewhere(url.trim(), name)).collect::<Vec<_>>().join(",")
}

fn one_elsewhere(url: &str, name: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, ""), |(address, query)| (address, query));
    let authority = address.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    format!("{authority}/{name}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_differs_in_the_path_alone() {
        assert_eq!(elsewhere("amqp://u:p@h:1/%2Ffis?heartbeat=10", "x"), "amqp://u:p@h:1/x?heartbeat=10");
        assert_eq!(elsewhere("amqp://u:p@h:1/a, amqp://u:p@i:2/a", "x"), "amqp://u:p@h:1/x,amqp://u:p@i:2/x");
        assert_eq!(elsewhere("postgres://fis@h:1/fis", "x"), "postgres://fis@h:1/x");
    }
}
