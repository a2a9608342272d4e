//! The one door through which a service's tasks use PostgreSQL. A named piece of work enters, its result leaves; a connection on which no
//! answer comes is never given back to the pool.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection};

use super::Postgres;

/// A connection that rested for longer is asked whether it lives before it is used.
pub(super) const IDLE_UNTESTED: Duration = Duration::from_secs(1);

/// The connections that are kept for one kind of work: two pieces of it may be under way at once.
const KEPT_MAX: usize = 2;

/// The longest wait for a sign of life: longer than a disk that stalls for a moment, and short enough to try two connections before whoever asked is told
/// that there is none.
const PING_MAX: Duration = Duration::from_secs(2);

/// A kind of work that PostgreSQL does for a task of the service.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    pub name: &'static str,
    keeps_connection: bool,
}

impl Work {
    /// Work that takes any connection and gives it back.
    #[must_use]
    pub const fn of(name: &'static str) -> Self {
        Self { name, keeps_connection: false }
    }

    /// Work that is done again at once, mostly: it keeps its connection for the next time. The session behind it has plans, tables
    /// and indexes at hand; the pool gives its connections out by turns, and each session would be the one that has rested longest.
    #[must_use]
    pub const fn often(name: &'static str) -> Self {
        Self { name, keeps_connection: true }
    }
}

/// A connection that has just done some work, and when.
pub(super) struct Kept {
    name: &'static str,
    connection: PoolConnection<sqlx::Postgres>,
    since: Instant,
}

impl Postgres {
    /// Does a piece of work on one connection. In a service it has a limit: the server itself ends a statement or a wait for a lock that takes
    /// too long, so who has heard nothing for longer than both is not going to (a proxy may acknowledge bytes that it does not
    /// forward; TCP cannot tell). Then the work is dropped **with** its connection, which is detached from the pool: the server rolls
    /// back when it notices, whether a commit was done is unknown, and the next try finds out. A command has no limit: its questions may take an hour.
    ///
    /// A connection is kept (`Work::often`) only after success; two of each name at most, so that others find one while these rest.
    ///
    /// # Errors
    /// No connection could be had, the work failed, or no answer came within the limit.
    pub async fn run<T, E: From<sqlx::Error>>(
        &self,
        work: Work,
        act: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        let connection = match self.take_kept(work).await {
            Some(connection) => connection,
            None => self.acquire().await?,
        };
        let (connection, done) = within(self.answer_limit, work, connection, act).await?;
        if let (Ok(_), true) = (&done, work.keeps_connection) {
            self.keep(Kept { name: work.name, connection, since: Instant::now() });
        }
        done
    }

    /// Takes one connection for a row of acts that must all see the same server.
    ///
    /// # Errors
    /// No connection could be had.
    pub async fn lease(&self, work: Work) -> Result<Lease, sqlx::Error> {
        Ok(Lease { work, limit: self.answer_limit, connection: Some(self.acquire().await?) })
    }

    /// The connection that last did such work, if it still lives.
    async fn take_kept(&self, work: Work) -> Option<PoolConnection<sqlx::Postgres>> {
        let place = |kept: &Vec<Kept>| kept.iter().rposition(|kept| kept.name == work.name);
        let mut found = {
            let mut kept = self.kept();
            let found = place(&kept)?;
            kept.remove(found)
        };
        if found.since.elapsed() >= IDLE_UNTESTED && !lives(&mut found.connection).await {
            drop(found.connection.detach());
            return None;
        }
        Some(found.connection)
    }

    fn keep(&self, new: Kept) {
        let mut kept = self.kept();
        // More than that were at work at once: the pool takes the oldest back.
        if kept.iter().filter(|old| old.name == new.name).count() >= KEPT_MAX
            && let Some(oldest) = kept.iter().position(|old| old.name == new.name)
        {
            kept.remove(oldest);
        }
        kept.push(new);
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection for as long as its holder needs the same server: ids that were read on it mean nothing on another one, which may have been restored
/// meanwhile. It is never replaced: after a failure or a silence every act fails, and the holder begins anew.
pub struct Lease {
    work: Work,
    limit: Option<Duration>,
    connection: Option<PoolConnection<sqlx::Postgres>>,
}

impl Lease {
    /// Does a piece of work on the leased connection, within the limit of [`Postgres::run`].
    ///
    /// # Errors
    /// The work failed or got no answer, now or before.
    pub async fn run<T, E: From<sqlx::Error>>(
        &mut self,
        act: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        let connection = self.connection.take().ok_or_else(|| silent(self.work.name))?;
        let (connection, done) = within(self.limit, self.work, connection, act).await?;
        if done.is_ok() {
            self.connection = Some(connection);
        }
        done
    }
}

/// Does an act within a limit. Where no answer comes in time the act is dropped, and its connection with it.
async fn within<T, E: From<sqlx::Error>>(
    limit: Option<Duration>,
    work: Work,
    mut connection: PoolConnection<sqlx::Postgres>,
    act: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
) -> Result<(PoolConnection<sqlx::Postgres>, Result<T, E>), E> {
    let done = match limit {
        None => Some(act(&mut connection).await),
        // The act is gone when this returns, and with it whatever borrowed the connection.
        Some(limit) => tokio::time::timeout(limit, act(&mut connection)).await.ok(),
    };
    match done {
        Some(done) => Ok((connection, done)),
        None => {
            drop(connection.detach());
            Err(E::from(silent(work.name)))
        }
    }
}

/// Tells whether the server behind a connection answers within `PING_MAX`.
async fn lives(connection: &mut PgConnection) -> bool {
    matches!(tokio::time::timeout(PING_MAX, connection.ping()).await, Ok(Ok(())))
}

/// A test for the pool's hooks: an error makes the pool drop the connection without a goodbye.
pub(super) async fn test(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    if lives(connection).await { Ok(true) } else { Err(silent("test")) }
}

fn silent(name: &str) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, format!("PostgreSQL has not answered: {name}")))
}
