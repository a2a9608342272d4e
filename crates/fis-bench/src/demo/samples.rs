//! Sample events: orders, invoices, pay runs, cancellations, some duplicates, some poison. What must become of each is known
//! when it is made, without asking the code that will decide.

use std::collections::BTreeMap;

/// A message to publish.
pub struct Sample {
    pub routing_key: &'static str,
    pub body: Vec<u8>,
}

/// The outcome that all samples together must have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    pub posted: u64,
    pub duplicates: u64,
    pub ignored: u64,
    pub rejected: BTreeMap<&'static str, u64>,
}

impl Expected {
    pub fn rejections(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// The number of announcements that the feed must hold.
    pub fn announced(&self) -> u64 {
        self.posted + self.rejections()
    }
}

pub struct Samples {
    pub samples: Vec<Sample>,
    pub expected: Expected,
}

/// Makes `count` events. Their ids hold a random run, so that every demo books anew.
pub fn samples(count: usize) -> Samples {
    let mut maker = Maker {
        run: format!("{:08x}", fastrand::u32(..)),
        orders: Vec::new(),
        samples: Vec::with_capacity(count),
        expected: Expected::default(),
    };
    for number in 0..count {
        // Always the same mix: of a hundred, 71 orders, 15 invoices, 5 pay runs, 4 cancellations, 3 duplicates, a cart
        // and one that cannot be booked.
        match number % 100 {
            70..=84 => maker.invoice(number),
            85..=89 => maker.pay_run(number),
            90..=93 => maker.cancellation(number),
            94..=96 => maker.duplicate(),
            97 => maker.cart(number),
            98 => maker.poison(number / 100),
            _ => maker.order(number),
        }
    }
    Samples { samples: maker.samples, expected: maker.expected }
}

struct Maker {
    run: String,
    /// Orders that can still be cancelled: event id and order id.
    orders: Vec<(String, String)>,
    samples: Vec<Sample>,
    expected: Expected,
}

impl Maker {
    fn add(&mut self, routing_key: &'static str, body: String) {
        self.samples.push(Sample { routing_key, body: body.into_bytes() });
    }

    fn reject(&mut self, reason: &'static str) {
        *self.expected.rejected.entry(reason).or_default() += 1;
    }

    fn id(&self, kind: &str, number: usize) -> String {
        format!("demo-{}-{kind}-{number}", self.run)
    }

    fn order(&mut self, number: usize) {
        let (id, order) = (self.id("order", number), format!("ord-{}-{number}", self.run));
        let currency = if number.is_multiple_of(10) { "USD" } else { "EUR" };
        let net = 500 + (number * 7919) % 100_000;
        let tax = net * 19 / 100;
        let body = order_body(&id, "acme-shop", &order, currency, &cents(net + tax), &cents(tax));
        self.add("ecommerce.order.completed", body);
        self.orders.push((id, order));
        self.expected.posted += 1;
    }

    fn invoice(&mut self, number: usize) {
        let id = self.id("invoice", number);
        let amount = cents(1_000 + (number * 104_729) % 500_000);
        let body = format!(
            r#"{{"event_id":"{id}","tenant_id":"acme-shop","timestamp":"2026-03-{:02}T09:30:00+01:00","payload":{{"invoiceId":"inv-{number}","currency":"EUR","amount":{amount}}}}}"#,
            1 + number % 28
        );
        self.add("billing.invoice.paid", body);
        self.expected.posted += 1;
    }

    fn pay_run(&mut self, number: usize) {
        let id = self.id("payroll", number);
        let slips: Vec<String> = (0..3)
            .map(|n| {
                let gross = 300_000 + ((number + n) * 1_299_709) % 400_000;
                let department = if n == 2 { "20" } else { "10" };
                format!(
                    r#"{{"department":"{department}","gross":"{}","withheld":"{}"}}"#,
                    cents(gross),
                    cents(gross * 3 / 10)
                )
            })
            .collect();
        let body = format!(
            r#"{{"specversion":"1.0","id":"{id}","source":"/payroll","type":"payroll.salary.disbursed","time":"2026-04-30T12:00:00Z","tenantid":"acme-payroll","data":{{"runId":"run-{number}","currency":"EUR","payslips":[{}]}}}}"#,
            slips.join(",")
        );
        self.add("payroll.salary.disbursed", body);
        self.expected.posted += 1;
    }

    fn cancellation(&mut self, number: usize) {
        let Some((event, order)) = self.orders.pop() else { return self.order(number) };
        let id = self.id("cancel", number);
        let body = format!(
            r#"{{"eventId":"{id}","tenantId":"acme-shop","correlationId":"{order}","payload":{{"orderId":"{order}","orderEventId":"{event}"}}}}"#
        );
        self.add("ecommerce.order.cancelled", body);
        self.expected.posted += 1;
    }

    /// An earlier event again, byte for byte.
    fn duplicate(&mut self) {
        let earlier = self.samples.iter().rev().skip(40).find(|sample| sample.routing_key == "billing.invoice.paid");
        let Some(earlier) = earlier.or_else(|| self.samples.first()) else { return };
        let again = Sample { routing_key: earlier.routing_key, body: earlier.body.clone() };
        self.samples.push(again);
        self.expected.duplicates += 1;
    }

    fn cart(&mut self, number: usize) {
        let id = self.id("cart", number);
        self.add(
            "ecommerce.cart.updated",
            format!(r#"{{"eventId":"{id}","tenantId":"acme-shop","payload":{{"items":{number}}}}}"#),
        );
        self.expected.ignored += 1;
    }

    fn poison(&mut self, number: usize) {
        let id = self.id("poison", number);
        let order = |tenant: &str, total: &str, tax: &str| order_body(&id, tenant, "ord-x", "EUR", total, tax);
        let (key, reason, body) = match number % 7 {
            0 => (
                "ecommerce.order.completed",
                "malformed_json",
                format!(r#"{{"eventId":"{id}","tenantId":"acme-shop","payload":"#),
            ),
            1 => ("ecommerce.order.completed", "unknown_tenant", order("nobody", "10.00", "1.00")),
            2 => (
                "ecommerce.order.completed",
                "missing_field",
                format!(r#"{{"tenantId":"acme-shop","eventType":"{id}","payload":{{}}}}"#),
            ),
            3 => ("ecommerce.order.completed", "bad_amount", order("acme-shop", "10.001", "0.00")),
            4 => (
                "ecommerce.order.shipped",
                "rule_not_found",
                format!(r#"{{"eventId":"{id}","tenantId":"acme-shop","payload":{{}}}}"#),
            ),
            5 => (
                "ecommerce.order.completed",
                "rule_failed",
                format!(
                    r#"{{"eventId":"{id}","tenantId":"acme-shop","occurredAt":"2026-02-25T10:00:00Z","payload":{{"orderId":"x","currency":"EUR","total":"9.00"}}}}"#
                ),
            ),
            _ => (
                "ecommerce.order.completed",
                "bad_currency",
                order_body(&id, "acme-shop", "ord-x", "EURO", "10.00", "1.00"),
            ),
        };
        self.add(key, body);
        self.reject(reason);
    }
}

fn order_body(id: &str, tenant: &str, order: &str, currency: &str, total: &str, tax: &str) -> String {
    format!(
        r#"{{"eventId":"{id}","tenantId":"{tenant}","eventType":"ecommerce.order.completed","occurredAt":"2026-02-25T10:00:00Z","correlationId":"{order}","schemaVersion":1,"payload":{{"orderId":"{order}","currency":"{currency}","total":"{total}","tax":"{tax}"}}}}"#
    )
}

fn cents(amount: usize) -> String {
    format!("{}.{:02}", amount / 100, amount % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_expected_to_become_exactly_one_thing() {
        let Samples { samples, expected } = samples(10_000);
        let total = expected.posted + expected.duplicates + expected.ignored + expected.rejections();
        assert_eq!(samples.len() as u64, total);
        assert_eq!(total, 10_000);
        assert_eq!(expected.rejected.len(), 7);
    }
}
