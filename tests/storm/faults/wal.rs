//! A small disk for PostgreSQL's write-ahead log alone. Where it is full PostgreSQL panics: it cannot even roll back. It starts again
//! by itself, as far as it comes without room.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use sqlx::Executor;
use tokio::process::Command;

use super::Wound;
use crate::servers::Servers;
use crate::world::{self, World};

/// Beside what is in the log already: enough for the rest of a storm, since nothing is taken out of it before a checkpoint.
const ROOM_MB: u64 = 256;
const PATIENCE: Duration = Duration::from_secs(120);

pub fn disk_of(servers_dir: &Path) -> PathBuf {
    servers_dir.with_extension("wal")
}

/// Moves the log to a small disk, where it stays for the rest of the schedule, and fills that.
pub async fn fill_up(world: &World, wound: &mut Wound) -> Result<()> {
    let servers = world.servers.clone();
    let (log, disk) = (servers.postgres_data()?.join("pg_wal"), disk_of(&servers.dir));
    if !log.is_symlink() {
        servers.act("postgres", "stop").await?;
        world::mount(&disk, megabytes(&log)? + ROOM_MB, "pg_wal")?;
        move_log(
            &log,
            &disk,
            "rm -rf \"$1/pg_wal\" && cp -a \"$0\" \"$1/\" && rm -rf \"$0\" && ln -s \"$1/pg_wal\" \"$0\"",
        )
        .await?;
        servers.act("postgres", "start").await?;
    }
    world::fill(&disk).await?;
    wound.task = Some(tokio::spawn(async move {
        loop {
            // What is left of the segments that are there would last the storm for minutes.
            if let Ok(mut session) = servers.sql("postgres").await {
                let write = "select pg_logical_emit_message(true, 'storm', repeat('x', 1000000))";
                while session.execute(write).await.is_ok() {}
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }));
    Ok(())
}

/// It may be up, on its way up or down, or have given up.
pub async fn make_room(world: &World) -> Result<()> {
    let servers = &world.servers;
    world::make_room(&disk_of(&servers.dir))?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let started = servers.act("postgres", "start").await;
        if started.is_ok() && servers.sql("postgres").await.is_ok() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "PostgreSQL does not come back: {started:?}");
    }
}

/// Where the log belongs, for the next schedule.
pub async fn put_back(servers: &Servers) -> Result<()> {
    let (log, disk) = (servers.postgres_data()?.join("pg_wal"), disk_of(&servers.dir));
    if log.is_symlink() {
        servers.act("postgres", "stop").await?;
        move_log(&log, &disk, "rm \"$0\" && cp -a \"$1/pg_wal\" \"$0\"").await?;
        servers.act("postgres", "start").await?;
    }
    world::unmount(&disk)
}

async fn move_log(log: &Path, disk: &Path, script: &str) -> Result<()> {
    let moved = Command::new("sh").arg("-c").arg(script).args([log, disk]).output().await?;
    ensure!(moved.status.success(), "moving {}: {}", log.display(), String::from_utf8_lossy(&moved.stderr));
    Ok(())
}

fn megabytes(dir: &Path) -> Result<u64> {
    let sizes = std::fs::read_dir(dir)?.map(|file| Ok(file?.metadata()?.len()));
    Ok(sizes.sum::<Result<u64>>()? / 1_000_000 + 1)
}
