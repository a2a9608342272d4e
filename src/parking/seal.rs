//! The sealing of the operators' log. Rows that nobody can add to any more become the next block, with a hash over them and the block before; whoever
//! comes first makes it. A writer of the log never waits for a block, and no block leaves a row out: an id is drawn before its row is committed, so
//! the rows up to the newest one are taken only when every transaction that may have drawn an id before it has ended.

use std::time::Duration;

use futures::StreamExt;
use sqlx::PgConnection;
use tokio::time::Instant;

use crate::domain::log_chain::OpenBlock;
use crate::platform::time;
use crate::store::log_blocks;

/// The rows of a block at most: a step takes a fraction of a second, and a verifier holds one row at a time.
const BLOCK_ROWS_MAX: i64 = 10_000;
/// The pause before the transactions under way are looked at again; most of them take some milliseconds.
const LOOK: Duration = Duration::from_millis(5);

/// The end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealed {
    /// Every row that was committed when the step began is in a block.
    All,
    /// A block was made, by this step or by somebody else, and there is more.
    More,
    /// A transaction that writes to the log has not ended in time; nothing was sealed.
    Busy,
}

/// Makes the next block, if the log has rows behind the newest one. Waits for transactions under way no longer than `patience`.
///
/// # Errors
/// The database is away, or the role may not.
pub async fn step(db: &mut PgConnection, patience: Duration) -> Result<Sealed, sqlx::Error> {
    let up_to = log_blocks::newest_row(&mut *db).await?;
    let before = log_blocks::newest(&mut *db).await?;
    if up_to <= before.last_id {
        return Ok(Sealed::All);
    }
    if !all_ended(&mut *db, patience).await? {
        return Ok(Sealed::Busy);
    }
    let mut open = OpenBlock::behind(&before, time::now());
    {
        let mut rows = log_blocks::rows(&mut *db, before.last_id + 1, up_to, BLOCK_ROWS_MAX);
        while let Some(row) = rows.next().await.transpose()? {
            open.add(&row);
        }
    }
    let Some(block) = open.sealed() else { return Ok(Sealed::All) };
    let is_ours = log_blocks::insert(db, &block).await?;
    Ok(if is_ours && block.last_id >= up_to { Sealed::All } else { Sealed::More })
}

/// Waits until every transaction has ended that may have written to the log until now. Those that begin later draw greater ids.
async fn all_ended(db: &mut PgConnection, patience: Duration) -> Result<bool, sqlx::Error> {
    let before = log_blocks::writers(&mut *db).await?;
    let deadline = Instant::now() + patience;
    let mut now = before.clone();
    while now.iter().any(|writer| before.contains(writer)) {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(LOOK).await;
        now = log_blocks::writers(&mut *db).await?;
    }
    Ok(true)
}
