//! The faults: what each does, how it heals, and how long posting may take to resume afterwards. `apply` leaves a wound, `heal`
//! closes it; both are harmless to what other faults did.

mod broker;
mod postgres;
mod standby;
pub mod wal;

use std::time::Duration;

use anyhow::{Result, bail};
use fastrand::Rng;
use sqlx::PgConnection;
use tokio::task::JoinHandle;

use crate::proxy::{Mode, Proxy};
use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Fis,
    Postgres,
    Redis,
    Rabbitmq,
}

impl Part {
    /// Within this, posting resumes after the fault is healed.
    pub fn bound(self) -> Duration {
        Duration::from_secs(match self {
            Part::Fis | Part::Postgres | Part::Redis => 5,
            Part::Rabbitmq => 15,
        })
    }
}

#[derive(Debug)]
pub struct Fault {
    pub name: &'static str,
    pub part: Part,
    pub what: &'static str,
    pub heals: &'static str,
    /// How long it lasts, in tenths of a second.
    lasts: (u64, u64),
    /// Never together with another one.
    pub solo: bool,
}

macro_rules! faults {
    ($($name:literal $part:ident $from:literal..$to:literal $solo:ident $what:literal, $heals:literal;)*) => {
        pub const FAULTS: &[Fault] = &[$(Fault {
            name: $name, part: Part::$part, what: $what, heals: $heals, lasts: ($from, $to), solo: faults!(@$solo),
        },)*];
    };
    (@solo) => { true };
    (@mixed) => { false };
}

faults! {
    "fis_kill" Fis 10..50 mixed "kill -9 of one instance", "started again";
    "fis_kill_all" Fis 5..30 mixed "kill -9 of all instances", "started again";
    "fis_pause" Fis 20..140 mixed "SIGSTOP of one instance", "SIGCONT";
    "fis_restart" Fis 1..10 mixed "SIGTERM of one instance", "started again";
    "fis_crash_point" Fis 20..60 mixed "one instance aborts at a crash point of the pipeline, the inbox, the relay or parking, as often as it is started", "started without it";
    "fis_clock" Fis 30..80 mixed "the clock of one instance is an hour or some seconds off", "started with the right one";
    "postgres_kill" Postgres 5..40 mixed "immediate shutdown, without a checkpoint", "started again, recovers";
    "postgres_pause" Postgres 20..80 mixed "SIGSTOP of all its processes", "SIGCONT";
    "postgres_restart" Postgres 1..10 mixed "fast shutdown", "started again";
    "postgres_terminate" Postgres 10..40 mixed "pg_terminate_backend on every session, ten times a second", "left alone";
    "postgres_connections" Postgres 20..60 mixed "every connection taken by somebody else, those of fis ended", "given back";
    "postgres_lock" Postgres 20..150 mixed "a foreign session locks every chain head", "rolled back";
    "postgres_read_only" Postgres 10..50 mixed "every new transaction is read-only", "writable again";
    "postgres_disk_full" Postgres 10..50 mixed "the database's disk is full", "space again";
    "postgres_wal_full" Postgres 20..60 mixed "the disk of the write-ahead log is full: it panics, and again whenever it comes back", "space again, started again, recovers";
    "postgres_failover_sync" Postgres 1..10 solo "a synchronous standby is promoted after the primary was killed", "it takes the primary's address";
    "postgres_failover_async" Postgres 1..10 solo "a standby that has not received the last commits is promoted", "it takes the primary's address; publishers send again";
    "postgres_restore" Postgres 20..50 solo "an older backup is put back while Redis remembers", "started; publishers send again";
    "redis_kill" Redis 10..50 mixed "SIGKILL; the keys are gone", "started again, empty";
    "redis_pause" Redis 20..80 mixed "SIGSTOP", "SIGCONT";
    "redis_restart" Redis 1..10 mixed "stopped", "started again, empty";
    "redis_flush" Redis 1..5 mixed "FLUSHALL", "nothing";
    "redis_full" Redis 20..60 mixed "maxmemory reached, nothing may be evicted", "room again";
    "redis_read_only" Redis 20..60 mixed "made a read-only replica of nobody", "made a primary again";
    "redis_slow" Redis 30..80 mixed "answers come 2 s late", "in time again";
    "rabbitmq_kill" Rabbitmq 10..30 mixed "SIGKILL", "started again";
    "rabbitmq_pause" Rabbitmq 20..80 mixed "SIGSTOP", "SIGCONT";
    "rabbitmq_restart" Rabbitmq 1..10 mixed "stopped", "started again";
    "rabbitmq_memory_alarm" Rabbitmq 30..80 mixed "the memory alarm blocks all publishers", "taken back";
    "rabbitmq_disk_alarm" Rabbitmq 30..80 mixed "the disk alarm blocks all publishers", "taken back";
    "rabbitmq_close" Rabbitmq 1..5 mixed "the broker closes every connection", "nothing";
    "rabbitmq_queue_deleted" Rabbitmq 10..40 solo "the live lane's queue is deleted once it is empty: its consumers are cancelled", "`fis topology apply`";
    "rabbitmq_feed_deleted" Rabbitmq 10..40 mixed "the feed's exchange is deleted", "`fis topology apply`, readers bind again";
    "rabbitmq_feed_unbound" Rabbitmq 10..40 mixed "no queue is bound to the feed: announcements come back", "bound again";
    "rabbitmq_consumer_timeout" Rabbitmq 90..130 mixed "acknowledgements wait for a lock longer than the consumer timeout of 3 s", "lock and timeout taken back";
    "net_postgres_reset" Postgres 1..20 mixed "connections to PostgreSQL are reset, every half second", "left alone";
    "net_postgres_hole" Postgres 20..80 mixed "nothing passes to PostgreSQL, nobody is told", "what waits passes";
    "net_postgres_half_open" Postgres 1..20 mixed "PostgreSQL's end of each connection is gone, fis is not told", "new connections pass, the old stay silent";
    "net_postgres_stutter" Postgres 20..60 mixed "packets to PostgreSQL get lost and are sent again", "a sound wire";
    "net_redis_reset" Redis 1..20 mixed "connections to Redis are reset, every half second", "left alone";
    "net_redis_hole" Redis 20..80 mixed "nothing passes to Redis, nobody is told", "what waits passes";
    "net_redis_half_open" Redis 1..20 mixed "Redis's end of each connection is gone, fis is not told", "new connections pass, the old stay silent";
    "net_rabbitmq_reset" Rabbitmq 1..20 mixed "connections to the broker are reset, every half second", "left alone";
    "net_rabbitmq_hole" Rabbitmq 20..80 mixed "nothing passes to the broker, nobody is told", "what waits passes";
    "net_rabbitmq_deaf" Rabbitmq 20..60 mixed "what fis says arrives, the broker's answers do not", "what waits passes";
    "net_rabbitmq_half_open" Rabbitmq 1..20 mixed "the broker's end of each connection is gone, fis is not told", "new connections pass, the old stay silent";
    "net_rabbitmq_refuse" Rabbitmq 10..40 mixed "connections to the broker are reset, new ones refused", "accepted again";
    "net_rabbitmq_stutter" Rabbitmq 20..60 mixed "packets to the broker get lost and are sent again", "a sound wire";
}

pub fn named(name: &str) -> Option<&'static Fault> {
    FAULTS.iter().find(|fault| fault.name == name)
}

/// What this machine has no means for.
pub fn impossible() -> Vec<&'static str> {
    let clock = (!std::path::Path::new(LIBFAKETIME).exists()).then_some("fis_clock");
    let disks: &[&str] = if crate::world::can_mount() { &[] } else { &["postgres_disk_full", "postgres_wal_full"] };
    clock.into_iter().chain(disks.iter().copied()).collect()
}

impl Fault {
    pub fn lasts(&self, rng: &mut Rng) -> Duration {
        Duration::from_millis(rng.u64(self.lasts.0..=self.lasts.1) * 100)
    }
}

/// What must be undone.
#[derive(Default)]
pub struct Wound {
    instance: usize,
    sessions: Vec<PgConnection>,
    task: Option<JoinHandle<()>>,
    standby: Option<standby::Standby>,
}

impl Drop for Wound {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

const LIBFAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
const CRASH_POINTS: [&str; 10] = [
    "after_claim",
    "before_commit",
    "after_commit",
    "after_mark",
    "after_settle",
    "after_publish",
    "after_park",
    "inbox_read",
    "before_inbox_commit",
    "after_inbox_commit",
];

pub async fn apply(world: &World, fault: &Fault, choice: u64) -> Result<Wound> {
    let mut rng = Rng::with_seed(choice);
    let mut wound = Wound::default();
    wound.instance = rng.usize(world.instances.all());
    let servers = &world.servers;
    if fault.part == Part::Redis {
        world.scars.lock().unwrap().redis = true;
    }
    match fault.name {
        "fis_kill" => world.instances.kill(wound.instance),
        "fis_kill_all" => world.instances.all().for_each(|number| world.instances.kill(number)),
        "fis_pause" => drop(world.instances.signal(wound.instance, "STOP")),
        "fis_restart" => drop(world.instances.terminate(wound.instance).await?),
        "fis_crash_point" => {
            world.instances.kill(wound.instance);
            let point = rng.choice(CRASH_POINTS).unwrap_or_default().to_owned();
            world.instances.start_with(wound.instance, vec![("FIS_FAILPOINT", point)]);
        }
        "fis_clock" => {
            world.instances.kill(wound.instance);
            let off = rng.choice(["-3600", "-20", "+20"]).unwrap_or_default().to_owned();
            // The wall clock alone: no machine's monotonic clock jumps.
            let monotonic = ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned());
            let extra = vec![("LD_PRELOAD", LIBFAKETIME.to_owned()), ("FAKETIME", off), monotonic];
            world.instances.start_with(wound.instance, extra);
        }
        "postgres_kill" => servers.act("postgres", "crash").await?,
        "rabbitmq_kill" => servers.act("rabbitmq", "crash").await?,
        "redis_kill" => servers.act("redis", "crash").await?,
        "postgres_pause" | "redis_pause" | "rabbitmq_pause" => servers.act(server(fault), "pause").await?,
        "postgres_restart" | "redis_restart" | "rabbitmq_restart" => servers.act(server(fault), "stop").await?,
        name if name.starts_with("postgres_") => postgres::apply(world, name, &mut wound).await?,
        "redis_flush" => servers.redis_command(&["FLUSHALL"]).await?,
        "redis_full" => {
            servers.redis_command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await?;
            servers.redis_command(&["CONFIG", "SET", "maxmemory", "1"]).await?;
        }
        // Nobody listens on port 1.
        "redis_read_only" => servers.redis_command(&["REPLICAOF", "127.0.0.1", "1"]).await?,
        "redis_slow" => world.redis.set(Mode::Delay(2000)),
        name if name.starts_with("rabbitmq_") => broker::apply(world, name, &mut wound).await?,
        name if name.starts_with("net_") => network(world.proxy(fault.part), name, &mut wound),
        other => bail!("nobody knows how to do {other}"),
    }
    Ok(wound)
}

pub async fn heal(world: &World, fault: &Fault, mut wound: Wound) -> Result<()> {
    let servers = &world.servers;
    if let Some(task) = wound.task.take() {
        task.abort();
        let _ = task.await;
    }
    match fault.name {
        "fis_kill" | "fis_restart" => world.instances.start(wound.instance),
        "fis_kill_all" => world.instances.all().for_each(|number| world.instances.start(number)),
        "fis_pause" => drop(world.instances.signal(wound.instance, "CONT")),
        "fis_crash_point" | "fis_clock" => {
            world.instances.kill(wound.instance);
            world.instances.start(wound.instance);
        }
        "postgres_pause" | "redis_pause" | "rabbitmq_pause" => servers.act(server(fault), "resume").await?,
        "postgres_kill" | "postgres_restart" | "redis_kill" | "redis_restart" | "rabbitmq_kill"
        | "rabbitmq_restart" => {
            servers.act(server(fault), "start").await?;
        }
        name if name.starts_with("postgres_") => postgres::heal(world, name, &mut wound).await?,
        "redis_flush" => {}
        "redis_full" => {
            servers.redis_command(&["CONFIG", "SET", "maxmemory", "1gb"]).await?;
            servers.redis_command(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]).await?;
        }
        "redis_read_only" => servers.redis_command(&["REPLICAOF", "NO", "ONE"]).await?,
        "redis_slow" => world.redis.set(Mode::Pass),
        name if name.starts_with("rabbitmq_") => broker::heal(world, name, &mut wound).await?,
        _ => world.proxy(fault.part).set(Mode::Pass),
    }
    Ok(())
}

fn server(fault: &Fault) -> &'static str {
    match fault.part {
        Part::Postgres => "postgres",
        Part::Redis => "redis",
        Part::Rabbitmq | Part::Fis => "rabbitmq",
    }
}

fn network(proxy: &std::sync::Arc<Proxy>, name: &str, wound: &mut Wound) {
    match name.rsplit("_").next() {
        Some("hole") => proxy.set(Mode::Hole),
        Some("deaf") => proxy.set(Mode::Deaf),
        Some("stutter") => proxy.set(Mode::Stutter),
        Some("open") => proxy.half_open(),
        Some("refuse") => {
            proxy.set(Mode::Refuse);
            proxy.reset();
        }
        _ => {
            let proxy = std::sync::Arc::clone(proxy);
            wound.task = Some(tokio::spawn(async move {
                loop {
                    proxy.reset();
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }));
        }
    }
}
