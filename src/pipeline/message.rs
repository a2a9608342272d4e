//! The message behind an event: a dead letter or a retry is made from it, only when it is needed.

use chrono::{DateTime, Utc};

use crate::domain::batch::BatchMember;
use crate::domain::books::Books;
use crate::domain::dead_letter::{DeadLetter, money_of};
use crate::domain::disposition::Failure;
use crate::domain::event::{BatchRef, Identity, InboundEvent, Undecodable};
use crate::domain::ids::{EventId, TenantId};
use crate::domain::names::{ATTEMPT_HEADER, LETTER_HEADER, MESSAGE_ID_HEADER};
use crate::domain::retry::RetryPolicy;
use crate::intake::Lane;
use crate::journal::{Arrival, ItemFacts, RetryMessage, Source};
use crate::parking;
use crate::platform::amqp::Delivery;
use crate::platform::time;

/// A delivery with who its event is.
pub struct Message<'a> {
    delivery: &'a Delivery,
    lane: Lane,
    event: parking::EventFacts,
    batch: Option<BatchRef>,
    pub received_at: DateTime<Utc>,
}

impl<'a> Message<'a> {
    pub fn new(delivery: &'a Delivery, lane: Lane) -> Self {
        Self { delivery, lane, event: parking::EventFacts::default(), batch: None, received_at: time::now() }
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

    pub fn tenant_id(&self) -> Option<&TenantId> {
        self.event.identity.tenant_id.as_ref()
    }

    /// The arrival of the message: when it came and what it says it is worth. The day that it is about is read only where it may not be posted: the
    /// journal knows the others'. A tenant without books has no zone but UTC.
    pub fn arrival(&self, books: Option<&Books>, event: Option<&InboundEvent<'_>>) -> Arrival {
        let day = |instant: DateTime<Utc>| {
            books.map_or_else(|| instant.date_naive(), |books| books.calendar.local_date(instant))
        };
        let event_date = match (event, books) {
            (None, _) => day(self.received_at),
            (Some(event), None) => day(event.occurred_at.unwrap_or(self.received_at)),
            (Some(event), Some(books)) => books.event_date(event, self.received_at),
        };
        Arrival {
            on: day(self.received_at),
            event_date,
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
            attempts: self.attempts(),
            max_attempts: event.max_attempts,
            policy,
        }
    }

    /// Tells whether the message says that it is the replay of a dead letter. PostgreSQL must see a replay: only there can the letter be resolved.
    pub fn is_replay(&self) -> bool {
        self.delivery.properties.header(LETTER_HEADER).is_some()
    }

    fn attempts(&self) -> u32 {
        self.delivery.properties.header_number(ATTEMPT_HEADER).and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
    }
}

impl Source for Message<'_> {
    fn dead_letter(&self, failure: Failure) -> DeadLetter {
        let routing_key = &self.delivery.routing_key;
        parking::dead_letter(self.delivery, routing_key, self.lane.name(), self.event.clone(), failure)
    }

    fn replayed(&self) -> Option<String> {
        self.is_replay().then(|| parking::letter_id(self.delivery, &self.delivery.routing_key))
    }

    fn retry(&self, attempts: u32) -> RetryMessage {
        let mut properties = self.delivery.properties.carried().with_number(ATTEMPT_HEADER, i64::from(attempts));
        if let Some(id) = parking::own_message_id(self.delivery) {
            properties = properties.with_header(MESSAGE_ID_HEADER, id);
        }
        RetryMessage {
            message_id: format!("retry/{}/{attempts}", parking::letter_id(self.delivery, &self.delivery.routing_key)),
            routing_key: parking::storable(&self.delivery.routing_key),
            properties: properties.to_text(),
            body: self.delivery.body.clone(),
        }
    }
}
