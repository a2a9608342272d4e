//! `fis_lease`: what one instance does for all of them. A name and an owner enter; whether the lease is the owner's leaves. The database's clock is the
//! only one that counts.

use sqlx::PgConnection;

/// The answer to the wish for a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Ours,
    /// It is ours now; whoever had it before has neither prolonged it nor given it back.
    Inherited,
    /// Somebody else has it.
    No,
}

/// Takes a lease for so many seconds, or prolongs it. Also tells how many owners have died since the last one that was well.
///
/// # Errors
/// The database is away.
pub async fn take(db: &mut PgConnection, name: &str, owner: &str, seconds: i32) -> Result<(Taken, i32), sqlx::Error> {
    // It is worth no wait for the disk: a lease that is forgotten is taken again.
    let before: Option<(Option<String>, i32)> = sqlx::query_as(
        "insert into fis_lease as l (name, owner, until)
         select $1, $2, now() + $3 * interval '1 second'
          where (select set_config('synchronous_commit', 'off', true)) is not null
             on conflict (name) do update set owner = excluded.owner, until = excluded.until,
                                              deaths = l.deaths + case when l.owner = excluded.owner then 0 else 1 end
          where l.owner = excluded.owner or l.until < now()
      returning (select owner from fis_lease where name = $1), deaths",
    )
    .bind(name)
    .bind(owner)
    .bind(seconds)
    .fetch_optional(db)
    .await?;
    Ok(match before {
        None => (Taken::No, 0),
        Some((before, deaths)) if before.as_deref().is_none_or(|before| before == owner) => (Taken::Ours, deaths),
        Some((_, deaths)) => (Taken::Inherited, deaths),
    })
}

/// Forgets the deaths of a lease's owners.
///
/// # Errors
/// The database is away.
pub async fn forget_deaths(db: &mut PgConnection, name: &str, owner: &str) -> Result<(), sqlx::Error> {
    let forget = "update fis_lease set deaths = 0 where name = $1 and owner = $2";
    sqlx::query(forget).bind(name).bind(owner).execute(db).await?;
    Ok(())
}

/// Gives a lease back, so that another instance need not wait for its end.
///
/// # Errors
/// The database is away.
pub async fn give_back(db: &mut PgConnection, name: &str, owner: &str) -> Result<(), sqlx::Error> {
    sqlx::query("delete from fis_lease where name = $1 and owner = $2").bind(name).bind(owner).execute(db).await?;
    Ok(())
}
