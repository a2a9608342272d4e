//! PostgreSQL: the pool, the schema's version, and what an error means. A transaction is never dropped on a connection that goes back
//! to the pool: the server limits statements and waits for locks, and `run` (`work`) gives a silent connection up whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Row};

use super::config;
use work::{IDLE_UNTESTED, Kept};

mod numeric;
mod work;

pub use numeric::Numeric;
pub use work::Work;

static MIGRATOR: Migrator = sqlx::migrate!();

/// What a failed statement means for the work it was part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The store is away, full, locked or in fail-over: hold everything and try again. It says nothing about the data.
    Away(String),
    /// PostgreSQL refuses this data and always will.
    Refused { sqlstate: String, message: String },
}

/// SQLSTATE classes that speak of the data: cardinality, data exception, integrity, a limit such as an index row's size.
/// All others (connection, resources, locks, a read-only standby, a missing table or permission) are the server's
/// trouble: an event is never dead-lettered for them.
const REFUSING_CLASSES: [&str; 4] = ["21", "22", "23", "54"];

impl Fault {
    #[must_use]
    pub fn of(error: &sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(database) => {
                let sqlstate = database.code().unwrap_or_default().into_owned();
                let message = database.message().to_owned();
                let refused = REFUSING_CLASSES.iter().any(|class| sqlstate.starts_with(class));
                if refused { Self::Refused { sqlstate, message } } else { Self::Away(format!("{sqlstate} {message}")) }
            }
            // A commit whose answer was lost is among these: only the ledger knows, so ask again.
            None => Self::Away(error.to_string()),
        }
    }
}

/// A wrong password, role or database name: waiting will not mend it.
#[must_use]
pub fn needs_a_person(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| code.starts_with("28") || code.starts_with("3D"))
}

#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    #[error("setting `database.url` must be a PostgreSQL URL such as postgres://user:password@host:5432/fis")]
    Url,
    #[error("the database is at version {found}, this program needs {needed}: run `fis migrate`")]
    Behind { found: i64, needed: i64 },
    #[error("the database is at version {found}, newer than this program, which knows {needed}: run a newer fis")]
    Ahead { found: i64, needed: i64 },
    #[error("migration {version} was changed after it ran here: this database does not belong to this program")]
    Changed { version: i64 },
    #[error("the database does not answer")]
    Sql(#[from] sqlx::Error),
    #[error("a migration failed")]
    Migrate(#[from] sqlx::migrate::MigrateError),
}

/// The pool, and which ledger is behind it.
#[derive(Clone)]
pub struct Postgres {
    pub pool: PgPool,
    /// How often a connection was made.
    connections: Arc<AtomicU64>,
    kept: Arc<Mutex<Vec<Kept>>>,
    /// How long `run` waits for a piece of work; `None` in a command.
    answer_limit: Option<Duration>,
}

impl Postgres {
    /// Connects lazily: a database that is away at the start is an outage like any other.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub fn new(config: &config::Database) -> Result<Self, PostgresError> {
        Self::with(config, &[], None)
    }

    /// For a service. Everything it asks has an index, and its plans are made once: one that was made while a table was small or
    /// empty, the outbox above all, must not read all of it when it is full (ADR 26). And its work has a limit (`run`): the server ends
    /// a statement after `statement_timeout_ms` and a wait for a lock after `lock_timeout_ms`.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub fn serving(config: &config::Database) -> Result<Self, PostgresError> {
        // Where there is nothing but to read all, that counts as so dear that the statement would be compiled.
        let limit = Duration::from_millis(config.statement_timeout_ms + config.lock_timeout_ms);
        Self::with(config, &[("enable_seqscan", "off"), ("jit", "off")], Some(limit))
    }

    fn with(
        config: &config::Database,
        settings: &[(&str, &str)],
        answer_limit: Option<Duration>,
    ) -> Result<Self, PostgresError> {
        // sqlx reads any scheme, and an empty text, as an address of its own.
        let url = config.url.expose();
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(PostgresError::Url);
        }
        let options: PgConnectOptions = url.parse().map_err(|_| PostgresError::Url)?;
        let options = options.application_name("fis").options([
            // An acknowledged commit must be a durable one, whatever the server's default.
            ("synchronous_commit", "on".to_owned()),
            ("statement_timeout", config.statement_timeout_ms.to_string()),
            ("lock_timeout", config.lock_timeout_ms.to_string()),
            ("idle_in_transaction_session_timeout", "60000".to_owned()),
            ("timezone", "UTC".to_owned()),
            // Without a space: sqlx 0.8 does not escape it, and the server would take the rest for another word.
            ("datestyle", "ISO,YMD".to_owned()),
            // The server notices a client that is gone, and gives its locks back, within a minute.
            ("tcp_keepalives_idle", "30".to_owned()),
            ("tcp_keepalives_interval", "10".to_owned()),
            ("tcp_keepalives_count", "3".to_owned()),
        ]);
        let options = options.options(settings.iter().copied());
        let connections = Arc::new(AtomicU64::new(0));
        let pool = PgPoolOptions::new()
            .max_connections(config.connections_max)
            .acquire_timeout(Duration::from_secs(5))
            .idle_timeout(Duration::from_secs(600))
            // One that has just answered is not asked again: that would be a round trip of every transaction.
            .test_before_acquire(false)
            .before_acquire(|connection, used| {
                Box::pin(
                    async move { if used.idle_for >= IDLE_UNTESTED { work::test(connection).await } else { Ok(true) } },
                )
            })
            // Before sqlx tests it without a limit: a connection to a server that is silent would stay with that test for good.
            .after_release(|connection, _| Box::pin(work::test(connection)))
            .after_connect({
                let connections = Arc::clone(&connections);
                move |_, _| {
                    connections.fetch_add(1, Ordering::SeqCst);
                    Box::pin(async { Ok(()) })
                }
            })
            .connect_lazy_with(options);
        Ok(Self { pool, connections, kept: Arc::default(), answer_limit })
    }

    /// How often a connection was made: as long as it stays the same, the server behind it is the same too.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Which ledger this is, and how far its write-ahead log has come. The first changes when PostgreSQL is recovered to an
    /// earlier point, recreated or failed over; a cold copy put back in place changes only the second.
    ///
    /// # Errors
    /// The database is away, or a standby, which refuses the postings anyway.
    pub async fn place(&self) -> Result<(String, i64), sqlx::Error> {
        // The timeline is read from the name of the current WAL file, which changes at the moment of promotion; the control
        // file lags behind until the next checkpoint.
        let row = sqlx::query(
            "select (select system_identifier from pg_control_system())::text
                 || '-' || (select oid from pg_database where datname = current_database())::text
                 || '-' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) as epoch,
                 (pg_current_wal_insert_lsn() - '0/0')::bigint as position",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok((row.try_get("epoch")?, row.try_get("position")?))
    }

    /// Whether the ledger has this very entry in this place.
    ///
    /// # Errors
    /// The database is away.
    pub async fn has_entry(&self, tenant: &str, seq: i64, hash: &str) -> Result<bool, sqlx::Error> {
        let found = "select exists (select from fis_journal_entry where tenant_id = $1 and seq = $2 and hash = $3)";
        sqlx::query_scalar(found).bind(tenant).bind(seq).bind(hash).fetch_one(&self.pool).await
    }

    /// Whether it answers at all; makes a new connection where the old ones are dead.
    ///
    /// # Errors
    /// It does not.
    pub async fn ping(&self) -> Result<(), sqlx::Error> {
        self.pool.acquire().await.map(|_| ())
    }

    /// # Errors
    /// A migration fails; the ones before it stay.
    pub async fn migrate(&self) -> Result<(i64, i64), PostgresError> {
        let before = self.version().await?;
        if before > needed_version() {
            return Err(PostgresError::Ahead { found: before, needed: needed_version() });
        }
        // A migration of a large table takes longer than any statement of the service may.
        let mut connection = self.pool.acquire().await?.detach();
        sqlx::query("set statement_timeout = 0").execute(&mut connection).await?;
        sqlx::query("set lock_timeout = 0").execute(&mut connection).await?;
        MIGRATOR.run(&mut connection).await?;
        Ok((before, self.version().await?))
    }

    /// # Errors
    /// The schema is behind, ahead, or not ours.
    pub async fn check_version(&self) -> Result<(), PostgresError> {
        let (found, needed) = (self.version().await?, needed_version());
        match found.cmp(&needed) {
            std::cmp::Ordering::Less => return Err(PostgresError::Behind { found, needed }),
            std::cmp::Ordering::Greater => return Err(PostgresError::Ahead { found, needed }),
            std::cmp::Ordering::Equal => {}
        }
        let applied = sqlx::query("select version, checksum from _sqlx_migrations where success order by version");
        for row in applied.fetch_all(&self.pool).await? {
            let (version, checksum): (i64, Vec<u8>) = (row.try_get("version")?, row.try_get("checksum")?);
            let ours = MIGRATOR.iter().find(|migration| migration.version == version);
            if ours.is_none_or(|migration| migration.checksum.as_ref() != checksum) {
                return Err(PostgresError::Changed { version });
            }
        }
        Ok(())
    }

    async fn version(&self) -> Result<i64, sqlx::Error> {
        let exists: bool =
            sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null").fetch_one(&self.pool).await?;
        if !exists {
            return Ok(0);
        }
        sqlx::query_scalar("select coalesce(max(version), 0) from _sqlx_migrations where success")
            .fetch_one(&self.pool)
            .await
    }

    /// Whether a posting could begin: the head of the ledger can be locked. A standby, a read-only server or a missing right
    /// answer every `select` and refuse this.
    ///
    /// # Errors
    /// It could not.
    pub async fn probe(&self) -> Result<(), sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query("select 1 from fis_chain_head order by tenant_id limit 1 for update skip locked")
            .execute(&mut *transaction)
            .await?;
        transaction.rollback().await
    }

    /// Settings of the server under which a commit may not survive a crash.
    ///
    /// # Errors
    /// The database is away.
    pub async fn unsafe_settings(&self) -> Result<Vec<String>, sqlx::Error> {
        sqlx::query_scalar("select name from pg_settings where name in ('fsync', 'full_page_writes') and setting = 'off' order by name")
            .fetch_all(&self.pool)
            .await
    }
}

/// Whether any other `fis` is connected to the same database.
///
/// # Errors
/// The database is away.
pub async fn others_connected(pool: &PgPool) -> Result<bool, sqlx::Error> {
    let sessions: i64 = sqlx::query_scalar(
        "select count(*) from pg_stat_activity where application_name = 'fis' and datname = current_database()",
    )
    .fetch_one(pool)
    .await?;
    Ok(sessions > i64::from(pool.size()))
}

fn needed_version() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_error_says_nothing_about_the_data() {
        let error = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert!(matches!(Fault::of(&error), Fault::Away(_)));
        assert!(matches!(Fault::of(&sqlx::Error::PoolTimedOut), Fault::Away(_)));
    }
}
