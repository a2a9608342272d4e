//! The product from outside: the built `fis` beside this program, `fis run` as a child on a free port, with its log in a file.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use fis::platform::config::Config;
use fis::platform::http;
use tokio::process::{Child, Command};

const READY: Duration = Duration::from_secs(30);
const STOPPED: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);

/// The built `fis` that stands in the folder of this program: the same build, made by the same command.
pub fn product() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("fis");
    anyhow::ensure!(path.is_file(), "there is no {}: build both, `cargo build -p fis -p fis-bench`", path.display());
    Ok(path)
}

pub struct Service {
    child: Child,
    id: u32,
    pub address: String,
    pub log: PathBuf,
}

impl Service {
    /// Starts a service on the servers of a configuration, with a log of its own; it outlives this program where it is to be kept.
    pub async fn start(config: &Config, log: &str, keep: bool) -> anyhow::Result<Self> {
        let mut command = Command::new(product()?);
        command
            .env("FIS_AMQP_URL", config.amqp.url.expose())
            .env("FIS__AMQP__MANAGEMENT_URL", &config.amqp.management_url)
            .env("FIS_DATABASE_URL", config.database.url.expose())
            .env("FIS_REDIS_URL", config.redis.url.expose())
            .env("FIS__INTAKE__TENANT_QUEUES", &config.intake.tenant_queues);
        Self::spawn(command, log, keep).await
    }

    async fn spawn(mut command: Command, log: &str, keep: bool) -> anyhow::Result<Self> {
        let address = free_address()?;
        let folder = std::env::var_os("FIS_DEV_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let log = folder.join(log);
        let file = std::fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .arg("run")
            .env("FIS_HTTP_ADDR", &address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            // Ctrl-C on the demo's terminal is for the demo.
            .process_group(0)
            .kill_on_drop(!keep)
            .spawn()
            .context("cannot start `fis run`")?;
        let mut service = Self { id: child.id().unwrap_or_default(), child, address, log };
        tokio::time::timeout(READY, service.ready()).await.map_err(|_| service.trouble("is not ready"))??;
        Ok(service)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        while !matches!(http::get(&self.address, "/readyz").await, Ok((200, _))) {
            if self.child.try_wait()?.is_some() {
                return Err(self.trouble("ended"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    fn trouble(&self, what: &str) -> anyhow::Error {
        anyhow::anyhow!("`fis run` {what}; its log is {}", self.log.display())
    }

    /// A counter of the running service, summed over the labels that are not named.
    pub async fn counter(&self, name: &str, label: &str) -> anyhow::Result<u64> {
        let (_, text) = http::get(&self.address, "/metrics").await.map_err(anyhow::Error::msg)?;
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let signalled = Command::new("kill").args(["-TERM", &self.id().to_string()]).status().await?;
        anyhow::ensure!(signalled.success(), "cannot tell the service to stop");
        let ended =
            tokio::time::timeout(STOPPED, self.child.wait()).await.map_err(|_| self.trouble("does not stop"))??;
        anyhow::ensure!(ended.success(), self.trouble("did not stop cleanly"));
        Ok(())
    }
}

fn free_address() -> anyhow::Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}
