//! A batch decided ahead of its turn: against the heads as the batch before it will leave them, and as if the ledger knew none
//! of its events. Whether the first is so the heads tell when they are locked, and where it is not, the entries are put behind them:
//! only their places and hashes change. Of the second, the unique index is the judge. What is held and which letters are open, the
//! writing statement tells; whether letters and held events are as they were read, their rows.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::decide::decide;
use super::item::{Came, Item, Step, mapped_versions};
use super::letters;
use super::plan::{LedgerView, Plan};
use super::verdict::Verdict;
use crate::domain::chain::ChainHead;
use crate::domain::ids::TenantId;
use crate::domain::receipt::Receipt;
use crate::platform::time;
use crate::store::heads::LockedHead;
use crate::store::held::{Holds, KnownHold};
use crate::store::journal::write::Write;
use crate::store::received::Totals;

/// The ends of tenants' chains.
pub type Heads = BTreeMap<TenantId, ChainHead>;

/// The decisions about a batch, and their time.
pub(super) struct Decided {
    pub verdicts: Vec<Verdict>,
    pub plan: Plan,
    /// The totals that the batch's entries count for, taken out of the plan.
    pub posted: Totals,
    pub now: DateTime<Utc>,
}

pub struct PreparedBatch {
    pub(super) before: BTreeMap<TenantId, LockedHead>,
    pub(super) after: Heads,
    pub(super) write: Write,
    pub(super) decided: Decided,
    /// The place from which each event came.
    pub(super) came: Vec<Came>,
}

impl PreparedBatch {
    /// The ends that the chains will have.
    #[must_use]
    pub fn heads(&self) -> &Heads {
        &self.after
    }

    /// Moves the batch behind the heads as they are. `None`: the books changed, or a tenant is gone.
    pub(super) fn behind(self, heads: BTreeMap<TenantId, LockedHead>) -> Option<Self> {
        let version = |heads: &BTreeMap<TenantId, LockedHead>, tenant| heads.get(tenant).map(|head| head.books_version);
        if self.before.keys().any(|tenant| version(&heads, tenant) != version(&self.before, tenant)) {
            return None;
        }
        let Self { mut decided, came, .. } = self;
        let mut after = chains(&heads);
        decided.now = time::now();
        // Each of its events is posted, in this order.
        for (entry, verdict) in decided.plan.entries.iter_mut().zip(&mut decided.verdicts) {
            entry.put_behind(after.get_mut(&entry.origin.tenant_id)?, decided.now);
            *verdict = Verdict::Posted(Receipt::of(entry));
        }
        let write = decided.plan.write(&after, &decided.posted).ok()?;
        Some(Self { before: heads, after, write, decided, came })
    }
}

fn chains(heads: &BTreeMap<TenantId, LockedHead>) -> Heads {
    heads.iter().map(|(tenant, head)| (tenant.clone(), head.chain.clone())).collect()
}

/// Prepares a batch behind the heads that `expected` knows. `None`: it is not plainly new, or a head is not known. The items are
/// gone where they had to be decided to find that out.
pub fn prepare(
    items: &mut Option<Vec<Item<'_>>>,
    expected: impl Fn(&TenantId) -> Option<ChainHead>,
) -> Option<PreparedBatch> {
    let wanted = items.as_deref()?;
    if !wanted.iter().all(is_plain) {
        return None;
    }
    let mut before = BTreeMap::new();
    for (tenant, version) in mapped_versions(wanted) {
        let chain = expected(&tenant)?;
        before.insert(tenant, LockedHead { chain, books_version: version? });
    }
    let items = items.take()?;
    let came: Vec<Came> = items.iter().map(|item| item.came.clone()).collect();
    let letters = came.iter().map(letters::as_read).collect();
    let mut known = LedgerView { heads: chains(&before), letters, held: held_as_read(&came), ..LedgerView::default() };
    let now = time::now();
    let (verdicts, mut plan) = decide(items, &mut known, now, &mut || 0);
    let posted = plan.counts.take_posted();
    // Each of its events is posted, under an id of its own. What else is counted was held, and is so no more.
    if plan.entries.len() != verdicts.len() {
        return None;
    }
    let write = plan.write(&known.heads, &posted).ok()?;
    let decided = Decided { verdicts, plan, posted, now };
    Some(PreparedBatch { before, after: known.heads, write, decided, came })
}

/// Nothing to look up: an event that is to be posted and is no member of a batch, for which no letter waits with what is held.
fn is_plain(item: &Item<'_>) -> bool {
    item.facts.is_some()
        && matches!(item.step, Step::Post { .. })
        && item.member.is_none()
        && !matches!(item.came, Came::FromHeld { letter: Some(_), .. })
}

/// The held events of a batch as the inbox has read them.
fn held_as_read(came: &[Came]) -> Holds {
    let mut held = Holds::default();
    for came in came {
        if let Came::FromHeld { row: (key, payload_hash), due_at, counted, .. } = came {
            let (payload_hash, due_at, counted) = (payload_hash.clone(), *due_at, *counted);
            // How often it was held before says nothing about an event that is posted.
            held.put(key.clone(), KnownHold { payload_hash, attempts: 0, due_at, counted, letter_id: None });
        }
    }
    held
}
