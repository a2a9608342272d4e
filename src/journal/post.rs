//! The posting transaction. Mapped items enter, verdicts leave, and everything the verdicts say is committed. There is no
//! timeout and no `select!` in this file: the server's own limits end what takes too long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use sqlx::PgPool;

use super::decide::{Known, Verdict, decide, reversed_events};
use super::item::Item;
use super::statements;
use super::tally::BatchProgress;
use super::waiting::{self, PropertiesText};
use super::{batches, held};
use crate::domain::ids::TenantId;
use crate::platform::faults::{self, crash_point};
use crate::platform::{metrics, time};

#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// A tenant's books changed between mapping and posting. Nothing was written; map again.
    #[error("the books changed while the batch was being mapped")]
    StaleBooks,
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

/// What a posting leaves behind.
#[derive(Debug, Default)]
pub struct Committed {
    /// One for each item, in order.
    pub verdicts: Vec<Verdict>,
    /// The publishers' batches that the items belong to.
    pub batches: Vec<BatchProgress>,
    /// How far the write-ahead log had come; `None` where no chain moved.
    pub position: Option<i64>,
}

/// Posts a batch: all of it or none of it.
///
/// # Errors
/// Nothing is committed; except that after a lost answer to `commit` it may be, which the next try finds out.
pub async fn post(pool: &PgPool, mut items: Vec<Item<'_>>, properties: PropertiesText) -> Result<Committed, PostError> {
    let started = Instant::now();
    let mut transaction = pool.begin().await?;
    let mut known = Known::default();

    let versions = mapped_versions(&items);
    let members = items.iter().filter_map(|item| item.member.as_ref()).map(|member| &member.tenant_id);
    let tenants: BTreeSet<TenantId> = versions.keys().chain(members).cloned().collect();
    let tenants: Vec<&str> = tenants.iter().map(TenantId::as_str).collect();
    let heads = statements::lock_heads(&mut transaction, &tenants).await?;
    for (tenant, version) in &versions {
        if heads.get(tenant).map(|head| head.books_version) != *version {
            transaction.rollback().await?;
            return Err(PostError::StaleBooks);
        }
    }
    known.heads = heads.into_iter().map(|(tenant, head)| (tenant, head.chain)).collect();
    known.posted = statements::find_posted(&mut transaction, &items).await?;
    let reversed = reversed_events(&items);
    if !reversed.is_empty() {
        known.originals = statements::find_originals(&mut transaction, &reversed).await?;
    }
    // Without a head there is no lock under which to count.
    for item in &mut items {
        item.member = item.member.take().filter(|member| known.heads.contains_key(&member.tenant_id));
    }
    known.tally = batches::find_tally(&mut transaction, &items).await?;

    let now = time::now();
    let (verdicts, plan) = decide(items, &mut known, now, &mut || fastrand::u64(0..=1000));
    if !plan.entries.is_empty() {
        statements::insert_entries(&mut transaction, &plan.entries).await?;
        statements::insert_lines(&mut transaction, &plan.entries).await?;
        statements::add_to_balances(&mut transaction, &plan.entries).await?;
        statements::insert_outbox_entries(&mut transaction, &plan.entries).await?;
    }
    let places = waiting::insert_retries(&mut transaction, &plan.held).await?;
    waiting::insert_announcements(&mut transaction, &plan, now, properties).await?;
    let held_before = waiting::release_held(&mut transaction, &plan.released).await?;
    waiting::upsert_held(&mut transaction, &plan.held, &places, now).await?;
    // After `upsert_held`: an event may wait for a later one of the same batch.
    if !plan.entries.is_empty() && (held_before || !plan.held.is_empty()) {
        held::free_waiting_for(&mut transaction, &plan.entries).await?;
    }
    waiting::upsert_dead_letters(&mut transaction, &plan.rejected, now).await?;
    let batches = batches::write_tally(&mut transaction, &known.tally, &plan.tally, now).await?;
    let position = statements::move_heads(&mut transaction, &known.heads, &plan.moved).await?;

    crash_point(faults::BEFORE_COMMIT);
    transaction.commit().await?;
    crash_point(faults::AFTER_COMMIT);
    metrics::posted_in(started.elapsed());
    Ok(Committed { verdicts, batches, position })
}

/// The version of the books that each tenant's items were mapped with; `None` where the tenant had none.
fn mapped_versions(items: &[Item<'_>]) -> BTreeMap<TenantId, Option<i32>> {
    let facts: BTreeSet<_> = items
        .iter()
        .filter_map(|item| item.facts.as_ref())
        .map(|facts| (facts.tenant_id.clone(), facts.books_version))
        .collect();
    facts.into_iter().collect()
}
