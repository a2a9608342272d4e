//! The verdicts of a batch, without SQL: what the ledger knows and what the batch wants enter; verdicts and the rows to
//! write leave. Walks the batch in delivery order, so that a batch and its events one by one end alike.

use chrono::{DateTime, NaiveDate, Utc};

use super::item::{Item, ItemFacts, Source, Step};
use super::plan::{HeldRow, LedgerView, Plan, RejectedRow};
use super::received::{OwnLetter, Reception};
use super::tally;
use super::verdict::Verdict;
use crate::domain::books::{Books, ReversalRequest};
use crate::domain::chain::{ChainHead, ChainedEntry, Provenance};
use crate::domain::disposition::{Disposition, Failure, Reason};
use crate::domain::entry::BalancedEntry;
use crate::domain::ids::{EventKey, TenantId};
use crate::domain::receipt::{Original, Posted, Receipt};
use crate::domain::waits_for::WaitsFor;
use crate::store::held::{CountedHold, KnownHold};
use crate::store::received::Outcome;

/// The events that the batch wants to reverse.
pub(super) fn reversed_events(items: &[Item<'_>]) -> Vec<EventKey> {
    let reversed = items.iter().filter_map(|item| match (&item.facts, &item.step) {
        (Some(facts), Step::Reverse { request, .. }) => Some((facts.tenant_id.clone(), request.original.clone())),
        _ => None,
    });
    reversed.collect()
}

/// Walks the batch. `jitter` gives thousandths, so that this stays a function of what enters.
pub fn decide(
    items: Vec<Item<'_>>,
    known: &mut LedgerView,
    now: DateTime<Utc>,
    jitter: &mut dyn FnMut() -> u64,
) -> (Vec<Verdict>, Plan) {
    let mut plan = Plan { reversed: reversed_events(&items).into_iter().collect(), ..Plan::default() };
    let mut verdicts = Vec::with_capacity(items.len());
    for (place, mut item) in items.into_iter().enumerate() {
        let member = item.member.take();
        let letter = known.letters.get(place).copied().flatten();
        let verdict = decide_one(item, letter, known, &mut plan, now, jitter);
        if let Some(member) = member {
            tally::count(member, &verdict, &mut known.tally, &mut plan.tally);
        }
        verdicts.push(verdict);
    }
    (verdicts, plan)
}

fn decide_one(
    item: Item<'_>,
    letter: Option<OwnLetter>,
    known: &mut LedgerView,
    plan: &mut Plan,
    now: DateTime<Utc>,
    jitter: &mut dyn FnMut() -> u64,
) -> Verdict {
    let Item { facts, step, source, arrival, .. } = item;
    let mut reception = Reception { arrival, ours: letter.is_some(), letter, held: None };
    let Some(facts) = facts else {
        let Step::Fail(failure) = step else { unreachable!("an event without an identity was never mapped") };
        return reject(plan, source, failure, reception);
    };
    let key = (facts.tenant_id.clone(), facts.event_id.clone());
    // Its own retry came: however that ends, it is not held as it was.
    if facts.attempts > 0 {
        plan.released.push(key.clone());
        reception.ours = true;
        reception.held = known.held.remove(&key).map(|held| held.counted);
    }
    // The ledger's word goes before anything the books say today: what is posted stays posted.
    if let Some(posted) = known.posted.get(&key) {
        if posted.payload_hash == facts.payload_hash {
            plan.counts.copy(&key.0, &reception);
            let held = reception.held.or_else(|| known.held.remove(&key).map(|held| held.counted));
            plan.counts.held_to(&key.0, held, Outcome::Duplicate);
            plan.released.push(key);
            return Verdict::Duplicate(Some(posted.receipt.clone()));
        }
        let detail = format!("event `{}` is posted as {} with other content", facts.event_id, posted.receipt.entry_id);
        let posted = Some(posted.clone());
        let failure = Failure::new(Reason::IdempotencyConflict, detail);
        plan.rejected.push(RejectedRow { letter: source.dead_letter(failure.clone()), reception });
        return Verdict::Rejected { failure, posted };
    }
    let outcome = match step {
        Step::Ignore => {
            end_waiting_copy(plan, known, &key, &facts.payload_hash);
            plan.counts.ignored(&key.0, &reception);
            return Verdict::Ignored;
        }
        Step::Fail(failure) => Err(failure),
        Step::Post { entry, rule } => Ok((entry, rule, None)),
        Step::Reverse { request, books } => reverse(&facts.tenant_id, request, &books, known),
    };
    match outcome {
        Ok((entry, rule, reverses)) => {
            let day = reception.day();
            plan.counts.no_longer_held(&key.0, &reception);
            if let Some(waiting) = known.held.remove(&key) {
                plan.counts.overtaken(&key.0, &waiting, &facts.payload_hash);
            }
            let receipt = append(facts.origin(rule), entry, reverses, Some(day), known, plan, now);
            if let Some(entry) = plan.entries.last() {
                plan.counts.entry(entry, day);
            }
            Verdict::Posted(receipt)
        }
        Err(failure) => match failure.reason.disposition() {
            Disposition::Reject => {
                end_waiting_copy(plan, known, &key, &facts.payload_hash);
                reject(plan, source, failure, reception)
            }
            Disposition::Hold => hold(plan, known, (facts, reception), source, failure, now, jitter()),
        },
    }
}

pub(super) type Reversal = (BalancedEntry, String, Option<(EventKey, String)>);

pub(super) fn reverse(
    tenant: &TenantId,
    request: ReversalRequest,
    books: &Books,
    known: &LedgerView,
) -> Result<Reversal, Failure> {
    let key = (tenant.clone(), request.original);
    let Some(original) = known.originals.get(&key) else {
        let detail = format!("event `{}`, which this one reverses, is not posted", key.1);
        return Err(Failure::new(Reason::OriginalNotPosted, detail).until(WaitsFor::Event(key.1)));
    };
    if original.reversed {
        let detail = format!("entry {} of event `{}` is reversed already", original.entry_id, key.1);
        return Err(Failure::new(Reason::AlreadyReversed, detail));
    }
    // What can never succeed goes before what may succeed later: a closed account before a closed period.
    for line in &original.lines {
        books.open_account(line.account.as_str())?;
    }
    let (date, own_date) = if books.calendar.is_open(original.accounting_date) {
        (original.accounting_date, None)
    } else {
        let posting_date = books.calendar.posting_date(request.own_date).map_err(|mut failure| {
            if let Some(WaitsFor::Period { original: either, .. }) = &mut failure.waits_for {
                *either = Some(original.accounting_date);
            }
            failure
        })?;
        (posting_date, Some(request.own_date))
    };
    let description = request.description.unwrap_or_else(|| format!("Reversal of {}", original.entry_id));
    let entry = BalancedEntry::reversal(&original.lines, date, own_date, description, books)?;
    let entry_id = original.entry_id.clone();
    Ok((entry, request.rule, Some((key, entry_id))))
}

/// Puts an entry at the end of its tenant's chain and into the plan.
pub(super) fn append(
    origin: Provenance,
    entry: BalancedEntry,
    reverses: Option<(EventKey, String)>,
    received_on: Option<NaiveDate>,
    known: &mut LedgerView,
    plan: &mut Plan,
    now: DateTime<Utc>,
) -> Receipt {
    let key = (origin.tenant_id.clone(), origin.event_id.clone());
    let payload_hash = origin.payload_hash.clone();
    let head = known.heads.entry(key.0.clone()).or_insert_with(ChainHead::genesis);
    plan.moved.insert(key.0.clone());
    let reverses_entry_id = reverses.map(|(original, entry_id)| {
        if let Some(original) = known.originals.get_mut(&original) {
            original.reversed = true;
        }
        entry_id
    });
    let entry = ChainedEntry::append(head, entry, origin, reverses_entry_id, now);
    let receipt = Receipt::of(&entry);
    // A later event of the same batch may be its duplicate or reverse it.
    if plan.reversed.contains(&key) {
        let original = Original {
            entry_id: receipt.entry_id.to_string(),
            accounting_date: entry.accounting_date,
            lines: entry.lines.clone(),
            reversed: false,
        };
        known.originals.insert(key.clone(), original);
    }
    // Posted is posted, also where an earlier copy is held, perhaps in this very batch. Other content under the same id stays a
    // conflict: its publisher was told that it is taken.
    let copies = plan.held.extract_if(.., |held| (&held.facts.tenant_id, &held.facts.event_id) == (&key.0, &key.1));
    let others = copies.filter(|held| held.facts.payload_hash != payload_hash);
    plan.overtaken.extend(others.map(|held| HeldRow { due_at: now, ..held }));
    plan.released.push(key.clone());
    known.posted.insert(key, Posted { payload_hash, receipt: receipt.clone() });
    plan.entries.push(entry);
    plan.received_on.push(received_on);
    receipt
}

fn reject(plan: &mut Plan, source: &dyn Source, failure: Failure, reception: Reception) -> Verdict {
    plan.rejected.push(RejectedRow { letter: source.dead_letter(failure.clone()), reception });
    Verdict::Rejected { failure, posted: None }
}

/// An event that is held came once more, and this is its end: it waits no longer, also where a ledger that was put back remembers
/// it and has forgotten its retry. Other content under its id goes on waiting.
fn end_waiting_copy(plan: &mut Plan, known: &mut LedgerView, key: &EventKey, payload_hash: &str) {
    let is_copy = known.held.get(key).is_some_and(|held| held.payload_hash == payload_hash);
    if !is_copy {
        return;
    }
    let is_of_key = |held: &HeldRow| (&held.facts.tenant_id, &held.facts.event_id) == (&key.0, &key.1);
    plan.held.retain(|held| !is_of_key(held) || held.facts.payload_hash != payload_hash);
    if plan.held.iter().any(is_of_key) {
        return;
    }
    let held = known.held.remove(key).map(|held| held.counted);
    plan.counts.held_to(&key.0, held, Outcome::Duplicate);
    plan.released.push(key.clone());
}

fn hold(
    plan: &mut Plan,
    known: &mut LedgerView,
    (facts, reception): (ItemFacts, Reception),
    source: &dyn Source,
    failure: Failure,
    now: DateTime<Utc>,
    jitter: u64,
) -> Verdict {
    let attempts = facts.attempts.saturating_add(1);
    let Some(delay) = facts.policy.delay(attempts, facts.max_attempts, jitter) else {
        let detail = format!("gave up after {} retries: {failure}", facts.attempts);
        end_waiting_copy(plan, known, &(facts.tenant_id.clone(), facts.event_id.clone()), &facts.payload_hash);
        return reject(plan, source, Failure::new(Reason::AttemptsExhausted, detail), reception);
    };
    // It is not released after all.
    plan.released.retain(|(tenant, event)| (tenant, event) != (&facts.tenant_id, &facts.event_id));
    let key = (facts.tenant_id.clone(), facts.event_id.clone());
    let counted = stand(plan, known.held.get(&key).map(|held| held.counted), &facts.tenant_id, &reception);
    known.held.insert(key, KnownHold { payload_hash: facts.payload_hash.clone(), counted });
    plan.held.push(HeldRow {
        retry: source.retry(attempts),
        counted,
        event_date: reception.arrival.event_date,
        facts,
        failure: failure.clone(),
        attempts,
        due_at: now + delay,
    });
    Verdict::Held(failure)
}

/// Counts an event that is to be held: as what is held of it already, or not at all where its letter stands for it.
fn stand(plan: &mut Plan, other: Option<CountedHold>, tenant: &TenantId, reception: &Reception) -> CountedHold {
    let Reception { arrival, letter, held, .. } = *reception;
    if let Some(counted) = held.or(other) {
        plan.counts.copy(tenant, reception);
        return counted;
    }
    let day = if letter.is_some_and(|letter| letter.open) { None } else { Some(arrival.on) };
    if let Some(day) = day {
        plan.counts.add(tenant, day, Outcome::Held, 1, arrival.money);
    }
    CountedHold { day, money: arrival.money }
}
