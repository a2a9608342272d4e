//! The resources that the work costs besides time: processor time by process, memory, and bytes in the stores. Only for processes of this
//! machine; of others nothing is said.

use std::collections::BTreeMap;

use sqlx::PgPool;

use super::results::as_u64;
use super::sandbox::Sandbox;

/// Linux tells processor time in hundredths of a second, whatever the kernel's own tick is.
const TICK_MICROSECONDS: u64 = 10_000;

/// Processor time in microseconds, and bytes.
#[derive(Debug, Clone, Default)]
pub struct Spent {
    pub fis: Option<u64>,
    pub postgres: Option<u64>,
    pub redis: Option<u64>,
    pub rabbitmq: Option<u64>,
    /// The bytes that the stores have grown by.
    pub bytes: BTreeMap<&'static str, u64>,
}

impl Spent {
    /// The servers' time so far.
    pub async fn of_servers(sandbox: &Sandbox) -> Self {
        let postgres: Option<i32> =
            sqlx::query_scalar("select pg_backend_pid()").fetch_one(&sandbox.postgres.pool).await.ok();
        let backend = postgres.and_then(|id| u32::try_from(id).ok()).filter(|id| is(*id, "postgres"));
        let postmaster = backend.and_then(stat).map(|stat| stat.parent);
        let redis = redis_info(sandbox, "process_id").await.and_then(|id| id.parse().ok());
        let nodes = sandbox.management.get_json::<serde_json::Value>("nodes").await.ok();
        let broker = nodes.as_ref().and_then(|nodes| nodes.get(0)?.get("os_pid")?.as_str()?.parse().ok());
        let of = |id: Option<u32>, name| id.filter(|id| is(*id, name)).and_then(cpu);
        Self {
            fis: None,
            postgres: of(postmaster, "postgres"),
            redis: of(redis, "redis-server"),
            rabbitmq: of(broker, "beam.smp"),
            bytes: BTreeMap::new(),
        }
    }

    pub fn since(&self, before: &Self) -> Self {
        let minus = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            fis: minus(self.fis, before.fis),
            postgres: minus(self.postgres, before.postgres),
            redis: minus(self.redis, before.redis),
            rabbitmq: minus(self.rabbitmq, before.rabbitmq),
            bytes: BTreeMap::new(),
        }
    }

    pub fn per_event(mut self, events: usize) -> Self {
        for time in [&mut self.fis, &mut self.postgres, &mut self.redis, &mut self.rabbitmq] {
            *time = time.map(|time| time / as_u64(events).max(1));
        }
        self
    }
}

/// The sizes of the stores, in bytes.
pub struct Footprint(BTreeMap<&'static str, u64>);

impl Footprint {
    pub async fn of(sandbox: &Sandbox) -> anyhow::Result<Self> {
        let pool = &sandbox.postgres.pool;
        let mut bytes = BTreeMap::new();
        for (key, pattern) in [
            ("bytes_entries", "fis\\_journal\\_entry%"),
            ("bytes_lines", "fis\\_journal\\_line%"),
            ("bytes_outbox", "fis\\_outbox%"),
            ("bytes_postgres", "fis\\_%"),
        ] {
            bytes.insert(key, relation_bytes(pool, pattern).await?);
        }
        let wal: i64 = sqlx::query_scalar("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")
            .fetch_one(pool)
            .await?;
        bytes.insert("bytes_wal", u64::try_from(wal)?);
        if let Some(used) = redis_info(sandbox, "used_memory").await.and_then(|used| used.parse().ok()) {
            bytes.insert("bytes_redis", used);
        }
        Ok(Self(bytes))
    }

    pub fn since(&self, before: &Self, events: usize) -> BTreeMap<&'static str, u64> {
        let of = |(key, now): (&&'static str, &u64)| {
            let then = before.0.get(key).copied().unwrap_or(0);
            (*key, now.saturating_sub(then) / as_u64(events).max(1))
        };
        self.0.iter().map(of).collect()
    }
}

/// Tables with that name, their indexes included.
pub async fn relation_bytes(pool: &PgPool, pattern: &str) -> anyhow::Result<u64> {
    let bytes: i64 = sqlx::query_scalar(
        "select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
          where relkind in ('r', 'p') and relname like $1",
    )
    .bind(pattern)
    .fetch_one(pool)
    .await?;
    Ok(u64::try_from(bytes)?)
}

/// Rows inserted, updated and deleted in this database since its beginning, but for the heartbeat of the service, which counts no event.
pub async fn rows_written(pool: &PgPool) -> anyhow::Result<u64> {
    let rows: i64 = sqlx::query_scalar(
        "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint
           from pg_stat_user_tables
          where relname <> 'fis_instance'",
    )
    .fetch_one(pool)
    .await?;
    Ok(u64::try_from(rows)?)
}

/// A figure of Redis's `INFO`.
pub async fn redis_info(sandbox: &Sandbox, name: &str) -> Option<String> {
    let text = sandbox.redis_text(&["INFO"]).await.ok()??;
    let prefix = format!("{name}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).map(|value| value.trim().to_owned())
}

struct Stat {
    parent: u32,
    /// Its own ticks, and those of its children that have ended.
    ticks: u64,
}

/// `/proc/<id>/stat`; the name in parentheses may hold anything, so the fields begin behind the last one.
fn stat(id: u32) -> Option<Stat> {
    read_stat(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

fn read_stat(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    // Fields 4 and 14–17 of the manual page.
    Some(Stat { parent: u32::try_from(number(1)?).ok()?, ticks: (11..=14).map(number).sum::<Option<u64>>()? })
}

fn is(id: u32, name: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.trim() == name)
}

/// Microseconds of a process and everything below it, the ended ones included: their time passed on to their parent.
pub fn cpu(root: u32) -> Option<u64> {
    let ids = std::fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let stats: BTreeMap<u32, Stat> = ids.filter_map(|id| Some((id, stat(id)?))).collect();
    let mut ticks = stats.get(&root)?.ticks;
    let mut generation = vec![root];
    while !generation.is_empty() {
        let children = stats.iter().filter(|(_, stat)| generation.contains(&stat.parent));
        let (ids, times): (Vec<u32>, Vec<u64>) = children.map(|(id, stat)| (*id, stat.ticks)).unzip();
        ticks += times.iter().sum::<u64>();
        generation = ids;
    }
    Some(ticks * TICK_MICROSECONDS)
}

/// The most memory a process has held at once.
pub fn peak_kib(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_move_the_fields() {
        let text = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5";
        let stat = read_stat(text).unwrap();
        assert_eq!((stat.parent, stat.ticks), (7, 100));
        assert!(read_stat("").is_none());
    }

    #[test]
    fn this_process_is_alive_and_has_memory() {
        assert!(cpu(std::process::id()).is_some());
        assert!(peak_kib(std::process::id()).unwrap() > 0);
    }
}
