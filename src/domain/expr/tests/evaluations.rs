//! How an evaluation is asked for, what its errors carry, and where it stops.

use super::super::{EvalErrorKind, Expr, LIST_ITEMS_MAX, STEPS_MAX, Scope, Template};
use super::{ORDER, ROOTS, worth};
use crate::domain::json;

#[test]
fn an_error_names_the_expression_the_path_and_the_kind() {
    let payload = json::parse(ORDER).unwrap();
    let mut scope = Scope::new();
    scope.bind_json("payload", &payload);
    let error = Expr::parse("payload.total - payload.fee", &ROOTS).unwrap().eval(&scope).unwrap_err();
    assert_eq!(error.to_string(), "`payload.total - payload.fee`: `payload.fee` is missing");
    assert_eq!(error.path.as_deref(), Some("payload.fee"));
    assert_eq!(error.kind, EvalErrorKind::Missing);

    for (source, kind, path) in [
        ("sum(payload.nulls[*].net)", EvalErrorKind::WrongKind, Some("payload.nulls[1].net")),
        ("payload.tax.x + 1", EvalErrorKind::Missing, Some("payload.tax.x")),
        ("payload.tax / payload.zero", EvalErrorKind::DivisionByZero, Some("payload.zero")),
        ("payload.big * 10", EvalErrorKind::NotExact, None),
        ("payload.huge + 1", EvalErrorKind::NotExact, Some("payload.huge")),
        ("min(payload.empty)", EvalErrorKind::EmptyList, None),
        ("round(1, payload.minus)", EvalErrorKind::BadDigits, Some("payload.minus")),
    ] {
        let error = Expr::parse(source, &ROOTS).unwrap().eval_decimal(&scope).unwrap_err();
        assert_eq!((error.kind, error.path.as_deref()), (kind, path), "{source}");
    }
}

#[test]
fn the_typed_evaluations_take_their_kind_only() {
    let payload = json::parse(ORDER).unwrap();
    let mut scope = Scope::new();
    scope.bind_json("payload", &payload);
    let parse = |source: &str| Expr::parse(source, &ROOTS).unwrap();
    assert_eq!(parse("payload.total").eval_decimal(&scope).unwrap().to_string(), "119.00");
    assert!(parse("payload.paid").eval_bool(&scope).unwrap());
    assert!(parse("payload.total").eval_bool(&scope).unwrap_err().message.contains("true or false is needed"));
    assert_eq!(parse("payload.currency").eval_text(&scope).unwrap(), "EUR");
    assert_eq!(parse("payload.tax").eval_text(&scope).unwrap(), "19.00");
    assert!(parse("payload.paid").eval_text(&scope).is_err());
    assert_eq!(parse("payload.lines").eval_list(&scope).unwrap().len(), 3);
    assert_eq!(parse("coalesce(payload.nothing, payload.lines)").eval_list(&scope).unwrap().len(), 3);
    assert_eq!(parse("payload.lines[*].tags[*]").eval_list(&scope).unwrap().len(), 3);
    assert!(parse("payload.customer").eval_list(&scope).is_err());
    assert!(parse("[1, 2]").eval_list(&scope).is_err());
    assert_eq!(parse("'EUR'").literal_text(), Some("EUR"));
    assert_eq!(parse("payload.currency").literal_text(), None);
    let both = parse("item.a + payload.b + item.c");
    assert_eq!(both.roots().collect::<Vec<_>>(), ["item", "payload"]);
    assert!(both.uses("item") && !both.uses("tenantId"));
}

#[test]
fn rebinding_an_item_is_seen_and_the_order_of_binding_does_not_matter() {
    let (one, other) = (json::parse(r#"{"gross":1}"#).unwrap(), json::parse(r#"{"gross":2}"#).unwrap());
    let expression = Expr::parse("item.gross", &ROOTS).unwrap();
    let mut scope = Scope::new();
    for name in ["tenantId", "eventId", "eventType"] {
        scope.bind_text(name, "x");
    }
    for (item, expected) in [(&one, "1"), (&other, "2"), (&one, "1")] {
        scope.bind_json("item", item);
        assert_eq!(expression.eval_decimal(&scope).unwrap().to_string(), expected);
    }
}

#[test]
fn lists_and_steps_are_bounded() {
    let list = |count: usize| format!(r#"{{"list":[{}]}}"#, vec!["{\"n\":1}"; count].join(","));
    assert_eq!(worth("sum(payload.list[*].n)", &list(LIST_ITEMS_MAX)), "10000");
    let too_long = "!a list has more than 10000 elements";
    assert_eq!(worth("sum(payload.list[*].n)", &list(LIST_ITEMS_MAX + 1)), too_long);
    assert_eq!(worth("count(payload.list)", &list(LIST_ITEMS_MAX + 1)), too_long);
    let payload_text = list(LIST_ITEMS_MAX + 1);
    let payload = json::parse(&payload_text).unwrap();
    let mut scope = Scope::new();
    scope.bind_json("payload", &payload);
    let error = Expr::parse("payload.list", &ROOTS).unwrap().eval_list(&scope).unwrap_err();
    assert_eq!(error.kind, EvalErrorKind::TooLarge);
    let many = ["sum(payload.list[*].n)"; 60].join(" + ");
    assert_eq!(worth(&many, &list(LIST_ITEMS_MAX)), "!the rules take more than 500000 steps for this event");
}

#[test]
fn all_evaluations_of_an_event_draw_from_one_budget() {
    let text = format!(r#"{{"list":[{}]}}"#, vec!["1"; LIST_ITEMS_MAX].join(","));
    let payload = json::parse(&text).unwrap();
    let mut scope = Scope::new();
    scope.bind_json("payload", &payload);
    let expression = Expr::parse("sum(payload.list)", &ROOTS).unwrap();
    let template = Template::parse("{sum(payload.list)}", &ROOTS).unwrap();
    let mut evaluated = 0;
    let error = loop {
        evaluated += 2;
        assert!(evaluated < 1_000, "without end");
        match (expression.eval_decimal(&scope), template.eval(&scope)) {
            (Ok(_), Ok(_)) => {}
            (Err(error), _) | (_, Err(error)) => break error,
        }
    };
    assert_eq!(error.kind, EvalErrorKind::TooLarge);
    // Ten thousand elements and a few nodes each time.
    assert_eq!(evaluated, STEPS_MAX / 10_003 + 1);
    assert!(expression.eval_decimal(&scope).is_err(), "used up is used up");
}

/// Each costs what it makes the program do: long texts, long numbers and large objects included.
#[test]
fn long_values_and_large_objects_cost_more_steps() {
    let digits = "1".repeat(4_000);
    let members: String = (0..1_000).map(|n| format!(r#""x{n}":0,"#)).collect();
    let text = format!(r#"{{{members}"text":"{digits}","same":"{digits}","few":{{"a":1,"b":2}}}}"#);
    let payload = json::parse(&text).unwrap();
    let steps = |source: &str| {
        let mut scope = Scope::new();
        scope.bind_json("payload", &payload);
        let _ = Expr::parse(source, &ROOTS).unwrap().eval(&scope);
        scope.steps()
    };
    assert_eq!(steps("payload"), 1);
    assert_eq!(steps("payload.few"), 1 + 1 + 10, "of 1,003 members ten are looked at");
    assert_eq!(steps("payload.few.b"), steps("payload.few") + 1 + 2);
    assert_eq!(steps("payload.text + 1"), 1 + steps("payload.text") + 4_000 / 8);
    assert!(steps("payload.text == payload.same") > 4_000 / 8);
    assert_eq!(steps("1 + 1 + 1 + 1"), 5);
}
