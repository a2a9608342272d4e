//! What PostgreSQL does to its clients, short of dying.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use sqlx::Executor;

use super::standby::{self, Standby};
use super::{Wound, wal};
use crate::world::{World, fill, make_room};

/// More than the servers of `./dev` allow.
const CONNECTIONS_MAX: usize = 250;

pub async fn apply(world: &World, name: &str, wound: &mut Wound) -> Result<()> {
    let servers = &world.servers;
    match name {
        "postgres_terminate" => {
            let mut session = servers.sql("postgres").await?;
            wound.task = Some(tokio::spawn(async move {
                loop {
                    let _ = session.execute(TERMINATE).await;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }));
        }
        "postgres_connections" => {
            let mut own = servers.sql("postgres").await?;
            while wound.sessions.len() < CONNECTIONS_MAX {
                let Ok(session) = servers.sql("postgres").await else { break };
                wound.sessions.push(session);
            }
            // Whatever fis has is ended and taken as well.
            own.execute(TERMINATE).await?;
            while wound.sessions.len() < CONNECTIONS_MAX {
                let Ok(session) = servers.sql("postgres").await else { break };
                wound.sessions.push(session);
            }
            wound.sessions.push(own);
        }
        "postgres_lock" => wound.sessions.push(lock(world).await?),
        "postgres_read_only" => set(world, "default_transaction_read_only = on").await?,
        "postgres_disk_full" => {
            let disk = world.small_disk.as_ref().context("the disk was not made")?;
            fill(disk).await?;
        }
        "postgres_wal_full" => wal::fill_up(world, wound).await?,
        "postgres_failover_sync" => {
            let standby = Standby::attach(world).await?;
            set(world, "synchronous_standby_names = '*'").await?;
            standby.wait_for(world, "sync").await?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            servers.act("postgres", "crash").await?;
            standby.promote().await?;
            wound.standby = Some(standby);
        }
        "postgres_failover_async" => {
            world.scars.lock().unwrap().forgot = true;
            let standby = Standby::attach(world).await?;
            standby.wait_for(world, "async").await?;
            standby.stop_receiving();
            tokio::time::sleep(Duration::from_secs(3)).await;
            servers.act("postgres", "crash").await?;
            standby.promote().await?;
            wound.standby = Some(standby);
        }
        "postgres_restore" => {
            world.scars.lock().unwrap().forgot = true;
            standby::backup(world, "backup", false).await?;
        }
        other => bail!("nobody knows how to do {other}"),
    }
    Ok(())
}

pub async fn heal(world: &World, name: &str, wound: &mut Wound) -> Result<()> {
    match name {
        "postgres_terminate" | "postgres_connections" | "postgres_lock" => {
            for session in wound.sessions.drain(..) {
                // Not waited for: a server that another fault has stopped would not answer.
                drop(session);
            }
        }
        "postgres_read_only" => set(world, "default_transaction_read_only = off").await?,
        "postgres_disk_full" => {
            if let Some(disk) = &world.small_disk {
                make_room(disk)?;
            }
        }
        "postgres_wal_full" => wal::make_room(world).await?,
        "postgres_failover_sync" | "postgres_failover_async" => {
            let standby = wound.standby.take().context("there is no standby")?;
            standby.take_over(world).await?;
            if name == "postgres_failover_async" {
                world.publisher.again();
            }
        }
        "postgres_restore" => {
            world.servers.act("postgres", "stop").await?;
            standby::put_in_place(world, "backup").await?;
            world.servers.act("postgres", "start").await?;
            world.publisher.again();
        }
        other => bail!("nobody knows how to undo {other}"),
    }
    Ok(())
}

/// A session that has locked every head. Where another fault of ours holds them, they are locked well enough: to wait for it would
/// be to wait for ourselves.
pub async fn lock(world: &World) -> Result<sqlx::PgConnection> {
    let mut session = world.servers.sql(&world.database).await?;
    session.execute("set lock_timeout = '3s'; begin").await?;
    match session.execute("select 1 from fis_chain_head order by tenant_id for update").await {
        Ok(_) => Ok(session),
        Err(error) if error.as_database_error().and_then(|error| error.code()).as_deref() == Some(LOCK_TIMEOUT) => {
            Ok(session)
        }
        Err(error) => Err(error.into()),
    }
}

const LOCK_TIMEOUT: &str = "55P03";

/// Ends every session of fis; ours call themselves nothing either, but are on another database or are protected by their pid.
const TERMINATE: &str = "select pg_terminate_backend(pid) from pg_stat_activity
                          where backend_type = 'client backend' and pid <> pg_backend_pid() and datname <> 'postgres'";

async fn set(world: &World, setting: &str) -> Result<()> {
    let mut session = world.servers.sql("postgres").await?;
    session.execute("set default_transaction_read_only = off").await?;
    sqlx::raw_sql(&format!("alter system set {setting}")).execute(&mut session).await?;
    session.execute("select pg_reload_conf()").await?;
    Ok(())
}
