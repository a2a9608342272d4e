//! One schedule's world: a database, a virtual host and keys of its own on the storm's servers, two instances of fis behind
//! proxies, a publisher and a reader.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use sqlx::PgConnection;
use tokio::task::JoinHandle;

use crate::books::{TENANTS, books};
use crate::faults::{Part, wal};
use crate::forger::Forger;
use crate::instances::Instances;
use crate::model::Script;
use crate::operator::Operator;
use crate::proxy::Proxy;
use crate::publisher::Publisher;
use crate::reader::Reader;
use crate::servers::Servers;

const NAME: &str = "storm";
/// A disk that can be filled: room for a storm's tables.
const SMALL_DISK_MB: u64 = 192;
const BALLAST: &str = "ballast";

/// What a fault did on purpose that a check must know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scars {
    /// Keys may be missing, or left at PROCESSING.
    pub redis: bool,
    /// PostgreSQL has lost commits; the feed has told of entries that are no more.
    pub forgot: bool,
}

pub struct World {
    pub servers: Servers,
    pub dir: PathBuf,
    pub database: String,
    pub vhost: String,
    pub script: Arc<Script>,
    pub postgres: Arc<Proxy>,
    pub redis: Arc<Proxy>,
    pub rabbitmq: Arc<Proxy>,
    pub instances: Arc<Instances>,
    pub publisher: Arc<Publisher>,
    pub reader: Arc<Reader>,
    pub operator: Arc<Operator>,
    pub forger: Arc<Forger>,
    pub scars: Mutex<Scars>,
    pub small_disk: Option<PathBuf>,
    pub begun: Instant,
    watch: tokio::sync::Mutex<Option<PgConnection>>,
    tasks: Vec<JoinHandle<()>>,
}

impl World {
    pub async fn make(
        servers: &Servers,
        dir: PathBuf,
        seed: u64,
        script: Script,
        rate: usize,
        small: bool,
        mutant: Option<&str>,
    ) -> Result<Self> {
        std::fs::create_dir_all(&dir)?;
        let script = Arc::new(script);
        let small_disk = small.then(|| small_disk(servers)).transpose()?;
        wal::put_back(servers).await?;
        empty_servers(servers, small_disk.as_deref()).await?;
        let [postgres, redis, rabbitmq] = [
            Arc::new(Proxy::open(servers.postgres_port).await?),
            Arc::new(Proxy::open(servers.redis_port).await?),
            Arc::new(Proxy::open(servers.amqp_port).await?),
        ];
        let mut environment = settings(seed);
        let mut set = |name: &str, value: String| environment.push((name.to_owned(), value));
        // The role that fis runs as cannot drop what that bug drops.
        let role = if mutant == Some("unique_dropped") { "fis" } else { "fis_service" };
        set("FIS_DATABASE_URL", servers.postgres_url(role, postgres.port, NAME));
        set("FIS_REDIS_URL", format!("redis://127.0.0.1:{}/1", redis.port));
        set("FIS_AMQP_URL", servers.amqp_url(rabbitmq.port, NAME));
        set("FIS__AMQP__MANAGEMENT_URL", format!("http://127.0.0.1:{}", servers.management_port));
        if let Some(mutant) = mutant {
            set("FIS_MUTANT", mutant.to_owned());
        }
        let instances = Instances::new(dir.clone(), instances(seed), environment);
        let owner = servers.postgres_url("fis_owner", servers.postgres_port, NAME);
        instances.fis_with(&["migrate"], &[("FIS_DATABASE_URL", &owner)]).await?;
        instances.fis(&["topology", "apply"]).await?;
        let publisher = Publisher::new(servers, NAME, Arc::clone(&script), rate);
        let world = Self {
            database: NAME.to_owned(),
            vhost: NAME.to_owned(),
            forger: Forger::new(servers, Arc::clone(&script), Arc::clone(&publisher)),
            operator: Operator::new(servers, NAME, Arc::clone(&instances), &script),
            publisher,
            reader: Reader::new(servers, NAME),
            servers: servers.clone(),
            dir,
            script,
            postgres,
            redis,
            rabbitmq,
            instances,
            scars: Mutex::default(),
            small_disk,
            begun: Instant::now(),
            watch: tokio::sync::Mutex::default(),
            tasks: Vec::new(),
        };
        world.apply_books(1).await?;
        world.reader.bind().await?;
        Ok(world)
    }

    pub fn begin(&mut self) {
        self.begun = Instant::now();
        self.instances.all().for_each(|number| self.instances.start(number));
        self.tasks.push(tokio::spawn(Arc::clone(&self.instances).supervise()));
        self.tasks.push(tokio::spawn(Arc::clone(&self.publisher).run()));
        self.tasks.push(tokio::spawn(Arc::clone(&self.reader).run()));
    }

    pub async fn apply_books(&self, version: u8) -> Result<()> {
        for tenant in &TENANTS {
            let file = self.dir.join(format!("{}-{version}.toml", tenant.name));
            std::fs::write(&file, books(tenant, version))?;
            self.instances.fis(&["books", "apply", &file.display().to_string(), "--yes"]).await?;
        }
        Ok(())
    }

    pub fn proxy(&self, part: Part) -> &Arc<Proxy> {
        match part {
            Part::Postgres | Part::Fis => &self.postgres,
            Part::Redis => &self.redis,
            Part::Rabbitmq => &self.rabbitmq,
        }
    }

    /// How many entries there are. Errs while PostgreSQL does not answer.
    pub async fn posted(&self) -> Result<i64> {
        let mut watch = self.watch.lock().await;
        let asking = async {
            let mut session = match watch.take() {
                Some(session) => session,
                None => self.servers.sql(&self.database).await?,
            };
            let sql = "select coalesce(sum(seq), 0)::bigint from fis_chain_head";
            let sum = sqlx::query_scalar(sql).fetch_one(&mut session).await?;
            *watch = Some(session);
            anyhow::Ok(sum)
        };
        tokio::time::timeout(Duration::from_secs(1), asking).await?
    }

    /// Messages that wait in each of some queues, as the queues themselves say.
    pub async fn ready<const N: usize>(&self, queues: [&'static str; N]) -> Result<[(&'static str, u32); N]> {
        let asking = async {
            let connection = self.servers.amqp(&self.vhost).await?;
            let channel = connection.create_channel().await?;
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            let mut counts = queues.map(|queue| (queue, 0));
            for (queue, count) in &mut counts {
                let declared = channel.queue_declare((*queue).into(), passive, FieldTable::default()).await?;
                *count = declared.message_count();
            }
            let _ = connection.close(200, "seen".into()).await;
            anyhow::Ok(counts)
        };
        tokio::time::timeout(Duration::from_secs(10), asking).await?
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.instances.all().for_each(|number| self.instances.kill(number));
    }
}

/// Production's defaults where they matter for recovery; the sizes that change how events meet are drawn from the seed.
fn settings(seed: u64) -> Vec<(String, String)> {
    let mut rng = Rng::with_seed(seed ^ 0x5e77_1265);
    let mut pick = |choices: &[&str]| choices[rng.usize(..choices.len())].to_owned();
    [
        ("FIS__INTAKE__POSTERS", pick(&["1", "2", "4"])),
        ("FIS__INTAKE__HOLD_SECONDS", pick(&["180", "180", "4"])),
        ("FIS__INTAKE__BATCH_EVENTS_MAX", pick(&["500", "50", "10"])),
        ("FIS__OUTBOX__WINDOW", pick(&["1000", "20"])),
        // A held event comes back while the storm lasts.
        ("FIS__RETRY__BASE_DELAY_SECONDS", "2".to_owned()),
        ("FIS__RETRY__MAX_DELAY_SECONDS", "4".to_owned()),
        ("FIS__RETRY__JITTER_SECONDS", "1".to_owned()),
        ("FIS__RETRY__MAX_RETRIES", "1000".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// Mostly two that share the work. One alone is the one whose batches are decided ahead and kept: nobody else moves the chains.
fn instances(seed: u64) -> usize {
    if Rng::with_seed(seed ^ 0x0135_7a9c).u8(..3) == 0 { 1 } else { 2 }
}

async fn empty_servers(servers: &Servers, small_disk: Option<&Path>) -> Result<()> {
    let _ = servers.management("DELETE", &format!("vhosts/{NAME}"), "").await;
    servers.management("PUT", &format!("vhosts/{NAME}"), "{}").await?;
    let rights = r#"{"configure": ".*", "write": ".*", "read": ".*"}"#;
    servers.management("PUT", &format!("permissions/{NAME}/fis_service"), rights).await?;
    servers.redis_command(&["FLUSHALL"]).await?;
    servers.execute("postgres", &format!("drop database if exists {NAME} with (force)")).await?;
    servers.execute("postgres", "drop tablespace if exists small").await?;
    let mut create = format!("create database {NAME}");
    if let Some(disk) = small_disk {
        let location = disk.join("tables");
        servers.execute("postgres", &format!("create tablespace small location '{}'", location.display())).await?;
        create.push_str(" tablespace small");
    }
    servers.execute("postgres", &create).await?;
    servers.execute(NAME, include_str!("../../ops/roles.sql")).await
}

pub fn disk_of(servers_dir: &Path) -> PathBuf {
    servers_dir.with_extension("disk")
}

/// Room for the tables of a storm, and no more.
fn small_disk(servers: &Servers) -> Result<PathBuf> {
    let disk = disk_of(&servers.dir);
    mount(&disk, SMALL_DISK_MB, "tables")?;
    Ok(disk)
}

/// A file system of its own with a directory for PostgreSQL, where there is none yet; needs root.
pub fn mount(disk: &Path, megabytes: u64, name: &str) -> Result<()> {
    let script = "mkdir -p \"$0\" && { mountpoint -q \"$0\" || mount -t tmpfs -o size=$1m storm \"$0\"; } &&
                  mkdir -p \"$0/$2\" && chown postgres: \"$0/$2\" && chmod 700 \"$0/$2\" && chmod 755 \"$0\"";
    let made = Command::new("sh").arg("-c").arg(script).arg(disk).args([&megabytes.to_string(), name]).output()?;
    ensure!(made.status.success(), "a small disk: {}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

/// Takes everything that is free on a disk, and nothing else: what is there stays.
pub async fn fill(disk: &Path) -> Result<()> {
    let filled = tokio::process::Command::new("dd")
        .args(["if=/dev/zero", "bs=64k", &format!("of={}", disk.join(BALLAST).display())])
        .stderr(std::process::Stdio::null())
        .status();
    filled.await?;
    Ok(())
}

pub fn make_room(disk: &Path) -> Result<()> {
    Ok(std::fs::remove_file(disk.join(BALLAST))?)
}

pub fn can_mount() -> bool {
    Command::new("sh")
        .arg("-c")
        .arg("d=$(mktemp -d) && mount -t tmpfs -o size=1m storm $d && umount $d && rmdir $d")
        .output()
        .is_ok_and(|output| output.status.success())
}

pub fn unmount(disk: &Path) -> Result<()> {
    if disk.exists() {
        Command::new("umount").arg(disk).output().context("umount")?;
        std::fs::remove_dir(disk)?;
    }
    Ok(())
}
