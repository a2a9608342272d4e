//! A physical standby of the storm's PostgreSQL, and backups of it. A standby that is promoted takes the primary's place and
//! address; what was there before is kept beside it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sqlx::{Connection, PgConnection, Row};
use tokio::process::{Child, Command};

use crate::world::World;

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Standby {
    child: Child,
    dir: PathBuf,
    port: u16,
}

/// PostgreSQL refuses to run as root.
fn as_postgres(program: &Path) -> Command {
    let is_root = std::process::Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let mut command = if is_root {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.stdin(Stdio::null()).current_dir("/").kill_on_drop(true);
    command
}

fn program(world: &World, name: &str) -> Result<PathBuf> {
    let version = std::fs::read_to_string(data(world)?.join("PG_VERSION"))?;
    Ok(PathBuf::from(format!("/usr/lib/postgresql/{}/bin/{name}", version.trim())))
}

fn data(world: &World) -> Result<PathBuf> {
    world.servers.postgres_data()
}

fn beside(world: &World, name: &str) -> Result<PathBuf> {
    Ok(data(world)?.with_file_name(format!("postgres.{name}")))
}

/// A copy of the running server in `postgres.NAME`, next to its data.
pub async fn backup(world: &World, name: &str, follows: bool) -> Result<PathBuf> {
    let dir = beside(world, name)?;
    let made = Command::new("sh")
        .arg("-c")
        .arg("rm -rf \"$0\" && mkdir -m 700 \"$0\" && { [ \"$(id -u)\" != 0 ] || chown postgres: \"$0\"; }")
        .arg(&dir)
        .status();
    ensure!(made.await?.success(), "cannot make {}", dir.display());
    let mut command = as_postgres(&program(world, "pg_basebackup")?);
    command.args(["-h", "127.0.0.1", "-U", "fis", "-X", "stream", "--checkpoint=fast", "--no-sync", "-p"]);
    command.arg(world.servers.postgres_port.to_string()).arg("-D").arg(&dir);
    if follows {
        command.arg("-R");
    }
    let output = tokio::time::timeout(PATIENCE, command.output()).await??;
    ensure!(output.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&output.stderr));
    Ok(dir)
}

/// Replaces the data of the stopped server.
pub async fn put_in_place(world: &World, name: &str) -> Result<()> {
    let (from, to, old) = (beside(world, name)?, data(world)?, beside(world, "replaced")?);
    let moved = Command::new("sh")
        .arg("-c")
        .arg("rm -rf \"$2\" && mv \"$1\" \"$2\" && mv \"$0\" \"$1\"")
        .args([&from, &to, &old])
        .status();
    ensure!(moved.await?.success(), "cannot put {} in place", from.display());
    Ok(())
}

impl Standby {
    pub async fn attach(world: &World) -> Result<Self> {
        let dir = backup(world, "standby", true).await?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(world.servers.dir.join("standby.log"))?;
        let child = as_postgres(&program(world, "postgres")?)
            .arg("-D")
            .arg(&dir)
            .args(["-c", &format!("port={port}"), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
            .args(["-c", "max_connections=200", "-c", "shared_buffers=64MB"])
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Self { child, dir, port })
    }

    /// Waits until the primary streams to it in that manner.
    pub async fn wait_for(&self, world: &World, manner: &str) -> Result<()> {
        let mut session = world.servers.sql("postgres").await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let states = sqlx::query("select sync_state from pg_stat_replication where state = 'streaming'")
                .fetch_all(&mut session)
                .await?;
            if states.iter().any(|row| row.get::<String, _>(0) == manner) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the standby does not follow");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn processes(&self) -> Vec<String> {
        let main = self.child.id().unwrap_or_default().to_string();
        let children = std::fs::read_to_string(format!("/proc/{main}/task/{main}/children")).unwrap_or_default();
        children.split_whitespace().map(ToOwned::to_owned).chain([main]).collect()
    }

    fn signal(&self, name: &str) {
        let _ = std::process::Command::new("kill").args(["-s", name]).args(self.processes()).status();
    }

    pub fn stop_receiving(&self) {
        self.signal("STOP");
    }

    pub async fn promote(&self) -> Result<()> {
        self.signal("CONT");
        let url = format!("postgres://fis@127.0.0.1:{}/postgres", self.port);
        let deadline = Instant::now() + PATIENCE;
        let promoting = async {
            let mut session = PgConnection::connect(&url).await?;
            sqlx::query("select pg_promote(true, 60)").execute(&mut session).await?;
            let waits: bool = sqlx::query_scalar("select pg_is_in_recovery()").fetch_one(&mut session).await?;
            ensure!(!waits, "it is still in recovery");
            // What it inherited from a primary that waited for it.
            sqlx::query("alter system reset synchronous_standby_names").execute(&mut session).await?;
            anyhow::Ok(())
        };
        tokio::time::timeout_at(deadline.into(), promoting).await.context("the standby is not promoted")?
    }

    /// Stops it, and starts it again where the primary was.
    pub async fn take_over(mut self, world: &World) -> Result<()> {
        if let Some(pid) = self.child.id() {
            let _ = std::process::Command::new("kill").args(["-s", "INT", &pid.to_string()]).status();
        }
        tokio::time::timeout(PATIENCE, self.child.wait()).await.context("the standby does not stop")??;
        ensure!(self.dir.exists(), "the standby has no data");
        put_in_place(world, "standby").await?;
        world.servers.act("postgres", "start").await
    }
}
