//! The posting transaction of a batch that was decided ahead. Where the ledger is not as it was thought to be, nothing is written.

use std::collections::BTreeMap;
use std::time::Instant;

use chrono::{DateTime, Utc};
use sqlx::{Connection, PgConnection};

use super::finish::{Committed, Waited, finish};
use super::item::Came;
use super::letters;
use super::plan::{LedgerView, Plan};
use super::post::commit;
use super::prepare::{Decided, PreparedBatch};
use crate::domain::ids::TenantId;
use crate::store::held::HeldContent;
use crate::store::outbox::PropertiesText;
use crate::store::received::Outcome;
use crate::store::replays::step::{self, ReplayTurn};
use crate::store::{self, heads};

#[derive(Debug, thiserror::Error)]
pub enum PreparedError {
    /// Nothing was written; `post` it.
    #[error("the books, a held event, a letter or the replay changed since the batch was decided")]
    Stale,
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

/// Posts a batch that was decided ahead, if the ledger is as it was thought to be.
///
/// # Errors
/// As `post`, a lost answer to `commit` included; also where an event of the batch is posted already. What `post` makes of the batch
/// is right in any case.
pub async fn post_prepared(
    db: &mut PgConnection,
    draft: PreparedBatch,
    turn: Option<&ReplayTurn>,
    properties: PropertiesText,
) -> Result<Committed, PreparedError> {
    let started = Instant::now();
    let waited = turn.is_some() || draft.came.iter().any(Came::waited);
    let mut transaction = db.begin().await?;
    let written = write_prepared(&mut transaction, draft, turn, properties).await;
    commit(transaction, written, waited, started).await
}

/// Posts a step of a replay that was decided ahead. Its letters are resolved first, while the batch before it is posted; then `right`, the
/// right to post, is waited for, and given back with the result. That turns the order of locks around: letters before heads. So nobody
/// may wait for long here: `right` has a limit, locks have one (`step::wait_briefly`), and whatever is not at hand by then is posted in the usual order.
///
/// # Errors
/// Those of `post_prepared`; also where the heads are not as they were expected, for the letters name their entries already.
pub async fn post_step_ahead<R>(
    db: &mut PgConnection,
    draft: PreparedBatch,
    turn: &ReplayTurn,
    properties: PropertiesText,
    right: impl Future<Output = Option<R>>,
) -> Result<Committed, PreparedError> {
    let started = Instant::now();
    let mut transaction = db.begin().await?;
    let mut held = None;
    let written = write_step_ahead(&mut transaction, draft, turn, properties, right, &mut held).await;
    // The right is given back behind the commit.
    let committed = commit(transaction, written, true, started).await;
    drop(held);
    committed
}

async fn write_step_ahead<R>(
    db: &mut PgConnection,
    mut draft: PreparedBatch,
    turn: &ReplayTurn,
    properties: PropertiesText,
    right: impl Future<Output = Option<R>>,
    held: &mut Option<R>,
) -> Result<Committed, PreparedError> {
    step::wait_briefly(&mut *db).await?;
    resolve_letters(&mut *db, &mut draft, turn).await?;
    *held = Some(right.await.ok_or(PreparedError::Stale)?);
    let heads = lock_heads(&mut *db, &draft).await?;
    if heads != draft.before || !step::take_turn(&mut *db, turn).await? {
        return Err(PreparedError::Stale);
    }
    write_entries(db, draft, Some(turn), properties).await
}

/// The statements of the phase table for a batch that was decided ahead, without begin and commit.
async fn write_prepared(
    db: &mut PgConnection,
    draft: PreparedBatch,
    turn: Option<&ReplayTurn>,
    properties: PropertiesText,
) -> Result<Committed, PreparedError> {
    let heads = lock_heads(&mut *db, &draft).await?;
    let moved = heads != draft.before;
    let mut draft = if moved { draft.behind(heads).ok_or(PreparedError::Stale)? } else { draft };
    if let Some(turn) = turn {
        if !step::take_turn(&mut *db, turn).await? {
            return Err(PreparedError::Stale);
        }
        resolve_letters(&mut *db, &mut draft, turn).await?;
    }
    let committed = write_entries(db, draft, turn, properties).await?;
    Ok(Committed { moved, ..committed })
}

async fn lock_heads(
    db: &mut PgConnection,
    draft: &PreparedBatch,
) -> Result<BTreeMap<TenantId, heads::LockedHead>, sqlx::Error> {
    let tenants: Vec<&str> = draft.before.keys().map(TenantId::as_str).collect();
    heads::lock_heads(db, &tenants).await
}

/// Resolves the letters of a step, signed by its operator.
async fn resolve_letters(
    db: &mut PgConnection,
    draft: &mut PreparedBatch,
    turn: &ReplayTurn,
) -> Result<(), PreparedError> {
    step::sign(&mut *db, turn).await?;
    let Decided { verdicts, plan, now, .. } = &mut draft.decided;
    let counts = &mut plan.counts;
    match letters::resolve_as_read(db, &draft.came, verdicts, counts, turn.replay_id, *now).await? {
        true => Ok(()),
        false => Err(PreparedError::Stale),
    }
}

/// Removes what was held, writes the entries, and ends as every posting does. The heads are locked, and letters are resolved.
async fn write_entries(
    db: &mut PgConnection,
    draft: PreparedBatch,
    turn: Option<&ReplayTurn>,
    properties: PropertiesText,
) -> Result<Committed, PreparedError> {
    let PreparedBatch { after, write, mut decided, came, .. } = draft;
    if !remove_held_as_read(&mut *db, &came, &mut decided.plan).await? {
        return Err(PreparedError::Stale);
    }
    // Behind what waited: what this batch ends is not open or held any more, so that it seldom finds any of it.
    let seen = write.run(&mut *db).await?;
    let mut known = LedgerView { heads: after, any_held: seen.held, ..LedgerView::default() };
    if seen.held {
        // The publisher has sent again what is held, or other content. `decide` counts that where it knows.
        let Plan { entries, counts, released, .. } = &mut decided.plan;
        let origins = || entries.iter().map(|entry| &entry.origin);
        known.held = store::held::find(&mut *db, origins().map(|origin| (&origin.tenant_id, &origin.event_id))).await?;
        for origin in origins() {
            let key = (origin.tenant_id.clone(), origin.event_id.clone());
            if let Some(waiting) = known.held.take(&key, &origin.payload_hash) {
                counts.held_to(&origin.tenant_id, Some(waiting.counted), Outcome::Duplicate);
                released.push((key, origin.payload_hash.clone()));
            }
        }
    }
    let waited = Waited { turn, ..Waited::default() };
    Ok(finish(db, decided, known, waited, Some(seen), properties).await?)
}

/// Removes the held events of the batch. False: one of them is not as the inbox has read it, and nothing may be committed.
async fn remove_held_as_read(db: &mut PgConnection, came: &[Came], plan: &mut Plan) -> Result<bool, sqlx::Error> {
    let rows = came.iter().filter_map(|came| match came {
        Came::FromHeld { row, due_at, .. } => Some((row, *due_at)),
        Came::FromBroker | Came::FromLetter { .. } => None,
    });
    let rows: Vec<(&HeldContent, DateTime<Utc>)> = rows.collect();
    if rows.is_empty() {
        return Ok(true);
    }
    plan.released.clear();
    store::plan_anew(&mut *db).await?;
    Ok(store::held::remove_as_read(db, &rows).await? == rows.len())
}
