//! PostgreSQL: the pool, and what an error means. A transaction is never dropped on a connection that goes back
//! to the pool: the server limits statements and waits for locks, and `run` (`work`) gives a silent connection up whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgConnection, PgPool};

use super::config;
use super::server_address::{ServerAddress, io_text};
use work::{IDLE_UNTESTED, Kept};

mod address;
mod numeric;
mod work;

pub use numeric::Numeric;
pub use work::{Lease, Work};

/// The meaning of a failed statement for the work it was part of.
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
                if refused { Self::Refused { sqlstate, message } } else { Self::Away(error_text(error)) }
            }
            // A commit whose answer was lost is among these: only the ledger knows, so ask again.
            None => Self::Away(error_text(error)),
        }
    }
}

/// Tells whether a statement ended because somebody else holds a lock: it was waited for in vain, or in a circle.
#[must_use]
pub fn is_lock_taken(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| code == "55P03" || code == "40P01")
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
    #[error("{}", address.sentence(&error_text(error)))]
    Unreachable { address: Box<ServerAddress>, error: sqlx::Error },
    // Not as its source: whoever prints the causes, too, would say everything twice.
    #[error("PostgreSQL {}", error_text(.0))]
    Sql(sqlx::Error),
}

impl PostgresError {
    /// What goes on after the server's name: the server and the address are left out.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::Url => self.to_string(),
            Self::Unreachable { error, .. } | Self::Sql(error) => error_text(error),
        }
    }

    /// A wrong password, role or database name: waiting will not mend it.
    #[must_use]
    pub fn needs_a_person(&self) -> bool {
        match self {
            Self::Url => true,
            Self::Unreachable { error, .. } | Self::Sql(error) => needs_a_person(error),
        }
    }
}

impl From<sqlx::Error> for PostgresError {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

/// What an error means, as the predicate of a sentence about the server: `refuses connections`. PostgreSQL's own words stand in it, sqlx's do not.
#[must_use]
pub fn error_text(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Io(error) => io_text(error),
        sqlx::Error::PoolTimedOut => "gives no connection in time: all are in use".to_owned(),
        sqlx::Error::PoolClosed => "is no longer asked: the pool is closed".to_owned(),
        sqlx::Error::Tls(error) => format!("cannot be reached by TLS: {error}"),
        error => match error.as_database_error() {
            Some(database) => format!("says: {}, SQLSTATE {}", database.message(), database.code().unwrap_or_default()),
            None => format!("gave an answer that cannot be used: {error}"),
        },
    }
}

/// The longest wait for the first connection of a command, and for the cause of a pool that gives none.
const REACH_MAX: Duration = Duration::from_secs(3);

/// The pool of connections.
#[derive(Clone)]
pub struct Postgres {
    pub pool: PgPool,
    pub address: ServerAddress,
    /// The number of connections that were made.
    connections: Arc<AtomicU64>,
    kept: Arc<Mutex<Vec<Kept>>>,
    /// The longest time that `run` waits for a piece of work; `None` in a command.
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
        let options = address::parse(config.url.expose())?;
        let address = address::of(&options, config);
        let options = options.application_name("fis").options([
            // An acknowledged commit must be a durable one, whatever the server's default.
            ("synchronous_commit", "on".to_owned()),
            ("statement_timeout", config.statement_timeout_ms.to_string()),
            ("lock_timeout", config.lock_timeout_ms.to_string()),
            ("idle_in_transaction_session_timeout", "60000".to_owned()),
            // The tables are in `public`. By default a schema that is named like the role would be searched before it.
            ("search_path", "public,pg_temp".to_owned()),
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
        Ok(Self { pool, address, connections, kept: Arc::default(), answer_limit })
    }

    /// The number of connections that were made: as long as it stays the same, the server behind them is the same too.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Asks PostgreSQL whether it answers at all; makes a new connection where the old ones are dead.
    ///
    /// # Errors
    /// It does not.
    pub async fn ping(&self) -> Result<(), sqlx::Error> {
        self.acquire().await.map(|_| ())
    }

    /// Connects once, beside the pool: the pool tries a server that refuses for five seconds, and keeps the reason to itself.
    ///
    /// # Errors
    /// PostgreSQL cannot be reached, or does not let this role in; the error names address and reason.
    pub async fn reach(&self) -> Result<(), PostgresError> {
        self.connect()
            .await
            .map_err(|error| PostgresError::Unreachable { address: Box::new(self.address.clone()), error })
    }

    async fn connect(&self) -> Result<(), sqlx::Error> {
        let options = self.pool.connect_options();
        let reach = async {
            let connection = PgConnection::connect_with(&options).await?;
            // The goodbye is a courtesy: nothing was done on this connection.
            let _ = connection.close().await;
            Ok(())
        };
        let reached = tokio::time::timeout(REACH_MAX, reach).await;
        reached.unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
    }

    /// A connection of the pool. Where it gives none, the error says why; where the server is back by then, the pool is asked once more, so that
    /// nobody reports an outage that is over.
    async fn acquire(&self) -> Result<PoolConnection<sqlx::Postgres>, sqlx::Error> {
        match self.pool.acquire().await {
            Err(sqlx::Error::PoolTimedOut) => {
                self.connect().await?;
                self.pool.acquire().await
            }
            acquired => acquired,
        }
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

/// Tells whether any other `fis` is connected to the same database.
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
