//! Bodies that are no strict JSON: each is refused with one reason, whatever is wrong with it.

use super::{Message, Reason, reason, with_payload};

#[test]
fn what_is_not_strict_json_is_malformed() {
    let deep = |depth: usize| with_payload(&format!(r#"{{"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth)));
    // The body and the payload are two levels already.
    assert_eq!(reason(deep(62).as_bytes()), None);
    assert_eq!(reason(deep(63).as_bytes()), Some(Reason::MalformedJson));
    assert_eq!(reason("[".repeat(200_000).as_bytes()), Some(Reason::MalformedJson));
    for body in ["", " ", "{", "{}}", "{} {}", "\u{feff}{}", "eventId=e", "<xml/>", "{'a':1}", "{a:1}", "{/**/}"] {
        assert_eq!(reason(body.as_bytes()), Some(Reason::MalformedJson), "{body:?}");
    }
    for value in [
        "[1,]",
        "[,1]",
        "{\"a\":1,}",
        "NaN",
        "Infinity",
        "-",
        "+1",
        "01",
        "-01",
        ".5",
        "1.",
        "1e",
        "0x10",
        "1_000",
        "True",
        "nul",
        "\"\t\"",
        "\"\n\"",
        "\"\0\"",
        r#""\u0000""#,
        r#""a\u0000b""#,
        r#""\x41""#,
        r#""\u12""#,
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\udc00\ud800""#,
        r#""\ud800\ud800""#,
        r#""\ud83dx""#,
        "1e10000",
        "1E-10000",
    ] {
        let body = with_payload(&format!(r#"{{"x":{value}}}"#));
        assert_eq!(reason(body.as_bytes()), Some(Reason::MalformedJson), "{value:?}");
    }
    for name in [r#""a\u0000b""#, r#""\ud800""#, "\"\0\""] {
        let body = with_payload(&format!("{{{name}:1}}"));
        assert_eq!(reason(body.as_bytes()), Some(Reason::MalformedJson), "{name:?}");
    }
    assert_eq!(reason(with_payload(r#"{"x":"\ud83d\ude00 \u007f"}"#).as_bytes()), None);
}

#[test]
fn a_member_that_occurs_twice_is_malformed_wherever_it_is() {
    for body in [
        r#"{"eventId":"e","eventId":"e","tenantId":"t","payload":{}}"#,
        r#"{"eventId":"e","event\u0049d":"f","tenantId":"t","payload":{}}"#,
        r#"{"eventId":"e","tenantId":"t","payload":{"total":1,"total":1}}"#,
        r#"{"eventId":"e","tenantId":"t","payload":{"lines":[{"a":1},{"b":1,"\u0062":2}]}}"#,
        r#"{"eventId":"e","tenantId":"t","payload":{},"payload":{}}"#,
    ] {
        let failure = Message::default().decode(body.as_bytes()).unwrap_err().failure;
        assert_eq!(failure.reason, Reason::MalformedJson, "{body}");
        assert!(failure.detail.contains("twice"), "{}", failure.detail);
    }
    // The same name in different objects is no duplicate.
    assert_eq!(reason(with_payload(r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#).as_bytes()), None);
    let many: Vec<String> = (0..1000).map(|n| format!(r#""m{n}":{n}"#)).collect();
    assert_eq!(reason(with_payload(&format!("{{{}}}", many.join(","))).as_bytes()), None);
    assert_eq!(
        reason(with_payload(&format!(r#"{{{},"m7":0}}"#, many.join(","))).as_bytes()),
        Some(Reason::MalformedJson)
    );
}
