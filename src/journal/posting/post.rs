//! The posting transaction. Mapped items enter, verdicts leave, and everything the verdicts say is committed. There is no
//! timeout and no `select!` in this file: the server's own limits end what takes too long, and `Postgres::run` gives up a silent server
//! together with the connection to it.

use std::collections::BTreeSet;
use std::time::Instant;

use sqlx::{Connection, PgConnection, PgPool, Postgres, Transaction};

use super::decide::{decide, reversed_events};
use super::item::{Item, mapped_versions};
use super::plan::{LedgerView, Plan};
use super::prepare::{Decided, Heads, PreparedBatch};
use super::verdict::Verdict;
use super::{letters, rejected, replayed, waiting};
use crate::domain::batch::BatchProgress;
use crate::domain::chain::ChainedEntry;
use crate::domain::ids::TenantId;
use crate::journal::held::free_waiting_for;
use crate::platform::faults::{self, crash_point};
use crate::platform::{metrics, time};
use crate::store::journal::known::{find_originals, find_posted};
use crate::store::journal::write::Seen;
use crate::store::outbox::PropertiesText;
use crate::store::{self, batches, heads, letter_edits};

#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// A tenant's books changed between mapping and posting. Nothing was written; map again.
    #[error("the books changed while the batch was being mapped")]
    StaleBooks,
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

#[derive(Debug, thiserror::Error)]
pub enum PreparedError {
    /// Nothing was written; `post` it.
    #[error("the books changed since the batch was decided")]
    Stale,
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

/// The results that a posting leaves behind.
#[derive(Debug, Default)]
pub struct Committed {
    /// One for each item, in order.
    pub verdicts: Vec<Verdict>,
    pub entries: Vec<ChainedEntry>,
    /// The publishers' batches that the items belong to.
    pub batches: Vec<BatchProgress>,
    /// The position that the write-ahead log had come to; `None` where no chain moved.
    pub position: Option<i64>,
    /// The ends of the chains of the batch's tenants, as they are now.
    pub heads: Heads,
    /// The batch was decided ahead, for other ends of the chains.
    pub moved: bool,
}

/// Posts a batch: all of it or none of it.
///
/// # Errors
/// Nothing is committed; except that after a lost answer to `commit` it may be, which the next try finds out.
pub async fn post(
    db: &mut PgConnection,
    items: Vec<Item<'_>>,
    properties: PropertiesText,
) -> Result<Committed, PostError> {
    let started = Instant::now();
    let mut transaction = db.begin().await?;
    let written = write(&mut transaction, items, properties).await;
    commit(transaction, written, started).await
}

/// Posts a batch that was decided ahead, if the ledger is as it was thought to be.
///
/// # Errors
/// As `post`, a lost answer to `commit` included; also where an event of the batch is posted already. What `post` makes of the batch
/// is right in any case.
pub async fn post_prepared(
    db: &mut PgConnection,
    draft: PreparedBatch,
    properties: PropertiesText,
) -> Result<Committed, PreparedError> {
    let started = Instant::now();
    let mut transaction = db.begin().await?;
    let written = write_prepared(&mut transaction, draft, properties).await;
    commit(transaction, written, started).await
}

async fn commit<E: From<sqlx::Error>>(
    transaction: Transaction<'_, Postgres>,
    written: Result<Committed, E>,
    started: Instant,
) -> Result<Committed, E> {
    let committed = match written {
        Ok(committed) => committed,
        Err(error) => {
            // Also a statement's error: the heads are free again before the batch is tried once more.
            let _ = transaction.rollback().await;
            return Err(error);
        }
    };
    crash_point(faults::BEFORE_COMMIT);
    transaction.commit().await?;
    crash_point(faults::AFTER_COMMIT);
    metrics::posted_in(started.elapsed());
    Ok(committed)
}

/// The outcome that a batch would have.
pub struct Rehearsal {
    pub verdicts: Vec<Verdict>,
    /// The entries that would have been posted.
    pub entries: Vec<ChainedEntry>,
}

/// Everything that `post` does, except the commit: the transaction is rolled back. The tenants' heads are locked meanwhile.
///
/// # Errors
/// As `post`.
pub async fn rehearse(pool: &PgPool, items: Vec<Item<'_>>, properties: PropertiesText) -> Result<Rehearsal, PostError> {
    let mut transaction = pool.begin().await?;
    let committed = write(&mut transaction, items, properties).await?;
    transaction.rollback().await?;
    Ok(Rehearsal { verdicts: committed.verdicts, entries: committed.entries })
}

/// The statements of the phase table, without begin and commit. An error leaves a transaction to be dropped.
async fn write(
    db: &mut PgConnection,
    mut items: Vec<Item<'_>>,
    properties: PropertiesText,
) -> Result<Committed, PostError> {
    let mut known = read(db, &mut items).await?;
    let now = time::now();
    let replays = letters::replayed(&items);
    if replays.iter().any(Option::is_some) {
        store::plan_anew(&mut *db).await?;
    }
    known.letters = replayed::find_letters(&mut *db, &replays).await?;
    let (verdicts, mut plan) = decide(items, &mut known, now, &mut || fastrand::u64(0..=1000));
    let posted = plan.counts.take_posted();
    let seen = match plan.entries.is_empty() {
        false => Some(plan.write(&known.heads, &posted)?.run(&mut *db).await?),
        true => None,
    };
    Ok(finish(db, Decided { verdicts, plan, posted, now }, known, &replays, seen, properties).await?)
}

/// The statements of the phase table for a batch that was decided ahead, without begin and commit.
async fn write_prepared(
    db: &mut PgConnection,
    draft: PreparedBatch,
    properties: PropertiesText,
) -> Result<Committed, PreparedError> {
    let tenants: Vec<&str> = draft.before.keys().map(TenantId::as_str).collect();
    let heads = heads::lock_heads(&mut *db, &tenants).await?;
    let moved = heads != draft.before;
    let draft = if moved { draft.behind(heads).ok_or(PreparedError::Stale)? } else { draft };
    let PreparedBatch { after, write, mut decided, .. } = draft;
    let seen = write.run(&mut *db).await?;
    let known = LedgerView { heads: after, any_held: seen.held, ..LedgerView::default() };
    if seen.held {
        // The publisher has sent again what is held, or other content. `decide` counts that where it knows.
        let Plan { entries, released, counts, .. } = &mut decided.plan;
        let held = store::held::find(&mut *db, released.iter().map(|(tenant, event)| (tenant, event))).await?;
        for origin in entries.iter().map(|entry| &entry.origin) {
            if let Some(waiting) = held.get(&(origin.tenant_id.clone(), origin.event_id.clone())) {
                counts.overtaken(&origin.tenant_id, waiting, &origin.payload_hash);
            }
        }
    }
    let committed = finish(db, decided, known, &[], Some(seen), properties).await?;
    Ok(Committed { moved, ..committed })
}

/// Everything behind the entries: mostly nothing.
async fn finish(
    db: &mut PgConnection,
    decided: Decided,
    known: LedgerView,
    replayed: &[Option<String>],
    seen: Option<Seen>,
    properties: PropertiesText,
) -> Result<Committed, sqlx::Error> {
    let Decided { verdicts, mut plan, now, .. } = decided;
    let is_planned_anew = replayed.iter().any(Option::is_some);
    let finds = known.any_held || !plan.held.is_empty() || !plan.rejected.is_empty();
    if !is_planned_anew && (finds || seen.is_some_and(|seen| seen.letters)) {
        store::plan_anew(&mut *db).await?;
    }
    let places = waiting::insert_retries(&mut *db, &plan.held).await?;
    waiting::insert_retries(&mut *db, &plan.overtaken).await?;
    letter_edits::adopt(&mut *db, plan.rejected.iter_mut().map(|row| &mut row.letter)).await?;
    let letters_before = rejected::forget_told(&mut *db, &mut plan.rejected).await?;
    // Before their announcements: drawing an id gives a transaction no number yet, and without one the relay does not wait
    // for it (`outbox::floor`). Where no head is locked, this does.
    rejected::upsert_dead_letters(&mut *db, &plan.rejected, &letters_before, now, &mut plan.counts).await?;
    waiting::insert_announcements(&mut *db, &plan, now, properties).await?;
    // Mostly nothing is held and no letter is open, for nobody. What is held for these tenants cannot change meanwhile: their
    // heads are locked.
    if known.any_held {
        store::held::remove(&mut *db, &plan.released).await?;
    }
    waiting::upsert_held(&mut *db, &plan.held, &places, now).await?;
    // After `upsert_held`: an event may wait for a later one of the same batch.
    if !plan.entries.is_empty() && (known.any_held || !plan.held.is_empty()) {
        free_waiting_for(&mut *db, &plan.entries).await?;
    }
    letters::settle_replays(&mut *db, &verdicts, replayed, now, &mut plan.counts).await?;
    if seen.is_some_and(|seen| seen.letters) || !plan.rejected.is_empty() {
        letters::supersede(&mut *db, &plan.entries, now, &mut plan.counts).await?;
    }
    let batches = plan.tally.changed(&known.tally);
    batches::write(&mut *db, &batches, &plan.tally.members, now).await?;
    let is_plain = seen.is_some_and(|seen| !seen.letters)
        && !known.any_held
        && plan.counts.totals().is_empty()
        && plan.held.is_empty()
        && plan.overtaken.is_empty()
        && plan.rejected.is_empty()
        && batches.is_empty()
        && replayed.iter().all(Option::is_none);
    plan.counts.totals().write(&mut *db).await?;
    if !is_plain {
        store::is_whole(&mut *db).await?;
    }
    let position = seen.map(|seen| seen.position);
    Ok(Committed { verdicts, entries: plan.entries, batches, position, heads: known.heads, moved: false })
}

/// Locks the heads, then reads what the ledger knows of the batch.
async fn read(db: &mut PgConnection, items: &mut [Item<'_>]) -> Result<LedgerView, PostError> {
    let mut known = LedgerView::default();
    let versions = mapped_versions(items);
    let members = items.iter().filter_map(|item| item.member.as_ref()).map(|member| &member.tenant_id);
    let tenants: BTreeSet<TenantId> = versions.keys().chain(members).cloned().collect();
    let tenants: Vec<&str> = tenants.iter().map(TenantId::as_str).collect();
    let heads = heads::lock_heads(&mut *db, &tenants).await?;
    for (tenant, version) in &versions {
        if heads.get(tenant).map(|head| head.books_version) != *version {
            return Err(PostError::StaleBooks);
        }
    }
    known.heads = heads.into_iter().map(|(tenant, head)| (tenant, head.chain)).collect();
    let facts = items.iter().filter_map(|item| item.facts.as_ref());
    let wanted = facts.map(|facts| (&facts.tenant_id, &facts.event_id));
    (known.posted, known.any_held) = find_posted(&mut *db, wanted).await?;
    let reversed = reversed_events(items);
    if !reversed.is_empty() {
        known.originals = find_originals(&mut *db, &reversed).await?;
    }
    // Without a head there is no lock under which to count.
    for item in &mut *items {
        item.member = item.member.take().filter(|member| known.heads.contains_key(&member.tenant_id));
    }
    let members: Vec<_> = items.iter().filter_map(|item| item.member.as_ref()).collect();
    known.tally = batches::find(&mut *db, &members).await?;
    if known.any_held {
        let facts = items.iter().filter_map(|item| item.facts.as_ref());
        known.held = store::held::find(&mut *db, facts.map(|facts| (&facts.tenant_id, &facts.event_id))).await?;
    }
    Ok(known)
}
