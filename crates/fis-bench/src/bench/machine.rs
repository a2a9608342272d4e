//! The machine and the servers that the figures were measured on, without a word that would tell whose machine it is.

use serde::Serialize;

use super::resources::redis_info;
use super::sandbox::Sandbox;
use crate::service::product;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The time of the measurement, to the second, in UTC.
    pub measured_at: String,
    pub version: String,
    /// The commit of the working directory, where it is a checkout.
    pub commit: Option<String>,
    pub build: &'static str,
    pub processor: String,
    pub cores: usize,
    pub memory_mib: u64,
    pub kernel: String,
    pub postgres: String,
    pub postgres_settings: String,
    pub redis: String,
    pub rabbitmq: String,
}

impl Machine {
    pub async fn describe(sandbox: &Sandbox) -> anyhow::Result<Self> {
        let pool = &sandbox.postgres.pool;
        let postgres = sqlx::query_scalar("select split_part(current_setting('server_version'), ' ', 1)");
        let settings = sqlx::query_scalar(
            "select string_agg(name || ' ' || current_setting(name), ', ' order by name) from pg_settings
              where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'wal_sync_method', 'shared_buffers', 'max_wal_size')",
        );
        let aof = redis_info(sandbox, "aof_enabled").await.is_some_and(|enabled| enabled == "1");
        let redis = redis_info(sandbox, "redis_version").await.unwrap_or_else(|| "unknown".to_owned());
        let overview: serde_json::Value = sandbox.management.get_json("overview").await?;
        let of = |name: &str| overview.get(name).and_then(|version| version.as_str()).unwrap_or("unknown").to_owned();
        let memory = proc("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Ok(Self {
            measured_at: fis::platform::time::now().format("%Y-%m-%dT%H:%M:%SZ").to_string(),
            version: version().await?,
            commit: commit().await,
            build: build()?,
            processor: proc("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory.unwrap_or(0) / 1024,
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            postgres: postgres.fetch_one(pool).await?,
            postgres_settings: settings.fetch_one(pool).await?,
            redis: format!("{redis}, append-only file {}", if aof { "on" } else { "off" }),
            rabbitmq: format!("{}, Erlang {}", of("rabbitmq_version"), of("erlang_version")),
        })
    }

    pub fn lines(&self) -> Vec<String> {
        let commit = self.commit.as_ref().map_or_else(String::new, |commit| format!(" ({commit})"));
        vec![
            format!("fis {}{commit}, {} build, {}", self.version, self.build, self.measured_at),
            format!("{}, {} cores, {} MiB, Linux {}", self.processor, self.cores, self.memory_mib, self.kernel),
            format!("PostgreSQL {} ({})", self.postgres, self.postgres_settings),
            format!("RabbitMQ {}; Redis {}", self.rabbitmq, self.redis),
        ]
    }
}

/// The value of a name in a file of `/proc`.
fn proc(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let of_name = |line: &str| {
        line.split_once(':').filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    text.lines().find_map(of_name)
}

/// The version that the measured program says it has.
async fn version() -> anyhow::Result<String> {
    let asked = tokio::process::Command::new(product()?).arg("--version").output().await?;
    let text = String::from_utf8(asked.stdout)?;
    Ok(text.trim().trim_start_matches("fis ").to_owned())
}

/// The profile of the build. The demo's is a kind of release, and only its folder tells it.
fn build() -> anyhow::Result<&'static str> {
    let product = product()?;
    let folder = product.parent().and_then(|folder| folder.file_name());
    Ok(match cfg!(debug_assertions) {
        true => "debug",
        false if folder.is_some_and(|name| name == "demo") => "demo",
        false => "release",
    })
}

async fn commit() -> Option<String> {
    let asked = tokio::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output().await.ok()?;
    let text = String::from_utf8(asked.stdout).ok()?.trim().to_owned();
    (asked.status.success() && !text.is_empty()).then_some(text)
}
