//! `fis_instance`: the instances of fis that serve this ledger. What an instance says of itself enters; who lives leaves. The database's clock is the only
//! one that counts, and nothing but a screen depends on a row.

use sqlx::PgConnection;

/// An instance as it describes itself.
#[derive(Debug, Clone)]
pub struct Instance {
    pub id: String,
    pub host: String,
    pub pid: i64,
    pub version: String,
    pub http_addr: String,
}

/// An instance, and when it was last heard of.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct InstanceRow {
    pub host: String,
    pub pid: i64,
    pub version: String,
    pub http_addr: String,
    pub is_ready: bool,
    pub is_relaying: bool,
    pub running_seconds: i64,
    pub silent_seconds: i64,
}

/// Says that an instance lives, and forgets those that have been silent for a day.
///
/// # Errors
/// The database is away.
pub async fn beat(
    db: &mut PgConnection,
    instance: &Instance,
    is_ready: bool,
    is_relaying: bool,
) -> Result<(), sqlx::Error> {
    // It is worth no wait for the disk: the next beat says the same.
    sqlx::query(
        "with forgotten as (
             delete from fis_instance where seen_at < now() - interval '1 day'
         )
         insert into fis_instance (id, host, pid, version, http_addr, is_ready, is_relaying)
         select $1, $2, $3, $4, $5, $6, $7
          where (select set_config('synchronous_commit', 'off', true)) is not null
             on conflict (id) do update set is_ready = excluded.is_ready, is_relaying = excluded.is_relaying, seen_at = now()",
    )
    .bind(&instance.id)
    .bind(&instance.host)
    .bind(instance.pid)
    .bind(&instance.version)
    .bind(&instance.http_addr)
    .bind(is_ready)
    .bind(is_relaying)
    .execute(db)
    .await?;
    Ok(())
}

/// Takes an instance away that ends.
///
/// # Errors
/// The database is away.
pub async fn leave(db: &mut PgConnection, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query("delete from fis_instance where id = $1").bind(id).execute(db).await?;
    Ok(())
}

/// All instances that were heard of in the last day, who relays first.
///
/// # Errors
/// The database is away.
pub async fn list(db: &mut PgConnection) -> Result<Vec<InstanceRow>, sqlx::Error> {
    sqlx::query_as(
        "select host, pid, version, http_addr, is_ready, is_relaying,
                extract(epoch from now() - started_at)::bigint as running_seconds,
                extract(epoch from now() - seen_at)::bigint as silent_seconds
           from fis_instance
          order by is_relaying desc, host, pid",
    )
    .fetch_all(db)
    .await
}
