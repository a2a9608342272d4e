//! The message behind an event: a dead letter, or a message to keep while its event is held, is made from it, only when it is needed.

use chrono::{DateTime, NaiveDate, Utc};

use crate::domain::batch::BatchMember;
use crate::domain::books::Books;
use crate::domain::dead_letter::{DeadLetter, money_of};
use crate::domain::disposition::Failure;
use crate::domain::event::{BatchRef, Identity, InboundEvent, Undecodable};
use crate::domain::ids::{EventId, TenantId};
use crate::domain::retry::RetryPolicy;
use crate::intake::Lane;
use crate::journal::{Arrival, Came, ItemFacts, KeptMessage, Source};
use crate::parking;
use crate::platform::amqp::Delivery;
use crate::platform::time;

/// A message that waited in PostgreSQL.
#[derive(Debug)]
pub struct WaitingMessage {
    pub delivery: Delivery,
    pub came: Came,
    /// The lane by which it first came.
    pub lane: Lane,
    /// The first receipt. An event without a time of its own is dated by it.
    pub received_at: DateTime<Utc>,
    /// Its place in the selection of the replay that runs.
    pub place: Option<i64>,
}

/// A delivery with who its event is.
pub struct Message<'a> {
    delivery: &'a Delivery,
    lane: Lane,
    pub came: Came,
    pub place: Option<i64>,
    event: parking::EventFacts,
    batch: Option<BatchRef>,
    pub received_at: DateTime<Utc>,
}

impl<'a> Message<'a> {
    pub fn new(delivery: &'a Delivery, lane: Lane) -> Self {
        let event = parking::EventFacts::default();
        Self { delivery, lane, came: Came::FromBroker, place: None, event, batch: None, received_at: time::now() }
    }

    pub fn waiting(waiting: &'a WaitingMessage) -> Self {
        let WaitingMessage { delivery, came, lane, received_at, place } = waiting;
        let (came, place, received_at) = (came.clone(), *place, *received_at);
        Self { came, place, received_at, ..Self::new(delivery, *lane) }
    }

    /// Remembers who the event is, where that could be read.
    pub fn identified(mut self, read: &Result<InboundEvent<'_>, Box<Undecodable>>) -> Self {
        match read {
            Ok(event) => {
                self.batch.clone_from(&event.batch);
                let identity = Identity {
                    tenant_id: Some(event.tenant_id.clone()),
                    event_id: Some(event.event_id.clone()),
                    event_type: Some(event.event_type.clone()),
                    correlation_id: event.correlation_id.clone(),
                };
                let (money, payload_hash) = (money_of(&event.payload), Some(event.payload_hash.clone()));
                self.event = parking::EventFacts { identity, money, payload_hash };
            }
            Err(undecodable) => {
                self.batch.clone_from(&undecodable.batch);
                self.event.identity = undecodable.identity.clone();
            }
        }
        self
    }

    /// Its place in its publisher's batch, also where the rest of it could not be read.
    pub fn member(&self) -> Option<BatchMember> {
        let batch = self.batch.clone()?;
        let Identity { tenant_id, event_id, .. } = &self.event.identity;
        // Without an id of its own it goes by its letter's: the same message twice is one member.
        let letter_id = || EventId::parse(&parking::letter_id(self.delivery, &self.delivery.routing_key)).ok();
        Some(BatchMember { tenant_id: tenant_id.clone()?, event_id: event_id.clone().or_else(letter_id)?, batch })
    }

    /// The names by which somebody finds the event: its tenant and its id, where they could be read, and the id of its letter.
    pub fn names(&self) -> (Option<&str>, Option<&str>, String) {
        let Identity { tenant_id, event_id, .. } = &self.event.identity;
        let own = || parking::letter_id(self.delivery, &self.delivery.routing_key);
        let letter = self.came.letter().map_or_else(own, |copy| copy.letter_id.clone());
        (tenant_id.as_ref().map(TenantId::as_str), event_id.as_ref().map(EventId::as_str), letter)
    }

    pub fn routing_key(&self) -> &str {
        &self.delivery.routing_key
    }

    pub fn tenant_id(&self) -> Option<&TenantId> {
        self.event.identity.tenant_id.as_ref()
    }

    /// The arrival of the message: when it came and what it says it is worth. The day that it is about is asked for only where it may not be posted: the
    /// journal knows the others'. A tenant without books has no zone but UTC.
    pub fn arrival(&self, books: Option<&Books>, event_date: Option<NaiveDate>) -> Arrival {
        let instant = self.received_at;
        let on = books.map_or_else(|| instant.date_naive(), |books| books.calendar.local_date(instant));
        Arrival {
            on,
            event_date: event_date.unwrap_or(on),
            money: self.event.money,
            deliveries: self.delivery.delivery_count(),
        }
    }

    pub fn facts(&self, event: &InboundEvent<'_>, books_version: Option<i32>, policy: RetryPolicy) -> ItemFacts {
        ItemFacts {
            tenant_id: event.tenant_id.clone(),
            event_id: event.event_id.clone(),
            event_type: event.event_type.clone(),
            payload_hash: event.payload_hash.clone(),
            lane: self.lane.name(),
            message_id: parking::own_message_id(self.delivery).map(ToOwned::to_owned),
            correlation_id: parking::correlation_id(self.delivery, &self.event.identity),
            traceparent: parking::traceparent(self.delivery),
            books_version,
            max_attempts: event.max_attempts,
            policy,
        }
    }
}

impl Source for Message<'_> {
    fn dead_letter(&self, failure: Failure) -> DeadLetter {
        let routing_key = &self.delivery.routing_key;
        parking::dead_letter(self.delivery, routing_key, self.lane.name(), self.event.clone(), failure)
    }

    fn kept(&self) -> KeptMessage {
        KeptMessage {
            routing_key: parking::storable(&self.delivery.routing_key),
            properties: self.delivery.properties.carried().to_text(),
            body: self.delivery.body.clone(),
            received_at: self.received_at,
        }
    }
}
