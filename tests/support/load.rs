//! A day at the office: orders, duplicates written by somebody else, conflicts, poison, cancellations before and after their
//! orders, carts, batches, in all lanes and for two tenants. Made from a seed, which is printed.

use fastrand::Rng;
use serde_json::json;

use super::events::{BACKFILL, Expect, Message, URGENT, cancellation_of, cart, order_of, refund_of, rewritten};

pub const TENANTS: &[&str] = &["acme", "globex"];
/// Settings under which a held cancellation comes back at once instead of in a minute.
pub const QUICK_RETRIES: [(&str, &str); 4] = [
    ("FIS__RETRY__BASE_DELAY_SECONDS", "1"),
    // Without a cap the delay doubles for as long as a slow machine takes to publish what is waited for.
    ("FIS__RETRY__MAX_DELAY_SECONDS", "2"),
    ("FIS__RETRY__JITTER_SECONDS", "0"),
    ("FIS__RETRY__MAX_RETRIES", "100"),
];

/// `count` messages, or a few more: the orders of early cancellations come last.
pub fn mix(name: &str, count: usize) -> Vec<Message> {
    let seed =
        std::env::var("FIS_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    eprintln!("the mix of {name} is made with FIS_TEST_SEED={seed}");
    Mix { name: name.to_owned(), rng: Rng::with_seed(seed), messages: Vec::new(), orders: Vec::new(), late: Vec::new() }
        .make(count)
}

struct Mix {
    /// What the event ids begin with.
    name: String,
    rng: Rng,
    messages: Vec<Message>,
    /// Tenant and id of the orders so far that nobody has cancelled.
    orders: Vec<(&'static str, String)>,
    late: Vec<Message>,
}

impl Mix {
    fn make(mut self, count: usize) -> Vec<Message> {
        for number in 0..count {
            let message = self.one(number);
            let lane = self.rng.u8(..10);
            self.messages.push(match lane {
                0 => message.on(URGENT),
                1 => message.on(BACKFILL),
                _ => message,
            });
        }
        self.messages.append(&mut self.late);
        self.messages
    }

    fn one(&mut self, number: usize) -> Message {
        let tenant = TENANTS[self.rng.usize(..TENANTS.len())];
        let id = format!("{}-{number}", self.name);
        match self.rng.u8(..100) {
            0..8 => match self.some_message() {
                Some(message) => rewritten(&message),
                None => self.order(tenant, &id, "EUR"),
            },
            8..16 => match self.some_order() {
                Some((tenant, order)) => cancellation_of(tenant, &id, &order).expect(Expect::Any),
                None => self.order(tenant, &id, "EUR"),
            },
            16..20 => {
                let order = format!("{}-late-{number}", self.name);
                self.late.push(order_of(tenant, &order, "EUR", "11.90", "1.90"));
                cancellation_of(tenant, &id, &order)
            }
            20..24 => cart(tenant, &id),
            24..26 => refund_of(tenant, &id, "never-published"),
            26..34 => self.poison(tenant, &id),
            34..40 => self.order(tenant, &id, "USD"),
            _ => self.order(tenant, &id, "EUR"),
        }
    }

    fn order(&mut self, tenant: &'static str, id: &str, currency: &str) -> Message {
        self.orders.push((tenant, id.to_owned()));
        let cents = self.rng.u32(100..1_000_000);
        let total = format!("{}.{:02}", cents / 100, cents % 100);
        let order = order_of(tenant, id, currency, &total, "0.19");
        // Every sixth one is a member of a publisher's batch, which knows its size, or not yet.
        let mut body = order.value();
        let batch = format!("{}-{}", self.name, self.rng.u8(..4));
        body["batch"] = match self.rng.u8(..12) {
            0 => json!({ "id": batch, "size": self.rng.u8(1..20) }),
            1 => json!({ "id": batch }),
            _ => return order,
        };
        Message { body: body.to_string().into_bytes(), ..order }
    }

    fn some_order(&mut self) -> Option<(&'static str, String)> {
        // Now and then the same order is cancelled twice.
        let place = self.rng.usize(..self.orders.len().max(1));
        let order = self.orders.get(place).cloned();
        if order.is_some() && self.rng.u8(..10) > 0 {
            self.orders.remove(place);
        }
        order
    }

    /// An earlier message that is an event.
    fn some_message(&mut self) -> Option<Message> {
        let events: Vec<&Message> =
            self.messages.iter().filter(|message| !matches!(message.expect, Expect::Rejected(_))).collect();
        self.rng.choice(events).cloned()
    }

    fn poison(&mut self, tenant: &str, id: &str) -> Message {
        match self.rng.u8(..5) {
            0 => Message::new("ecommerce.order.completed", format!("{{\"eventId\": \"{id}\", "))
                .rejected("malformed_json"),
            1 => order_of("nobody", id, "EUR", "119.00", "19.00").rejected("unknown_tenant"),
            2 => order_of(tenant, id, "EUR", "119.001", "19.00").rejected("bad_amount"),
            3 => {
                let mut body = order_of(tenant, id, "EUR", "119.00", "19.00").value();
                body["payload"]["note"] = json!(id);
                body.as_object_mut().unwrap().remove("eventId");
                Message::json("ecommerce.order.completed", &body).rejected("missing_field")
            }
            _ => match self.some_order_message() {
                Some(order) => {
                    let mut body = order.value();
                    body["payload"]["total"] = json!("77.77");
                    Message { body: body.to_string().into_bytes(), ..order }.expect(Expect::Any)
                }
                None => order_of("nobody", id, "EUR", "119.00", "19.00").rejected("unknown_tenant"),
            },
        }
    }

    fn some_order_message(&mut self) -> Option<Message> {
        let orders: Vec<usize> = (0..self.messages.len())
            .filter(|place| {
                let message = &self.messages[*place];
                message.expect == Expect::Posted && message.routing_key == "ecommerce.order.completed"
            })
            .collect();
        let place = self.rng.choice(orders)?;
        // From here on either of the two may be the one that is posted: the lanes are not in step.
        let id = self.messages[place].value()["eventId"].clone();
        for message in self.messages.iter_mut().filter(|message| message.expect != Expect::Ignored) {
            if serde_json::from_slice::<serde_json::Value>(&message.body).is_ok_and(|body| body["eventId"] == id) {
                message.expect = Expect::Any;
            }
        }
        Some(self.messages[place].clone())
    }
}
