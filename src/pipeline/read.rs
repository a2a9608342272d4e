//! Phase 1: a delivery becomes an event. Bytes enter; what they say leaves, or the reason why they cannot be read. Nothing is refused here that
//! is not also written down.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::breath::Breath;
use super::message::{Message, WaitingMessage};
use crate::domain::disposition::{Failure, Reason};
use crate::domain::event::{Identity, InboundEvent, PROPERTIES_BYTES_MAX, RawMessage, Undecodable, decode};
use crate::domain::ids::TenantId;
use crate::domain::names::{TENANT_HEADER, UNREADABLE_HEADER};
use crate::faults::crash_points;
use crate::intake::Lane;
use crate::intake::claim::Key;
use crate::intake::publishers::Publishers;
use crate::intake::roads::{Road, Strays};
use crate::journal::Came;
use crate::platform::amqp::Delivery;

/// The delivery count at which an event is rejected before any work: it has ended the process, or its session, too often.
const DELIVERIES_MAX: i64 = 20;

/// A delivery and what its bytes say.
pub(super) struct Event<'a> {
    pub message: Message<'a>,
    pub read: Result<InboundEvent<'a>, Box<Undecodable>>,
}

impl Event<'_> {
    pub fn key(&self) -> Option<Key<'_>> {
        let event = self.read.as_ref().ok()?;
        Some(Key { tenant_id: &event.tenant_id, event_id: &event.event_id, payload_hash: &event.payload_hash })
    }
}

/// The reader of deliveries.
pub(super) struct Reader {
    pub default_tenant: Option<TenantId>,
    pub publishers: Publishers,
    pub strays: Arc<Strays>,
    /// The number of times this process gave deliveries back because PostgreSQL was away: the broker counted that, we do not.
    pub forgiven: AtomicI64,
}

impl Reader {
    /// Reads a batch.
    pub async fn read_all<'a>(&self, road: &Road, batch: &'a [Delivery]) -> Vec<Event<'a>> {
        let (mut events, mut breath) = (Vec::with_capacity(batch.len()), Breath::default());
        for delivery in batch {
            let event = self.read(road.lane(), delivery);
            if let (true, Ok(read)) = (road.is_front_door(), &event.read) {
                self.strays.look(&read.tenant_id, delivery.properties.header(TENANT_HEADER));
            }
            events.push(event);
            breath.after(delivery.body.len()).await;
        }
        events
    }

    pub fn read<'a>(&self, lane: Lane, delivery: &'a Delivery) -> Event<'a> {
        // Only the first delivery of a session can be what ended the last one: those behind it were never begun, they
        // were only charged for the company.
        let limit = DELIVERIES_MAX + self.forgiven.load(Ordering::SeqCst);
        if delivery.is_first && delivery.delivery_count() >= limit {
            let detail = format!("delivered {} times without an end", delivery.delivery_count());
            return unread(Message::new(delivery, lane), Failure::new(Reason::DeliveryLimit, detail));
        }
        self.decode(Message::new(delivery, lane), delivery, self.default_tenant.as_ref())
    }

    /// Reads messages that waited.
    pub async fn read_all_waiting<'a>(&self, messages: &'a [WaitingMessage]) -> Vec<Event<'a>> {
        let (mut events, mut breath) = (Vec::with_capacity(messages.len()), Breath::default());
        for waiting in messages {
            events.push(self.read_waiting(waiting));
            breath.after(waiting.delivery.body.len()).await;
        }
        events
    }

    /// Reads a message that waited. One that names no tenant belongs to the tenant for which it was held, whatever the settings say by now.
    fn read_waiting<'a>(&self, waiting: &'a WaitingMessage) -> Event<'a> {
        let tenant = match &waiting.came {
            Came::FromHeld { row, .. } => Some(&row.0.0),
            Came::FromBroker | Came::FromLetter { .. } => self.default_tenant.as_ref(),
        };
        self.decode(Message::waiting(waiting), &waiting.delivery, tenant)
    }

    fn decode<'a>(&self, message: Message<'a>, delivery: &'a Delivery, tenant: Option<&TenantId>) -> Event<'a> {
        let properties_bytes = delivery.properties.size();
        // One that is marked is refused for what was left out of it, however much is left.
        let is_marked = delivery.properties.header(UNREADABLE_HEADER).is_some();
        if properties_bytes > PROPERTIES_BYTES_MAX && !is_marked {
            let detail =
                format!("its properties have {properties_bytes} bytes, at most {PROPERTIES_BYTES_MAX} are taken");
            return unread(message, Failure::new(Reason::TooLarge, detail));
        }
        let header = |name: &str| delivery.properties.header(name);
        let raw = RawMessage {
            body: &delivery.body,
            routing_key: &delivery.routing_key,
            content_type: delivery.properties.content_type(),
            header: &header,
        };
        let mut read = decode(raw, tenant);
        if let Ok(event) = &read {
            crash_points::crash_event(event.event_id.as_str());
        }
        let refused = self.refused(&message.came, delivery, &mut read);
        let message = message.identified(&read);
        match refused {
            // Who it says it is stays with the message, for whoever looks at the letter.
            Some(failure) => unread(message, failure),
            None => Event { message, read },
        }
    }

    /// The reason why an event is not taken from its sender. What is held was taken when it came. A letter may never have been looked at, so
    /// it is asked for the user who sent it, whom its stored properties name; an edited copy has the tenant of its letter.
    fn refused(
        &self,
        came: &Came,
        delivery: &Delivery,
        read: &mut Result<InboundEvent<'_>, Box<Undecodable>>,
    ) -> Option<Failure> {
        let event = read.as_mut().ok()?;
        match came {
            Came::FromHeld { .. } => None,
            Came::FromBroker | Came::FromLetter { .. } => {
                let failure = self.publishers.check(delivery.properties.user_id(), &event.tenant_id).err()?;
                // Nobody counts in a batch that is not his.
                event.batch = None;
                Some(failure)
            }
        }
    }
}

/// A message that is not looked into.
fn unread(message: Message<'_>, failure: Failure) -> Event<'_> {
    let read = Err(Box::new(Undecodable { failure, identity: Identity::default(), batch: None }));
    Event { message, read }
}
