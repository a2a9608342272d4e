//! What is the same for every item is worked out once, and is worth what it is worth when it is worked out every time.

use proptest::prelude::*;

use super::super::{Expr, Scope};
use super::{ORDER, ROOTS, show};
use crate::domain::json::{self, Json};

/// Elements of every kind: numbers as numbers and as texts, and what is no number.
const ITEMS: &str = r#"[
    {"net": "40.00", "rate": 2, "code": "DE"}, {"net": 35.1, "rate": "0.5", "code": "FR"}, {"net": 0, "rate": 0, "code": null},
    {"net": "x", "rate": 1}, 7, {"net": 1e20, "rate": 3, "code": "DE"}, null, {"net": "40.00", "rate": 2, "code": "DE"}
]"#;

/// What an expression is worth for each item, its errors included; `remembering`, in one scope, or in one of its own each time.
fn worths(source: &str, payload: &Json<'_>, items: &[Json<'_>], remembering: bool) -> Vec<String> {
    let mut expression = Expr::parse(source, &ROOTS).unwrap();
    if remembering {
        expression.remember_constants(&mut 0);
    }
    let mut scope = Scope::new();
    scope.bind_json("payload", payload);
    let mut worths = Vec::new();
    for item in items {
        let mut fresh = Scope::new();
        fresh.bind_json("payload", payload);
        let scope = if remembering { &mut scope } else { &mut fresh };
        scope.bind_json("item", item);
        worths.push(match expression.eval(scope) {
            Ok(value) => show(&value),
            Err(error) => format!("!{:?} {:?} {error}", error.kind, error.path),
        });
        worths.push(match expression.eval_text(scope) {
            Ok(text) => text.into_owned(),
            Err(error) => error.to_string(),
        });
    }
    worths
}

/// Operands, conditions and functions of both kinds, put together at random.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        "item.net",
        "item.rate",
        "item.code",
        "item",
        "payload.total",
        "payload.tax",
        "payload.zero",
        "payload.word",
        "payload.none",
        "payload.customer.country",
        "payload.lines[*].net",
        "payload.lines",
        "payload.prices",
        "payload.holes[*].net",
        "payload.discount",
        "payload.big",
        "payload.tiny",
        "payload.paid",
        "1",
        "0",
        "2.50",
        "'DE'",
        "null",
        "true",
        "eventType",
    ])
    .prop_map(ToOwned::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let one = inner.clone();
        let unary = (
            proptest::sample::select(vec!["-", "not ", "sum", "count", "abs", "min", "max", "round2", "exists", ""]),
            one,
        )
            .prop_map(|(how, inner)| match how {
                "round2" => format!("round({inner}, 2)"),
                // Only a path may be asked for.
                "exists" => "exists(payload.lines[*].net)".to_owned(),
                "-" | "not " => format!("({how}({inner}))"),
                how => format!("{how}({inner})"),
            });
        let operators = vec!["+", "-", "*", "/", "==", "!=", "<", ">=", "and", "or", "in"];
        let binary = (inner.clone(), proptest::sample::select(operators), inner.clone())
            .prop_map(|(left, how, right)| format!("({left} {how} {right})"));
        let several = (proptest::sample::select(vec!["coalesce", "max", "list"]), inner.clone(), inner).prop_map(
            |(how, left, right)| match how {
                "list" => format!("[{left}, {right}]"),
                how => format!("{how}({left}, {right})"),
            },
        );
        prop_oneof![unary, binary.clone(), binary, several]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if std::env::var_os("FIS_TEST_FULL").is_some() { 200_000 } else { 2_000 }, ..ProptestConfig::default() })]

    #[test]
    fn a_remembered_value_is_the_value(source in expressions()) {
        let (payload, items) = (json::parse(ORDER).unwrap(), json::parse(ITEMS).unwrap());
        let items = items.as_array().unwrap();
        prop_assert_eq!(worths(&source, &payload, items, true), worths(&source, &payload, items, false));
    }
}

#[test]
fn a_sum_over_the_event_costs_its_length_once() {
    let items = |count: usize| format!(r#"{{"total":100,"items":[{}]}}"#, vec![r#"{"net":1}"#; count].join(","));
    let steps = |source: &str, count: usize| {
        let text = items(count);
        let payload = json::parse(&text).unwrap();
        let mut expression = Expr::parse(source, &ROOTS).unwrap();
        expression.remember_constants(&mut 0);
        let mut scope = Scope::new();
        scope.bind_json("payload", &payload);
        for item in payload.get("items").unwrap().as_array().unwrap() {
            scope.bind_json("item", item);
            expression.eval_decimal(&scope).unwrap();
        }
        scope.steps()
    };
    for source in [
        "item.net / sum(payload.items[*].net) * payload.total",
        "item.net * (payload.total / sum(payload.items[*].net))",
        "item.net * -(sum(payload.items[*].net) / payload.total)",
        "round(item.net * payload.total / (1 + sum(payload.items[*].net)), 2)",
        "item.net + coalesce(coalesce(payload.none, sum(payload.items[*].net)), item.net)",
        "max(item.net, sum(payload.items[*].net))",
    ] {
        let (few, many) = (steps(source, 100), steps(source, 1_000));
        assert!(many <= few * 10, "{source}: {few} steps for 100 items, {many} for 1,000");
    }
}

/// New content under a root is a new event: nothing is known of it.
#[test]
fn what_is_remembered_ends_with_its_event() {
    let (one, other) = (json::parse(r#"{"a":1}"#).unwrap(), json::parse(r#"{"a":2}"#).unwrap());
    let mut expression = Expr::parse("payload.a + 1", &ROOTS).unwrap();
    expression.remember_constants(&mut 0);
    let mut scope = Scope::new();
    for (payload, expected) in [(&one, "2"), (&other, "3"), (&one, "2")] {
        scope.bind_json("payload", payload);
        assert_eq!(expression.eval_decimal(&scope).unwrap().to_string(), expected);
    }
}
