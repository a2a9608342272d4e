//! The ledger as a whole: which one it is, how far it has come, whether it takes postings.

use sqlx::{Connection, PgConnection, Row};

/// The name of the ledger behind a connection, and how far its write-ahead log has come. The first changes when PostgreSQL is recovered to an
/// earlier point, recreated or failed over; a cold copy put back in place changes only the second.
///
/// # Errors
/// The database is away, or a standby, which refuses the postings anyway.
pub async fn position(db: &mut PgConnection) -> Result<(String, i64), sqlx::Error> {
    // The timeline is read from the name of the current WAL file, which changes at the moment of promotion; the control
    // file lags behind until the next checkpoint.
    let row = sqlx::query(
        "select (select system_identifier from pg_control_system())::text
             || '-' || (select oid from pg_database where datname = current_database())::text
             || '-' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) as epoch,
             (pg_current_wal_insert_lsn() - '0/0')::bigint as position",
    )
    .fetch_one(db)
    .await?;
    Ok((row.try_get("epoch")?, row.try_get("position")?))
}

/// The ledger's own name at the broker, which stays with it wherever it is restored to. `None`: the row is gone.
///
/// # Errors
/// The database is away.
pub async fn identity(db: &mut PgConnection) -> Result<Option<String>, sqlx::Error> {
    // The broker's answers are cut off at 255 bytes, and two of these names are in one.
    sqlx::query_scalar("select 'fis.' || replace(id::text, '-', '') from fis_ledger where one").fetch_optional(db).await
}

/// The secret with which fis proves to itself that it wrote a key in Redis.
///
/// # Errors
/// The database is away, or has lost the row.
pub async fn secret(db: &mut PgConnection) -> Result<Vec<u8>, sqlx::Error> {
    sqlx::query_scalar("select secret from fis_ledger where one").fetch_one(db).await
}

/// Tells whether the ledger has this very entry in this place.
///
/// # Errors
/// The database is away.
pub async fn has_entry(db: &mut PgConnection, tenant: &str, seq: i64, hash: &str) -> Result<bool, sqlx::Error> {
    let found = "select exists (select from fis_journal_entry where tenant_id = $1 and seq = $2 and hash = $3)";
    sqlx::query_scalar(found).bind(tenant).bind(seq).bind(hash).fetch_one(db).await
}

/// Checks that a posting could begin: the head of the ledger can be locked. A standby, a read-only server or a missing right
/// answer every `select` and refuse this.
///
/// # Errors
/// It could not.
pub async fn probe(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    let mut transaction = db.begin().await?;
    sqlx::query("select 1 from fis_chain_head order by tenant_id limit 1 for update skip locked")
        .execute(&mut *transaction)
        .await?;
    transaction.rollback().await
}
