//! Sample messages.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::{Value, json};

pub use super::books::books;

pub const LIVE: &str = "fis.events.exchange";
pub const URGENT: &str = "fis.urgent.exchange";
pub const BACKFILL: &str = "fis.backfill.exchange";

/// What must become of a message, where the test knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Exactly one of posted, held and dead-lettered.
    Any,
    Posted,
    Held,
    Rejected(&'static str),
    Ignored,
}

/// A message to publish.
#[derive(Debug, Clone)]
pub struct Message {
    pub exchange: &'static str,
    pub routing_key: String,
    pub body: Vec<u8>,
    pub properties: BasicProperties,
    pub expect: Expect,
}

impl Message {
    pub fn new(routing_key: &str, body: impl Into<Vec<u8>>) -> Self {
        let properties = BasicProperties::default().with_delivery_mode(2).with_content_type("application/json".into());
        Self { exchange: LIVE, routing_key: routing_key.to_owned(), body: body.into(), properties, expect: Expect::Any }
    }

    pub fn json(routing_key: &str, body: &Value) -> Self {
        Self::new(routing_key, body.to_string())
    }

    pub fn on(self, exchange: &'static str) -> Self {
        Self { exchange, ..self }
    }

    pub fn expect(self, expect: Expect) -> Self {
        Self { expect, ..self }
    }

    pub fn rejected(self, reason: &'static str) -> Self {
        self.expect(Expect::Rejected(reason))
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        let mut headers: FieldTable = self.properties.headers().clone().unwrap_or_default();
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
        self.properties = self.properties.with_headers(headers);
        self
    }

    pub fn header_text(&self, name: &str) -> Option<&str> {
        match self.properties.headers().as_ref()?.inner().get(name)? {
            AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
            _ => None,
        }
    }

    /// The body as JSON.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// The canonical envelope.
pub fn envelope(tenant: &str, id: &str, event_type: &str, payload: Value) -> Value {
    json!({
        "eventId": id,
        "tenantId": tenant,
        "eventType": event_type,
        "occurredAt": "2026-02-25T10:00:00Z",
        "correlationId": format!("corr-{id}"),
        "schemaVersion": 1,
        "payload": payload,
    })
}

fn message(tenant: &str, id: &str, event_type: &str, payload: Value) -> Message {
    Message::json(event_type, &envelope(tenant, id, event_type, payload))
}

pub fn order_of(tenant: &str, id: &str, currency: &str, total: &str, tax: &str) -> Message {
    let payload = json!({"orderId": id, "currency": currency, "total": total, "tax": tax});
    message(tenant, id, "ecommerce.order.completed", payload).expect(Expect::Posted)
}

/// An order of 119.00 EUR with 19.00 tax.
pub fn order(id: &str) -> Message {
    order_of("acme", id, "EUR", "119.00", "19.00")
}

pub fn cancellation_of(tenant: &str, id: &str, order: &str) -> Message {
    message(tenant, id, "ecommerce.order.cancelled", json!({"orderId": order, "orderEventId": order}))
        .expect(Expect::Posted)
}

pub fn cancellation(id: &str, order: &str) -> Message {
    cancellation_of("acme", id, order)
}

/// Reverses an order under a rule that retries once an hour: where the order is missing, it stays held.
pub fn refund_of(tenant: &str, id: &str, order: &str) -> Message {
    message(tenant, id, "ecommerce.order.refunded", json!({"orderEventId": order})).expect(Expect::Held)
}

pub fn cart(tenant: &str, id: &str) -> Message {
    message(tenant, id, "ecommerce.cart.updated", json!({"items": 3})).expect(Expect::Ignored)
}

/// A payment to whichever account the event names.
pub fn payment(id: &str, account: &str, amount: &str) -> Message {
    let payload = json!({"account": account, "currency": "EUR", "amount": amount});
    message("acme", id, "billing.invoice.paid", payload).expect(Expect::Posted)
}

/// The same JSON, written by somebody else: members in another order, other white space.
pub fn rewritten(message: &Message) -> Message {
    fn write(value: &Value, out: &mut String) {
        match value {
            Value::Object(members) => {
                out.push_str("{\n\t");
                for (place, (name, member)) in members.iter().rev().enumerate() {
                    if place > 0 {
                        out.push_str(" ,\n\t");
                    }
                    out.push_str(&format!("{} :  ", Value::from(name.as_str())));
                    write(member, out);
                }
                out.push_str("\n}");
            }
            Value::Array(items) => {
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        out.push_str(" , ");
                    }
                    write(item, out);
                }
                out.push(']');
            }
            other => out.push_str(&other.to_string()),
        }
    }
    let mut body = String::new();
    write(&message.value(), &mut body);
    Message { body: body.into_bytes(), ..message.clone() }
}
