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
    /// pool, and so do all of them after a rest: the pool knows how to test and replace what is dead.
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
            self.kept().push(Kept { connection, since: Instant::now() });
        }
        done
    }

    fn take_kept(&self) -> Option<PoolConnection<sqlx::Postgres>> {
        let mut kept = self.kept();
        match kept.pop() {
            Some(last) if last.since.elapsed() < IDLE_UNTESTED => Some(last.connection),
            // The others rested longer still.
            _ => {
                kept.clear();
                None
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
