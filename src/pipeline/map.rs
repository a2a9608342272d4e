//! Phase 3: the books in force turn events into items: balanced entries, reversals, or reasons. Every culprit is named here, before anything
//! is written.

use std::collections::HashMap;
use std::sync::Arc;

use super::breath::Breath;
use super::read::Event;
use crate::domain::books::{Considered, Mapped};
use crate::domain::disposition::{Failure, Reason};
use crate::domain::event::InboundEvent;
use crate::domain::ids::TenantId;
use crate::domain::retry::RetryPolicy;
use crate::domain::waits_for::WaitsFor;
use crate::journal::books::{BooksShelf, Shelved};
use crate::journal::{Arrival, Item, ItemFacts, PreparedBatch, Step};

/// The lines of one transaction, or those of one entry: two of the largest entries. Hashing and writing them takes tens of milliseconds, for which everybody
/// else waits; a batch of usual events has a tenth of them.
pub(super) const LINES_AT_ONCE_MAX: usize = 20_000;

/// The mapper of events.
pub(super) struct Mapper {
    pub books: BooksShelf,
    /// The retry policy of rules that have none of their own.
    pub policy: RetryPolicy,
}

impl Mapper {
    /// Shares the tenants of a batch out among the posters, and maps their events. Mostly there is one poster, and one share.
    pub async fn map<'e>(&self, events: &[&'e Event<'e>], posters: usize) -> Vec<Share<'e>> {
        let mut shares: Vec<Share<'e>> = (0..posters).map(|_| Share::default()).collect();
        let items = self.items(events).await;
        for (place, (event, item)) in events.iter().zip(items).enumerate() {
            if let Some(share) = shares.get_mut(share_of(event, posters)) {
                share.places.push(place);
                share.events.push(event);
                share.items.get_or_insert_default().push(item);
            }
        }
        shares.retain(|share| !share.events.is_empty());
        shares
    }

    /// The items of some events, by the books of this moment.
    pub async fn items<'e>(&self, events: &[&'e Event<'e>]) -> Vec<Item<'e>> {
        let books = self.books.view();
        let (mut items, mut breath) = (Vec::with_capacity(events.len()), Breath::default());
        for event in events {
            let (item, steps) = self.item(event, &books);
            items.push(item);
            breath.after(steps).await;
        }
        items
    }

    /// The item of an event: what the books make of it. And the steps that this took.
    pub fn item<'e>(&self, event: &'e Event<'_>, books: &HashMap<TenantId, Shelved>) -> (Item<'e>, usize) {
        let inbound = match &event.read {
            Ok(inbound) => inbound,
            Err(undecodable) => return (unreadable(event, undecodable.failure.clone(), books), 0),
        };
        let tenant = &inbound.tenant_id;
        let books = match books.get(tenant) {
            Some(Shelved::Read(books)) => books,
            Some(Shelved::Unreadable { version, why }) => {
                let detail = format!("version {version} of the books of {tenant} cannot be read: {why}");
                let failure = Failure::new(Reason::BooksUnreadable, detail).until(WaitsFor::Books);
                let mut facts = event.message.facts(inbound, Some(*version), self.policy.without_end());
                // However often its publisher wants it tried: it was not tried at all.
                facts.max_attempts = None;
                return (without_books(event, inbound, facts, failure), 0);
            }
            None => {
                let failure = Failure::new(Reason::UnknownTenant, format!("tenant `{tenant}` has no books"));
                let facts = event.message.facts(inbound, None, self.policy.clone());
                return (without_books(event, inbound, facts, failure), 0);
            }
        };
        let Considered { outcome, event_date, retry, steps } = books.consider(inbound, event.message.received_at);
        let (step, event_date) = match outcome {
            Ok(Mapped::Entry { entry, rule }) => (Step::Post { entry, rule }, None),
            Ok(Mapped::Reversal(request)) => (Step::Reverse { request, books: Arc::clone(books) }, Some(event_date)),
            Ok(Mapped::Ignored { rule }) => (Step::Ignore { rule }, None),
            Err(failure) => (Step::Fail(failure), Some(event_date)),
        };
        let policy = retry.unwrap_or(&self.policy).clone();
        let facts = event.message.facts(inbound, Some(books.version), policy);
        let item = item_of(event, Some(facts), step, event.message.arrival(Some(books), event_date));
        (item, usize::try_from(steps).unwrap_or(usize::MAX))
    }
}

fn item_of<'e>(event: &'e Event<'_>, facts: Option<ItemFacts>, step: Step, arrival: Arrival) -> Item<'e> {
    let (member, came) = (event.message.member(), event.message.came.clone());
    Item { facts, step, member, arrival, came, source: &event.message }
}

/// The item of an event for which no rule could be asked.
fn without_books<'e>(event: &'e Event<'_>, inbound: &InboundEvent<'_>, facts: ItemFacts, failure: Failure) -> Item<'e> {
    let day = inbound.occurred_at.unwrap_or(event.message.received_at).date_naive();
    item_of(event, Some(facts), Step::Fail(failure), event.message.arrival(None, Some(day)))
}

/// The item of an event that could not be read, or that PostgreSQL refuses.
pub(super) fn unreadable<'e>(event: &'e Event<'_>, failure: Failure, books: &HashMap<TenantId, Shelved>) -> Item<'e> {
    let books = event.message.tenant_id().and_then(|tenant| books.get(tenant)).and_then(Shelved::books);
    let received_at = event.message.received_at;
    // What was read has a day of its own, by its rule where there are books.
    let event_date = event.read.as_ref().ok().map(|inbound| match books {
        Some(books) => books.consider(inbound, received_at).event_date,
        None => inbound.occurred_at.unwrap_or(received_at).date_naive(),
    });
    let arrival = event.message.arrival(books.map(AsRef::as_ref), event_date);
    item_of(event, None, Step::Fail(failure), arrival)
}

/// The poster that takes an event: one tenant, one poster.
fn share_of(event: &Event<'_>, posters: usize) -> usize {
    let tenant = event.read.as_ref().map_or("", |event| event.tenant_id.as_str());
    let sum = tenant.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    sum % posters
}

/// The lines that the entries of these items have together.
pub(super) fn lines_of(items: &[Item<'_>]) -> usize {
    let lines = items.iter().map(|item| match &item.step {
        Step::Post { entry, .. } => entry.lines().len(),
        Step::Reverse { .. } | Step::Ignore { .. } | Step::Fail(_) => 0,
    });
    lines.sum()
}

/// The share of a batch that one poster takes: events, where in the batch they stand, and what the books make of them.
#[derive(Default)]
pub(super) struct Share<'e> {
    pub places: Vec<usize>,
    pub events: Vec<&'e Event<'e>>,
    /// Gone where they were prepared: what must be mapped again may have come under other books.
    pub items: Option<Vec<Item<'e>>>,
    pub prepared: Option<Box<PreparedBatch>>,
}
