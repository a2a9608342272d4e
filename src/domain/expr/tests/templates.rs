//! Templates, as rows.

use std::borrow::Cow;

use super::super::{EvalErrorKind, Scope, Template};
use super::{ORDER, ROOTS};
use crate::domain::json;

#[test]
fn text_and_expressions_mix() {
    let payload = json::parse(ORDER).unwrap();
    let item = json::parse(r#"{"department": "77", "rate": 1.50e1}"#).unwrap();
    let mut scope = Scope::new();
    scope.bind_json("payload", &payload);
    scope.bind_json("item", &item);
    for (source, expected) in [
        ("1100", "1100"),
        ("", ""),
        ("Order {payload.orderId}", "Order ord-1001"),
        ("60{item.department}", "6077"),
        ("{payload.tax}/{payload.total}", "19.00/119.00"),
        ("{payload.total - payload.tax} net", "100.00 net"),
        ("{ round(payload.tax, 0) }", "19"),
        ("{item.rate}", "15.0"),
        ("{{{payload.count}}}", "{3}"),
        ("a {{b}} c", "a {b} c"),
        ("{'}'}{\"{\"}{'\\'}'}", "}{'}"),
        ("{payload['odd name']}é", "7é"),
        ("{coalesce(payload.nothing, 'none')}", "none"),
    ] {
        let template = Template::parse(source, &ROOTS).unwrap();
        assert_eq!(template.eval(&scope).unwrap(), expected, "{source}");
        assert_eq!(template.source(), source);
    }
    for (source, message) in [
        ("x {payload.nothing}", "`payload.nothing` is missing"),
        ("{payload.paid}", "`payload.paid` is true or false, text or a number is needed"),
        ("{payload.discount}", "`payload.discount` is null, text or a number is needed"),
        ("{payload.lines}", "`payload.lines` is a list, text or a number is needed"),
        ("{payload.customer}", "`payload.customer` is an object, text or a number is needed"),
    ] {
        let error = Template::parse(source, &ROOTS).unwrap().eval(&scope).unwrap_err();
        assert_eq!(error.to_string(), format!("`{source}`: {message}"));
    }
}

#[test]
fn mistakes_are_placed_in_the_template() {
    for (source, offset, message) in [
        ("a {b", 2, "this `{` has no `}`; write `{{` for a brace in the text"),
        ("a {'}", 2, "this `{` has no `}`; write `{{` for a brace in the text"),
        ("a } b", 2, "this `}` has no `{`; write `}}` for a brace in the text"),
        ("ab {}", 4, "the expression is empty"),
        ("ä {paylod.x}", 4, "unknown name `paylod`, did you mean `payload`?"),
    ] {
        let error = Template::parse(source, &ROOTS).expect_err(source);
        assert_eq!((error.offset, error.message.as_str()), (offset, message), "{source}");
    }
}

#[test]
fn a_constant_template_is_known_early_and_not_copied() {
    let template = Template::parse("11{{00", &ROOTS).unwrap();
    assert_eq!(template.literal(), Some("11{00"));
    assert!(matches!(template.eval(&Scope::new()), Ok(Cow::Borrowed("11{00"))));
    let template = Template::parse("60{item.department}", &ROOTS).unwrap();
    assert_eq!(template.literal(), None);
    assert!(template.uses("item") && !template.uses("payload"));
    assert_eq!(template.roots().collect::<Vec<_>>(), ["item"]);
}

#[test]
fn the_text_is_bounded_in_characters() {
    let text = |characters: usize| format!(r#"{{"t":"{}"}}"#, "é".repeat(characters));
    for (characters, fits) in [(999, true), (1_000, false)] {
        let payload_text = text(characters);
        let payload = json::parse(&payload_text).unwrap();
        let mut scope = Scope::new();
        scope.bind_json("payload", &payload);
        let filled = Template::parse("x{payload.t}", &ROOTS).unwrap();
        match filled.eval(&scope) {
            Ok(_) => assert!(fits),
            Err(error) => assert!(!fits && error.kind == EvalErrorKind::TooLarge, "{error}"),
        }
    }
}
