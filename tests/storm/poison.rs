//! Messages that can never be booked: one of every kind, each with the reason it must be parked for.

use crate::books::TENANTS;
use crate::dialects::{self, Written};
use crate::json::{Json, number, object, text};
use crate::model::{Fate, Meaning};
use crate::script::Writer;

const ORDER: &str = "ecommerce.order.completed";
/// The largest body of an event, and all that a letter keeps of a larger one.
pub const BODY_BYTES_MAX: usize = 256 * 1024;

pub fn one(writer: &mut Writer) {
    let tenant = writer.tenant();
    let (order, _) = writer.order_of(tenant, "EUR");
    let number_ = writer.number;
    match writer.rng.u8(..17) {
        0 => bytes(writer, [b"\xff\xfe{\"eventId\": ".as_slice(), number_.to_string().as_bytes()].concat(), "not_utf8"),
        1 => bytes(writer, format!("{{\"eventId\": \"p-{number_}\", ").into_bytes(), "malformed_json"),
        2 => {
            let twice = format!(
                "{{\"eventId\":\"p-{number_}\",\"tenantId\":\"alder\",\"payload\":{{\"total\":1,\"total\":1000}}}}"
            );
            bytes(writer, twice.into_bytes(), "malformed_json");
        }
        3 if writer.rng.u8(..4) == 0 => {
            bytes(
                writer,
                format!("{{\"n\":{number_},\"fill\":\"{}\"}}", "x".repeat(BODY_BYTES_MAX)).into_bytes(),
                "too_large",
            );
        }
        3 | 4 => envelope(writer, order, "missing_field", |body| body.without("eventId")),
        5 => envelope(writer, order, "bad_field", |body| body.with("eventId", number(number_))),
        6 => envelope(writer, order, "bad_field", |body| body.with("payload", Json::List(vec![number(number_)]))),
        7 => envelope(writer, order, "unknown_tenant", |body| body.with("tenantId", text("nobody"))),
        8 => {
            // Where unmatched events are ignored there is no such reason.
            let strict = TENANTS.iter().position(|tenant| !tenant.unmatched_ignored).unwrap();
            event(writer, strict, "weather.storm.seen", object([("number", number(number_))]), "rule_not_found");
        }
        9 => event(writer, tenant, ORDER, order.without("total"), "rule_failed"),
        10 => event(writer, tenant, ORDER, order.with("total", text("1e3")), "rule_failed"),
        11 => {
            let amount = ["119.001", "-5.00", "0"][writer.rng.usize(..3)];
            let payload = order.with("total", text(amount)).with("tax", number(0));
            let (mut draft, _) = writer.draft(tenant, ORDER, payload);
            draft.batch = Some(writer.join(tenant, 0, 1, 0));
            let (_, message) = writer.case(draft, Fate::Dead("bad_amount"));
            writer.publish(message);
        }
        12 => event(writer, tenant, ORDER, order.with("currency", text("XQX")), "bad_currency"),
        13 => invoice(writer, tenant, ["9999", "10.00", "10.00"], "unknown_account"),
        14 => invoice(writer, tenant, ["7000", "10.00", "10.00"], "account_closed"),
        15 => invoice(writer, tenant, ["1100", "10.00", "9.99"], "unbalanced"),
        _ => bytes(writer, format!("[\"p\", {number_}]").into_bytes(), "bad_field"),
    }
}

fn bytes(writer: &mut Writer, body: Vec<u8>, reason: &'static str) {
    let written =
        Written { routing_key: ORDER.to_owned(), content_type: "application/json", headers: Vec::new(), body };
    let message = dialects::message(written, Meaning::Poison(reason), &mut writer.rng);
    writer.publish(message);
}

/// A canonical envelope, spoilt.
fn envelope(writer: &mut Writer, payload: Json, reason: &'static str, spoil: impl FnOnce(Json) -> Json) {
    let id = writer.id();
    let payload = payload.with("number", number(writer.number));
    let whole = object([("eventId", text(id)), ("tenantId", text(TENANTS[0].name)), ("payload", payload)]);
    bytes(writer, spoil(whole).compact().into_bytes(), reason);
}

/// A sound envelope around what the books cannot book.
fn event(writer: &mut Writer, tenant: usize, event_type: &str, payload: Json, reason: &'static str) {
    let (draft, _) = writer.draft(tenant, event_type, payload);
    let (_, message) = writer.case(draft, Fate::Dead(reason));
    writer.publish(message);
}

fn invoice(writer: &mut Writer, tenant: usize, [account, paid, due]: [&str; 3], reason: &'static str) {
    let payload = object([
        ("currency", text("EUR")),
        ("account", text(account)),
        ("paid", text(paid)),
        ("due", text(due)),
        ("number", number(writer.number)),
    ]);
    event(writer, tenant, "billing.invoice.paid", payload, reason);
}
