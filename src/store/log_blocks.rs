//! `fis_log_block`: the operators' log in blocks, each with a hash over its rows and the block before. Blocks and the rows behind them leave; a new block
//! enters, once under its number. Which rows can make a block is told here; the block itself is made by the caller.

use futures::StreamExt;
use futures::stream::BoxStream;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, PgExecutor, Row};

use crate::domain::log_chain::{BlockHead, LogBlock, LogRow};

/// The newest block; that before the first, where there is none.
///
/// # Errors
/// The database is away.
pub async fn newest(db: impl PgExecutor<'_>) -> Result<BlockHead, sqlx::Error> {
    let newest = sqlx::query("select no, last_id, hash from fis_log_block order by no desc limit 1");
    let head = |row: PgRow| {
        Ok(BlockHead { no: row.try_get("no")?, last_id: row.try_get("last_id")?, hash: row.try_get("hash")? })
    };
    newest.fetch_optional(db).await?.map_or_else(|| Ok(BlockHead::genesis()), head)
}

/// The hash of a block, where there is one of this number.
///
/// # Errors
/// The database is away.
pub async fn hash_of(db: impl PgExecutor<'_>, no: i64) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar("select hash from fis_log_block where no = $1").bind(no).fetch_optional(db).await
}

/// The newest id of the log that is committed; 0: the log is empty.
///
/// # Errors
/// The database is away.
pub async fn newest_row(db: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select coalesce((select id from fis_operator_log order by id desc limit 1), 0)")
        .fetch_one(db)
        .await
}

/// The transactions that may have drawn ids of the log and are still under way. An insert takes PostgreSQL's lock on the table before it draws an id, and
/// a transaction gives its locks up after its rows are visible: whoever is not among these has ended, for every snapshot from now on.
///
/// # Errors
/// The database is away.
pub async fn writers(db: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select virtualtransaction
           from pg_locks
          where locktype = 'relation' and relation = 'fis_operator_log'::regclass and mode = 'RowExclusiveLock' and granted
            and database = (select oid from pg_database where datname = current_database())",
    )
    .fetch_all(db)
    .await
}

/// The rows from an id up to another one, and at most so many, in id order, one at a time.
pub fn rows(db: &mut PgConnection, from: i64, up_to: i64, most: i64) -> BoxStream<'_, Result<LogRow, sqlx::Error>> {
    let rows = sqlx::query(
        "select id, at, by, login, act, why, through, letter_id, replay_id, from_status, to_status, reason, detail,
                resolved_as, entry_id, content
           from fis_operator_log
          where id >= $1 and id <= $2
          order by id
          limit $3",
    );
    rows.bind(from).bind(up_to).bind(most).fetch(db).map(|row| log_row(&row?)).boxed()
}

fn log_row(row: &PgRow) -> Result<LogRow, sqlx::Error> {
    Ok(LogRow {
        id: row.try_get("id")?,
        at: row.try_get("at")?,
        by: row.try_get("by")?,
        login: row.try_get("login")?,
        act: row.try_get("act")?,
        why: row.try_get("why")?,
        through: row.try_get("through")?,
        letter_id: row.try_get("letter_id")?,
        replay_id: row.try_get("replay_id")?,
        from_status: row.try_get("from_status")?,
        to_status: row.try_get("to_status")?,
        reason: row.try_get("reason")?,
        detail: row.try_get("detail")?,
        resolved_as: row.try_get("resolved_as")?,
        entry_id: row.try_get("entry_id")?,
        content: row.try_get("content")?,
    })
}

/// All blocks, in order, one at a time.
pub fn blocks(db: &mut PgConnection) -> BoxStream<'_, Result<LogBlock, sqlx::Error>> {
    let blocks = "select no, first_id, last_id, rows, previous_hash, hash, sealed_at from fis_log_block order by no";
    let block = |row: Result<PgRow, sqlx::Error>| {
        let row = row?;
        Ok(LogBlock {
            no: row.try_get("no")?,
            first_id: row.try_get("first_id")?,
            last_id: row.try_get("last_id")?,
            rows: row.try_get("rows")?,
            previous_hash: row.try_get("previous_hash")?,
            hash: row.try_get("hash")?,
            sealed_at: row.try_get("sealed_at")?,
        })
    };
    sqlx::query(blocks).fetch(db).map(block).boxed()
}

/// Adds a block. False: somebody else has made the block of this number.
///
/// # Errors
/// The database is away, or the role may not.
pub async fn insert(db: &mut PgConnection, block: &LogBlock) -> Result<bool, sqlx::Error> {
    let insert = sqlx::query(
        "insert into fis_log_block (no, first_id, last_id, rows, previous_hash, hash, sealed_at)
         values ($1, $2, $3, $4, $5, $6, $7)
             on conflict (no) do nothing",
    );
    let done = insert
        .bind(block.no)
        .bind(block.first_id)
        .bind(block.last_id)
        .bind(block.rows)
        .bind(&block.previous_hash)
        .bind(&block.hash)
        .bind(block.sealed_at)
        .execute(db)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Tells whether the role of this session may add a block.
///
/// # Errors
/// The database is away.
pub async fn may_insert(db: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select has_table_privilege('fis_log_block', 'insert')").fetch_one(db).await
}
