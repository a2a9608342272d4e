//! Phase 3: the books in force turn events into items: balanced entries, reversals, or reasons. Every culprit is named here, before anything
//! is written.

use std::collections::HashMap;
use std::sync::Arc;

use super::read::Event;
use crate::domain::books::{Books, Mapped};
use crate::domain::disposition::{Disposition, Failure, Reason};
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
    pub fn map<'e>(&self, events: &[&'e Event<'e>], posters: usize) -> Vec<Share<'e>> {
        let mut shares: Vec<Share<'e>> = (0..posters).map(|_| Share::default()).collect();
        let books = self.books.view();
        for (place, event) in events.iter().enumerate() {
            if let Some(share) = shares.get_mut(share_of(event, posters)) {
                share.places.push(place);
                share.events.push(event);
                share.items.get_or_insert_default().push(self.item(event, &books));
            }
        }
        shares.retain(|share| !share.events.is_empty());
        shares
    }

    /// The items of some events, by the books of this moment.
    pub fn items<'e>(&self, events: &[&'e Event<'e>]) -> Vec<Item<'e>> {
        let books = self.books.view();
        events.iter().map(|event| self.item(event, &books)).collect()
    }

    /// The item of an event: what the books make of it.
    pub fn item<'e>(&self, event: &'e Event<'_>, books: &HashMap<TenantId, Arc<Books>>) -> Item<'e> {
        let inbound = match &event.read {
            Ok(inbound) => inbound,
            Err(undecodable) => return unreadable(event, undecodable.failure.clone(), books),
        };
        let books = books.get(&inbound.tenant_id);
        let step = match books {
            None => {
                let detail = format!("tenant `{}` has no books", inbound.tenant_id);
                Step::Fail(Failure::new(Reason::UnknownTenant, detail))
            }
            Some(books) => match books.map(inbound, event.message.received_at) {
                Ok(Mapped::Entry { entry, rule }) => Step::Post { entry, rule },
                Ok(Mapped::Reversal(request)) => Step::Reverse { request, books: Arc::clone(books) },
                Ok(Mapped::Ignored) => Step::Ignore,
                Err(failure) => Step::Fail(failure),
            },
        };
        let may_wait = match &step {
            Step::Fail(failure) => failure.reason.disposition() == Disposition::Hold,
            Step::Reverse { .. } => true,
            Step::Post { .. } | Step::Ignore => false,
        };
        let fails = matches!(step, Step::Fail(_) | Step::Reverse { .. });
        let own_policy = books.filter(|_| may_wait).and_then(|books| books.retry_policy(inbound));
        let policy = own_policy.unwrap_or(&self.policy).clone();
        Item {
            facts: Some(event.message.facts(inbound, books.map(|books| books.version), policy)),
            step,
            member: event.message.member(),
            arrival: event.message.arrival(books.map(AsRef::as_ref), fails.then_some(inbound)),
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
    let books = event.message.tenant_id().and_then(|tenant| books.get(tenant));
    Item {
        facts: None,
        step: Step::Fail(failure),
        member: event.message.member(),
        arrival: event.message.arrival(books.map(AsRef::as_ref), event.read.as_ref().ok()),
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
