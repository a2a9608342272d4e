//! The expression language, as rows: what is written | what the event is | what comes out.

mod constants;
mod evaluations;
mod laws;
mod mistakes;
mod templates;
mod values;

use super::{Expr, Scope, Value};
use crate::domain::json;

/// The names a rule may start a path with, as the books will pass them.
const ROOTS: [&str; 7] = ["payload", "item", "eventType", "tenantId", "eventId", "occurredAt", "correlationId"];

/// The event most rows are about.
const ORDER: &str = r#"{
    "orderId": "ord-1001", "currency": "EUR", "total": "119.00", "tax": 19.00, "zero": 0, "discount": null, "paid": true,
    "count": 3, "big": 9999999999999999999999999999, "huge": 123456789012345678901234567890, "hugeText": "123456789012345678901234567890",
    "tiny": "0.0000000000000000000000000001", "minus": -5.5, "word": "abc", "empty": [], "odd name": 7, "it's": 8, "in": 9,
    "customer": {"country": "DE", "id": 42},
    "lines": [{"net": "40.00", "tags": [1, 2]}, {"net": 35.10, "tags": []}, {"net": 24.90, "tags": [3]}],
    "holes": [{"net": 1}, {"gross": 2}, {"net": 3}], "mixed": [1, "x", 3], "nulls": [{"net": 1}, {"net": null}],
    "prices": [1.5, "2.25", 0.25]
}"#;

/// The value of `source` for `payload`, as text: numbers with their decimals, texts in quotes, errors behind `!`.
fn worth(source: &str, payload: &str) -> String {
    let expression = match Expr::parse(source, &ROOTS) {
        Ok(expression) => expression,
        Err(error) => return format!("?{} {}", error.offset, error.message),
    };
    let payload = json::parse(payload).unwrap();
    let item = json::parse(r#"{"gross": "10.00", "department": "77"}"#).unwrap();
    let mut scope = Scope::new();
    scope.bind_text("eventType", "ecommerce.order.completed");
    scope.bind_json("payload", &payload);
    scope.bind_json("item", &item);
    scope.bind_text("tenantId", "acme");
    match expression.eval(&scope) {
        Ok(value) => show(&value),
        Err(error) => format!("!{}", error.message),
    }
}

fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Decimal(number) => number.to_string(),
        Value::Text(text) => format!("'{text}'"),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) | Value::Items(_) | Value::List(_) => {
            let elements = (0..value.list_len().unwrap()).map(|index| match value.list_at(index).unwrap() {
                Ok(element) => show(&element),
                Err(error) => error.to_string(),
            });
            format!("[{}]", elements.collect::<Vec<_>>().join(", "))
        }
    }
}

fn check(rows: &[(&str, &str)]) {
    for (source, expected) in rows {
        assert_eq!(worth(source, ORDER), *expected, "{source}");
    }
}
