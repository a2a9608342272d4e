//! The verdicts of a batch, without SQL: what the ledger knows and what the batch wants enter; verdicts and the rows to
//! write leave. Walks the batch in delivery order, so that a batch and its events one by one end alike.

use chrono::{DateTime, NaiveDate, Utc};

use super::item::{Came, Item, ItemFacts, Source, Step};
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
use crate::store::ignored::IgnoredEvent;
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
    let Item { facts, step, source, arrival, came, .. } = item;
    let mut reception = Reception { arrival, waited: came.waited(), letter, held: None };
    let mut attempts = 0;
    // However it ends, it is not held as it was.
    if let Came::FromHeld { row, .. } = &came {
        plan.released.push(row.clone());
        if let Some(held) = known.held.take(&row.0, &row.1) {
            attempts = held.attempts;
            reception.held = Some(held.counted);
        }
    }
    let Some(facts) = facts else {
        let Step::Fail(failure) = step else { unreachable!("an event without an identity was never mapped") };
        return reject(plan, source, &came, failure, reception);
    };
    let key = (facts.tenant_id.clone(), facts.event_id.clone());
    // The ledger's word goes before anything the books say today: what is posted stays posted.
    if let Some(posted) = known.posted.get(&key).cloned() {
        end_waiting_copy(plan, known, &key, &facts.payload_hash);
        if posted.payload_hash == facts.payload_hash {
            plan.counts.copy(&key.0, &reception);
            plan.counts.held_to(&key.0, reception.held, Outcome::Duplicate);
            return Verdict::Duplicate(Some(posted.receipt));
        }
        let detail = format!("event `{}` is posted as {} with other content", facts.event_id, posted.receipt.entry_id);
        let failure = Failure::new(Reason::IdempotencyConflict, detail);
        reject(plan, source, &came, failure.clone(), reception);
        return Verdict::Rejected { failure, posted: Some(posted) };
    }
    let outcome = match step {
        Step::Ignore { rule } => {
            end_waiting_copy(plan, known, &key, &facts.payload_hash);
            return ignore(plan, key, facts.books_version, rule, &reception, now);
        }
        Step::Fail(failure) => Err(failure),
        Step::Post { entry, rule } => Ok((entry, rule, None)),
        Step::Reverse { request, books } => reverse(&facts.tenant_id, request, &books, known),
    };
    match outcome {
        Ok((entry, rule, reverses)) => {
            let day = reception.day();
            plan.counts.no_longer_held(&key.0, &reception);
            end_waiting_copy(plan, known, &key, &facts.payload_hash);
            let receipt = append(facts.origin(rule), entry, reverses, Some(day), known, plan, now);
            if let Some(entry) = plan.entries.last() {
                plan.counts.entry(entry, day);
            }
            Verdict::Posted(receipt)
        }
        Err(failure) => match failure.reason.disposition() {
            Disposition::Reject => {
                end_waiting_copy(plan, known, &key, &facts.payload_hash);
                reject(plan, source, &came, failure, reception)
            }
            Disposition::Hold => {
                let waiting = Waiting { facts, reception, came, attempts };
                hold(plan, known, waiting, source, failure, now, jitter())
            }
        },
    }
}

fn ignore(
    plan: &mut Plan,
    key: EventKey,
    books_version: Option<i32>,
    rule: Option<String>,
    reception: &Reception,
    now: DateTime<Utc>,
) -> Verdict {
    plan.counts.ignored(&key.0, reception);
    let (books_version, received_on) = (books_version.unwrap_or(0), reception.day());
    plan.ignored.insert(key, IgnoredEvent { rule, books_version, received_on, ignored_at: now });
    Verdict::Ignored
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
    let (date, own_date) = if let Some(asked) = request.asked_date {
        (books.calendar.open_date(asked)?, None)
    } else if books.calendar.is_open(original.accounting_date) {
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
    // Posted is posted. Other content under the same id stays a conflict: its publisher was told that it is taken. What the table holds
    // of it becomes due when the batch is written, and what this batch holds is due from the beginning.
    for held in plan.held.iter_mut().filter(|held| is_of(held, &key)) {
        held.due_at = now;
    }
    known.posted.insert(key, Posted { payload_hash, receipt: receipt.clone() });
    plan.entries.push(entry);
    plan.received_on.push(received_on);
    receipt
}

fn reject(plan: &mut Plan, source: &dyn Source, came: &Came, failure: Failure, reception: Reception) -> Verdict {
    let mut letter = source.dead_letter(failure.clone());
    // One event, one letter, also where it came as an edited copy.
    if let Some(own) = came.letter() {
        letter.id.clone_from(&own.letter_id);
    }
    // What was held is known by its row, also where its message cannot be read any more.
    if let Came::FromHeld { row: ((tenant, event), payload_hash), .. } = came {
        letter.identity.tenant_id.get_or_insert_with(|| tenant.clone());
        letter.identity.event_id.get_or_insert_with(|| event.clone());
        letter.payload_hash.get_or_insert_with(|| payload_hash.clone());
        letter.money = letter.money.or(reception.held.and_then(|held| held.money));
    }
    plan.rejected.push(RejectedRow { letter, reception, replayed: came.letter().is_some() });
    Verdict::Rejected { failure, posted: None }
}

fn is_of(held: &HeldRow, key: &EventKey) -> bool {
    (&held.facts.tenant_id, &held.facts.event_id) == (&key.0, &key.1)
}

/// Content that is held came once more, and this is its end: it waits no longer. Other content under its id goes on waiting.
fn end_waiting_copy(plan: &mut Plan, known: &mut LedgerView, key: &EventKey, payload_hash: &str) {
    let Some(held) = known.held.take(key, payload_hash) else { return };
    plan.held.retain(|row| !is_of(row, key) || row.facts.payload_hash != payload_hash);
    plan.counts.held_to(&key.0, Some(held.counted), Outcome::Duplicate);
    plan.released.push((key.clone(), held.payload_hash));
}

/// An event that may succeed later.
struct Waiting {
    facts: ItemFacts,
    reception: Reception,
    came: Came,
    /// The number of times it was held before.
    attempts: u32,
}

fn hold(
    plan: &mut Plan,
    known: &mut LedgerView,
    waiting: Waiting,
    source: &dyn Source,
    failure: Failure,
    now: DateTime<Utc>,
    jitter: u64,
) -> Verdict {
    let Waiting { facts, reception, came, attempts: before } = waiting;
    let key = (facts.tenant_id.clone(), facts.event_id.clone());
    let content = (key.clone(), facts.payload_hash.clone());
    let (attempts, due_at) = match known.held.copy(&key, &facts.payload_hash) {
        // A copy of what waits already says only why.
        Some(copy) => (copy.attempts, copy.due_at),
        None => {
            let attempts = before.saturating_add(1);
            let Some(delay) = facts.policy.delay(attempts, facts.max_attempts, jitter) else {
                let detail = format!("gave up after {before} retries: {failure}");
                return reject(plan, source, &came, Failure::new(Reason::AttemptsExhausted, detail), reception);
            };
            (attempts, now + delay)
        }
    };
    // It is not released after all.
    plan.released.retain(|released| *released != content);
    let is_copy = |row: &mut HeldRow| is_of(row, &key) && row.facts.payload_hash == facts.payload_hash;
    let earlier = plan.held.extract_if(.., is_copy).next();
    let copy = known.held.take(&key, &facts.payload_hash);
    let own = came.letter().map(|letter| letter.letter_id.clone());
    let before = copy.as_ref().and_then(|copy| copy.letter_id.clone());
    // One event waits with one letter: the last that asked for it.
    if own.is_some() && own != before {
        plan.replaced.extend(before.clone());
    }
    let counted = stand(plan, copy.map(|copy| copy.counted), &facts.tenant_id, &reception);
    let (payload_hash, letter_id) = (facts.payload_hash.clone(), own.or(before));
    known.held.put(key, KnownHold { payload_hash, attempts, due_at, counted, letter_id });
    // The message of what waits stays, with its first receipt, also where both came in one batch.
    let (facts, message, event_date, earlier) = match earlier {
        Some(row) => (row.facts, row.message, row.event_date, row.letter),
        None => (facts, source.kept(), reception.arrival.event_date, None),
    };
    plan.held.push(HeldRow {
        message,
        counted,
        event_date,
        letter: came.letter().cloned().or(earlier),
        facts,
        failure: failure.clone(),
        attempts,
        due_at,
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
