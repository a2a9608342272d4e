//! Selections: what a filter means at one moment, written down letter by letter, so that a replay books that and nothing else. A
//! filter enters, a frozen replay leaves. Nothing runs yet, and no letter is changed.

use std::time::Instant;

use sqlx::{PgConnection, PgPool};

use crate::domain::letter::ReplayState;
use crate::domain::operator::Operator;
use crate::faults::crash_points::{self, crash_point};
use crate::store::StoreError;
use crate::store::dead_letters::Filter;
use crate::store::replays::{self, Border, Replay, ReplayPace};

/// Letters that are written down at once: some ten milliseconds, and a pause behind them, so that a large selection takes the live lane
/// no processor for seconds.
const PART: i64 = 5_000;

/// Freezes what the filter means now, oldest first; `None`: it means nothing, and nothing is stored.
///
/// # Errors
/// The database is away.
pub async fn choose(
    pool: &PgPool,
    filter: &Filter,
    who: &Operator,
    manner: ReplayPace,
) -> Result<Option<Replay>, StoreError> {
    let mut transaction = pool.begin().await?;
    replays::begin_selection(&mut transaction).await?;
    let id = replays::insert(&mut transaction, who, &filter.words(), manner, ReplayState::Chosen).await?;
    let letters = freeze(&mut transaction, filter, id).await?;
    if letters == 0 {
        transaction.rollback().await?;
        return Ok(None);
    }
    replays::set_letters(&mut transaction, id, letters).await?;
    let replay = replays::find(&mut transaction, id).await?;
    transaction.commit().await?;
    crash_point(crash_points::AFTER_CHOOSE);
    // It is not worth a failure.
    let _ = replays::analyze(&mut *pool.acquire().await?).await;
    Ok(Some(replay))
}

/// Freezes part by part, each behind the last letter of the one before; returns how many letters there are.
async fn freeze(db: &mut PgConnection, filter: &Filter, replay: i64) -> Result<i64, sqlx::Error> {
    let (mut border, mut letters) = (Border::default(), 0);
    loop {
        let asked = Instant::now();
        let next = replays::freeze_part(&mut *db, replay, filter, &border, letters, PART).await?;
        let Some(next) = next else { return Ok(letters) };
        letters += next.letters;
        if next.letters < PART {
            return Ok(letters);
        }
        border = next;
        tokio::time::sleep(asked.elapsed() / 4).await;
    }
}
