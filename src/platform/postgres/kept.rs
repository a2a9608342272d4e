//! The connection that has just been used for a posting, kept for the next one.

use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

use sqlx::PgConnection;
use sqlx::pool::PoolConnection;

use super::{IDLE_UNTESTED, Postgres};

/// A connection that has just posted, and when.
pub(super) struct Kept {
    connection: PoolConnection<sqlx::Postgres>,
    since: Instant,
}

impl Postgres {
    /// Does it on the connection that last did such a thing: the session behind it has plans, tables and indexes at hand. The pool
    /// gives its connections out by turns, and each session would be the one that has rested longest. One that failed goes back to the
    /// pool, and so does one that has rested: the pool knows how to test and replace what is dead. Never more than one is kept: whoever
    /// else needs a connection must find one while nothing is posted.
    ///
    /// # Errors
    /// No connection could be had, or what was done failed.
    pub async fn with_kept<T, E: From<sqlx::Error>>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut connection = match self.take_kept() {
            Some(connection) => connection,
            None => self.pool.acquire().await?,
        };
        let done = work(&mut connection).await;
        if done.is_ok() {
            *self.kept() = Some(Kept { connection, since: Instant::now() });
        }
        done
    }

    fn take_kept(&self) -> Option<PoolConnection<sqlx::Postgres>> {
        let kept = self.kept().take()?;
        (kept.since.elapsed() < IDLE_UNTESTED).then_some(kept.connection)
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
