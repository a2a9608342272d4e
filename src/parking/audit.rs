//! The audit of letters and of the operators' log: every block's hash computed anew, every letter compared with what the log says of it. Everything is seen
//! at one moment, and memory holds a row at a time; what does not hold is named, up to a number of each kind.

use futures::StreamExt;
use futures::stream::BoxStream;
use sqlx::{PgConnection, PgPool};

use crate::domain::log_chain::{BlockHead, LogBlock, LogRow, OpenBlock};
use crate::store::letter_audit::{self, LetterBesideLog};
use crate::store::{audit as snapshots, log_blocks};

/// The faults of each kind that are told: enough to see what happened, and no more than a person reads.
const FAULTS_MAX: usize = 100;

/// The findings about the log and the letters.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogAudit {
    pub blocks: i64,
    /// The rows in blocks.
    pub rows: i64,
    /// Rows behind the last block: nothing but the letters themselves proves them yet.
    pub unsealed: i64,
    pub letters: i64,
    pub faults: Vec<String>,
}

/// Audits the log and the letters.
///
/// # Errors
/// The database is away.
pub async fn verify(pool: &PgPool) -> Result<LogAudit, sqlx::Error> {
    let (mut blocks, mut rows) = (pool.acquire().await?, pool.acquire().await?);
    // One view of everything: a letter that moves meanwhile would not be as its log says.
    let snapshot = snapshots::begin(&mut blocks, None).await?;
    snapshots::begin(&mut rows, Some(&snapshot)).await?;
    let mut found = LogAudit::default();
    let all = log_blocks::rows(&mut rows, i64::MIN, i64::MAX, i64::MAX);
    chain(log_blocks::blocks(&mut blocks), all, &mut found).await?;
    letters(&mut rows, &mut found).await?;
    for mut db in [blocks, rows] {
        snapshots::end(&mut db).await?;
    }
    Ok(found)
}

/// Along the blocks and the rows side by side. A row with an id that is drawn by nobody, below 1, is in the way of the first block, and found.
async fn chain(
    mut blocks: BoxStream<'_, Result<LogBlock, sqlx::Error>>,
    mut rows: BoxStream<'_, Result<LogRow, sqlx::Error>>,
    found: &mut LogAudit,
) -> Result<(), sqlx::Error> {
    let mut before = BlockHead::genesis();
    let mut next = rows.next().await.transpose()?;
    let mut faults = Vec::new();
    while let Some(block) = blocks.next().await.transpose()? {
        let mut made = OpenBlock::behind(&before, block.sealed_at);
        while let Some(row) = next.take_if(|row| row.id <= block.last_id) {
            made.add(&row);
            next = rows.next().await.transpose()?;
        }
        if faults.len() < FAULTS_MAX {
            faults.extend(block_fault(&before, &block, made));
        }
        found.blocks += 1;
        found.rows += block.rows;
        before = block.head();
    }
    found.faults.append(&mut faults);
    while next.is_some() {
        found.unsealed += 1;
        next = rows.next().await.transpose()?;
    }
    Ok(())
}

/// The block as it is made anew from the rows, behind the block before it, must be the one that is stored.
fn block_fault(before: &BlockHead, stored: &LogBlock, made: OpenBlock) -> Option<String> {
    let LogBlock { no, first_id, last_id, .. } = stored;
    if *no != before.no + 1 {
        return Some(format!("block {} of the operators' log is missing", before.no + 1));
    }
    let which = format!("block {no} of the operators' log, rows {first_id} to {last_id}");
    let Some(made) = made.sealed() else { return Some(format!("{which}: its rows are gone")) };
    if made.rows != stored.rows {
        return Some(format!("{which}: it has {} rows, and {} were sealed", made.rows, stored.rows));
    }
    if stored.previous_hash != before.hash {
        return Some(format!("{which}: its previous hash is not that of the block before"));
    }
    (made != *stored).then(|| format!("{which}: its rows do not have the hash it carries"))
}

async fn letters(db: &mut PgConnection, found: &mut LogAudit) -> Result<(), sqlx::Error> {
    let mut faults = Vec::new();
    {
        let mut letters = letter_audit::letters(&mut *db);
        while let Some(letter) = letters.next().await.transpose()? {
            found.letters += 1;
            if faults.len() < FAULTS_MAX {
                faults.extend(letter_fault(&letter));
            }
        }
    }
    found.faults.append(&mut faults);
    let most = i64::try_from(FAULTS_MAX).unwrap_or(i64::MAX);
    for (letter, status) in letter_audit::missing(&mut *db, most).await? {
        let status = status.unwrap_or_else(|| "nothing".to_owned());
        found.faults.push(format!("dead letter {letter} is gone: the operators' log says {status}"));
    }
    {
        let mut edits = letter_audit::edits(&mut *db);
        while let Some(edit) = edits.next().await.transpose()? {
            let which = || format!("edit {} of dead letter {}", edit.edit_no, edit.letter_id);
            let fault = match &edit.logged_content {
                None => Some(format!("{}: the operators' log does not know it", which())),
                Some(logged) if *logged != edit.content().hash() => {
                    Some(format!("{} is not as the operators' log has it", which()))
                }
                Some(_) => None,
            };
            if faults.len() < FAULTS_MAX {
                faults.extend(fault);
            }
        }
    }
    found.faults.append(&mut faults);
    found.faults.extend(letter_audit::copies_astray(db, most).await?);
    Ok(())
}

/// A letter must be what was parked, and in the state in which the log left it.
fn letter_fault(letter: &LetterBesideLog) -> Option<String> {
    let id = letter.id();
    let (Some(content), Some(status), Some(reason)) =
        (&letter.logged_content, &letter.logged_status, &letter.logged_reason)
    else {
        return Some(format!("dead letter {id}: the operators' log does not know it"));
    };
    if *content != letter.content().hash() {
        return Some(format!("dead letter {id} is not as it was parked"));
    }
    if status != letter.status() {
        return Some(format!("dead letter {id} is {}, and the operators' log says {status}", letter.status()));
    }
    if reason != letter.reason() {
        return Some(format!(
            "dead letter {id} has the reason {}, and the operators' log says {reason}",
            letter.reason()
        ));
    }
    (!letter.is_as_logged)
        .then(|| format!("dead letter {id}: its detail, resolution, entry or replay is not that of the operators' log"))
}
