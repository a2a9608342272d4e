//! The servers of the storm: a set of its own, started and harmed through `./dev`, and ways to speak to each of them directly.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use deadpool_redis::redis;
use lapin::ConnectionProperties;
use sqlx::{Connection, PgConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

const DEV: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dev");
/// Longer than any server takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// For one question to a server that is supposed to be well.
const ANSWER: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct Servers {
    /// The state directory of `./dev`.
    pub dir: PathBuf,
    pub postgres_port: u16,
    pub redis_port: u16,
    pub amqp_port: u16,
    pub management_port: u16,
}

impl Servers {
    /// Starts all three where they do not run.
    pub async fn start(dir: &Path) -> Result<Self> {
        patiently(dir, &["up"]).await?;
        let text = dev(dir, &["env"]).await?;
        let port = |name: &str| -> Result<u16> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            let url = line.with_context(|| format!("`./dev env` does not name {name}:\n{text}"))?;
            let address =
                url.rsplit('@').next().unwrap_or(url).trim_start_matches("redis://").trim_start_matches("http://");
            let digits: String =
                address.split(':').nth(1).unwrap_or("").chars().take_while(char::is_ascii_digit).collect();
            digits.parse().with_context(|| format!("no port in {url}"))
        };
        Ok(Self {
            dir: dir.to_owned(),
            postgres_port: port("FIS_DATABASE_URL")?,
            redis_port: port("FIS_REDIS_URL")?,
            amqp_port: port("FIS_AMQP_URL")?,
            management_port: port("FIS__AMQP__MANAGEMENT_URL")?,
        })
    }

    pub async fn act(&self, server: &str, action: &str) -> Result<()> {
        patiently(&self.dir, &["server", server, action]).await
    }

    pub async fn rabbitmqctl(&self, args: &[&str]) -> Result<String> {
        let args: Vec<&str> = std::iter::once("rabbitmqctl").chain(args.iter().copied()).collect();
        dev(&self.dir, &args).await
    }

    /// Where PostgreSQL keeps its files.
    pub fn postgres_data(&self) -> Result<PathBuf> {
        Ok(std::fs::canonicalize(self.dir.join("postgres"))?)
    }

    /// Role `fis` is the superuser; ops/roles.sql makes the others.
    pub fn postgres_url(&self, role: &str, port: u16, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{port}/{database}")
    }

    pub fn amqp_url(&self, port: u16, vhost: &str) -> String {
        format!("amqp://fis_service:secret@127.0.0.1:{port}/{vhost}")
    }

    /// A session of our own, past the proxy.
    pub async fn sql(&self, database: &str) -> Result<PgConnection> {
        let url = self.postgres_url("fis", self.postgres_port, database);
        tokio::time::timeout(ANSWER, PgConnection::connect(&url)).await?.context("PostgreSQL")
    }

    pub async fn execute(&self, database: &str, statement: &str) -> Result<()> {
        let mut session = self.sql(database).await?;
        let running = sqlx::raw_sql(statement).execute(&mut session);
        tokio::time::timeout(ANSWER, running).await?.with_context(|| statement.to_owned())?;
        Ok(())
    }

    pub async fn redis(&self) -> Result<redis::aio::MultiplexedConnection> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/1", self.redis_port))?;
        Ok(tokio::time::timeout(ANSWER, client.get_multiplexed_async_connection()).await??)
    }

    pub async fn redis_command(&self, words: &[&str]) -> Result<()> {
        let mut connection = self.redis().await?;
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        tokio::time::timeout(ANSWER, command.query_async::<redis::Value>(&mut connection)).await??;
        Ok(())
    }

    pub async fn amqp(&self, vhost: &str) -> Result<lapin::Connection> {
        let url = format!("{}?heartbeat=10", self.amqp_url(self.amqp_port, vhost));
        let connecting = lapin::Connection::connect(&url, ConnectionProperties::default());
        Ok(tokio::time::timeout(ANSWER, connecting).await??)
    }

    /// One request to the broker's management API.
    pub async fn management(&self, method: &str, path: &str, body: &str) -> Result<String> {
        let user = base64::engine::general_purpose::STANDARD.encode("fis_service:secret");
        let request = format!(
            "{method} /api/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {user}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let asking = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.management_port)).await?;
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            anyhow::Ok(answer)
        };
        let answer = tokio::time::timeout(ANSWER, asking).await??;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        ensure!(status.starts_with('2'), "{method} {path}: {}", answer.lines().next().unwrap_or_default());
        Ok(answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
    }
}

/// The same, again if need be: on a machine that is busy elsewhere a server may need longer to start than `./dev` waits for it.
async fn patiently(dir: &Path, args: &[&str]) -> Result<()> {
    for _ in 0..3 {
        if dev(dir, args).await.is_ok() {
            return Ok(());
        }
    }
    dev(dir, args).await.map(drop)
}

/// `./dev …` on the servers that live in a directory, and on no others.
pub async fn dev(dir: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new(DEV);
    command.args(args).env("FIS_DEV_DIR", dir).stdin(Stdio::null()).kill_on_drop(true);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FIS_") && !name.starts_with("FIS_DEV_")) {
        command.env_remove(name);
    }
    let output = tokio::time::timeout(PATIENCE, command.output()).await.context("./dev does not end")??;
    if !output.status.success() {
        bail!("./dev {args:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
