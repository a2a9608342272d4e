//! The numbers of a ledger at a glance: nothing enters, counts leave. Nothing is changed, and every count is found by an index or in a small table.

use sqlx::PgConnection;

/// What waits in PostgreSQL, and what is booked.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct Overview {
    /// Held events, and those of them whose time has come.
    pub held: i64,
    pub held_due: i64,
    /// Entries of all tenants.
    pub entries: i64,
    /// Replays that run, and the letters that they have before them.
    pub replays: i64,
    pub replay_letters: i64,
    /// Tenants that have books.
    pub tenants: i64,
}

/// The numbers of this ledger.
///
/// # Errors
/// The database is away.
pub async fn read(db: &mut PgConnection) -> Result<Overview, sqlx::Error> {
    sqlx::query_as(
        "select (select count(*) from fis_held) as held,
                (select count(*) from fis_held where due_at <= now()) as held_due,
                (select coalesce(sum(seq), 0)::bigint from fis_chain_head) as entries,
                (select count(*) from fis_replay where state = 'running') as replays,
                (select coalesce(sum(letters - decided), 0)::bigint from fis_replay where state = 'running') as replay_letters,
                (select count(distinct tenant_id) from fis_books) as tenants",
    )
    .fetch_one(db)
    .await
}
