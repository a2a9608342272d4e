//! The posting transaction. Mapped items enter, verdicts leave, and everything the verdicts say is committed. There is no
//! timeout and no `select!` in this file: the server's own limits end what takes too long, and `Postgres::run` gives up a silent server
//! together with the connection to it.

use std::collections::BTreeSet;
use std::time::Instant;

use sqlx::{Connection, PgConnection, PgPool, Postgres, Transaction};

use super::decide::{decide, reversed_events};
use super::finish::{Committed, Waited, finish};
use super::item::{Came, Item, mapped_versions};
use super::letters;
use super::plan::LedgerView;
use super::prepare::Decided;
use super::verdict::Verdict;
use crate::domain::chain::ChainedEntry;
use crate::domain::ids::TenantId;
use crate::faults::crash_points::{self, crash_point};
use crate::faults::mutants::{self, mutant};
use crate::platform::{metrics, time};
use crate::store::held::{HeldContent, Holds, LetterCopy};
use crate::store::journal::known::{find_originals, find_posted};
use crate::store::outbox::PropertiesText;
use crate::store::replays::step::{self, ReplayTurn};
use crate::store::{self, batches, heads};

#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// A tenant's books changed between mapping and posting. Nothing was written; map again.
    #[error("the books changed while the batch was being mapped")]
    StaleBooks,
    /// The replay is paused or stopped, or somebody else has gone on with it. Nothing was written.
    #[error("the step of the replay was overtaken")]
    Overtaken,
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

/// Posts a batch: all of it or none of it. A step of a replay also moves the replay on.
///
/// # Errors
/// Nothing is committed; except that after a lost answer to `commit` it may be, which the next try finds out.
pub async fn post(
    db: &mut PgConnection,
    items: Vec<Item<'_>>,
    turn: Option<&ReplayTurn>,
    properties: PropertiesText,
) -> Result<Committed, PostError> {
    let started = Instant::now();
    let waited = turn.is_some() || items.iter().any(|item| item.came.waited());
    let mut transaction = db.begin().await?;
    let written = write(&mut transaction, items, turn, properties).await;
    commit(transaction, written, waited, started).await
}

pub(super) async fn commit<E: From<sqlx::Error>>(
    transaction: Transaction<'_, Postgres>,
    written: Result<Committed, E>,
    waited: bool,
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
    if waited {
        crash_point(crash_points::BEFORE_INBOX_COMMIT);
    }
    crash_point(crash_points::BEFORE_COMMIT);
    transaction.commit().await?;
    crash_point(crash_points::AFTER_COMMIT);
    if waited {
        crash_point(crash_points::AFTER_INBOX_COMMIT);
    }
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
    let committed = write(&mut transaction, items, None, properties).await?;
    transaction.rollback().await?;
    Ok(Rehearsal { verdicts: committed.verdicts, entries: committed.entries })
}

/// The statements of the phase table, without begin and commit. An error leaves a transaction to be dropped.
async fn write(
    db: &mut PgConnection,
    mut items: Vec<Item<'_>>,
    turn: Option<&ReplayTurn>,
    properties: PropertiesText,
) -> Result<Committed, PostError> {
    let mut known = read(db, &mut items).await?;
    let now = time::now();
    if let Some(turn) = turn {
        step::sign(&mut *db, turn).await?;
        if !step::take_turn(&mut *db, turn).await? {
            return Err(PostError::Overtaken);
        }
    }
    let letters = letters::lock(&mut *db, items.iter().map(|item| &item.came)).await?;
    if !letters.is_empty() {
        store::plan_anew(&mut *db).await?;
    }
    // What waited and was decided by somebody else meanwhile is left out.
    let is_there =
        |item: &Item<'_>| is_held_as_read(&item.came, &known.held) && letters::is_parked(&item.came, &letters);
    let present: Vec<bool> = items.iter().map(is_there).collect();
    let mut places = present.iter();
    items.retain(|_| places.next() == Some(&true));
    known.letters = items.iter().map(|item| letters::own(item, &letters)).collect();
    let copies: Vec<Option<LetterCopy>> = items.iter().map(|item| item.came.letter().cloned()).collect();
    let (verdicts, mut plan) = decide(items, &mut known, now, &mut || fastrand::u64(0..=1000));
    let posted = plan.counts.take_posted();
    let seen = match plan.entries.is_empty() {
        false => Some(plan.write(&known.heads, &posted)?.run(&mut *db).await?),
        true => None,
    };
    let waited = Waited { copies, letters, turn };
    let mut committed = finish(db, Decided { verdicts, plan, posted, now }, known, waited, seen, properties).await?;
    let mut verdicts = committed.verdicts.into_iter();
    let verdict = |there: bool| if there { verdicts.next().unwrap_or(Verdict::Gone) } else { Verdict::Gone };
    committed.verdicts = present.into_iter().map(verdict).collect();
    Ok(committed)
}

/// Tells whether an event that was held is still held as it was when the inbox read it.
fn is_held_as_read(came: &Came, held: &Holds) -> bool {
    match came {
        Came::FromHeld { row, due_at, .. } => {
            held.copy(&row.0, &row.1).is_some_and(|held| held.due_at == *due_at) || mutant(mutants::INBOX_REMOVED_EARLY)
        }
        Came::FromBroker | Came::FromLetter { .. } => true,
    }
}

/// Locks the heads, then reads what the ledger knows of the batch.
async fn read(db: &mut PgConnection, items: &mut [Item<'_>]) -> Result<LedgerView, PostError> {
    let mut known = LedgerView::default();
    let versions = mapped_versions(items);
    let members = items.iter().filter_map(|item| item.member.as_ref()).map(|member| &member.tenant_id);
    // Also where the message names another tenant by now: the row goes under its own tenant's lock.
    let rows = items.iter().filter_map(|item| held_row(&item.came)).map(|row| &row.0.0);
    let tenants: BTreeSet<TenantId> = versions.keys().chain(members).chain(rows).cloned().collect();
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
    // Also where no message can be read any more, and nothing was looked up.
    known.any_held |= items.iter().any(|item| held_row(&item.came).is_some());
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
        let rows = items.iter().filter_map(|item| held_row(&item.came)).map(|row| (&row.0.0, &row.0.1));
        let wanted = facts.map(|facts| (&facts.tenant_id, &facts.event_id)).chain(rows);
        known.held = store::held::find(&mut *db, wanted).await?;
    }
    Ok(known)
}

/// The row in which an event was held.
fn held_row(came: &Came) -> Option<&HeldContent> {
    match came {
        Came::FromHeld { row, .. } => Some(row),
        Came::FromBroker | Came::FromLetter { .. } => None,
    }
}
