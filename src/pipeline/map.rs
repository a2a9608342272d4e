//! Phase 3: the books in force turn events into items: balanced entries, reversals, or reasons. Every culprit is named here, before anything
//! is written.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::NaiveDate;

use super::breath::Breath;
use super::read::Event;
use crate::domain::books::{Books, Considered, Mapped};
use crate::domain::disposition::{Failure, Reason};
use crate::domain::event::InboundEvent;
use crate::domain::ids::TenantId;
use crate::domain::retry::RetryPolicy;
use crate::journal::books::BooksShelf;
use crate::journal::{Item, PreparedBatch, Step};

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
    pub fn item<'e>(&self, event: &'e Event<'_>, books: &HashMap<TenantId, Arc<Books>>) -> (Item<'e>, usize) {
        let inbound = match &event.read {
            Ok(inbound) => inbound,
            Err(undecodable) => return (unreadable(event, undecodable.failure.clone(), books), 0),
        };
        let Some(books) = books.get(&inbound.tenant_id) else {
            let detail = format!("tenant `{}` has no books", inbound.tenant_id);
            let step = Step::Fail(Failure::new(Reason::UnknownTenant, detail));
            let day = inbound.occurred_at.unwrap_or(event.message.received_at).date_naive();
            return (self.item_of(event, inbound, None, step, Some(day), None), 0);
        };
        let Considered { outcome, event_date, retry, steps } = books.consider(inbound, event.message.received_at);
        let (step, event_date) = match outcome {
            Ok(Mapped::Entry { entry, rule }) => (Step::Post { entry, rule }, None),
            Ok(Mapped::Reversal(request)) => (Step::Reverse { request, books: Arc::clone(books) }, Some(event_date)),
            Ok(Mapped::Ignored) => (Step::Ignore, None),
            Err(failure) => (Step::Fail(failure), Some(event_date)),
        };
        let item = self.item_of(event, inbound, Some(books), step, event_date, retry);
        (item, usize::try_from(steps).unwrap_or(usize::MAX))
    }

    fn item_of<'e>(
        &self,
        event: &'e Event<'_>,
        inbound: &InboundEvent<'_>,
        books: Option<&Books>,
        step: Step,
        event_date: Option<NaiveDate>,
        retry: Option<&RetryPolicy>,
    ) -> Item<'e> {
        let policy = retry.unwrap_or(&self.policy).clone();
        Item {
            facts: Some(event.message.facts(inbound, books.map(|books| books.version), policy)),
            step,
            member: event.message.member(),
            arrival: event.message.arrival(books, event_date),
            came: event.message.came.clone(),
            source: &event.message,
        }
    }
}

/// The item of an event that could not be read, or that PostgreSQL refuses.
pub(super) fn unreadable<'e>(
    event: &'e Event<'_>,
    failure: Failure,
    books: &HashMap<TenantId, Arc<Books>>,
) -> Item<'e> {
    let books = event.message.tenant_id().and_then(|tenant| books.get(tenant)).map(AsRef::as_ref);
    let received_at = event.message.received_at;
    // What was read has a day of its own, by its rule where there are books.
    let event_date = event.read.as_ref().ok().map(|inbound| match books {
        Some(books) => books.consider(inbound, received_at).event_date,
        None => inbound.occurred_at.unwrap_or(received_at).date_naive(),
    });
    Item {
        facts: None,
        step: Step::Fail(failure),
        member: event.message.member(),
        arrival: event.message.arrival(books, event_date),
        came: event.message.came.clone(),
        source: &event.message,
    }
}

/// The poster that takes an event: one tenant, one poster.
fn share_of(event: &Event<'_>, posters: usize) -> usize {
    let tenant = event.read.as_ref().map_or("", |event| event.tenant_id.as_str());
    let sum = tenant.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    sum % posters
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
