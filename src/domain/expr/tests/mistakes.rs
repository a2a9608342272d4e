//! Texts that are not expressions, and what the author is told.

use super::super::{DEPTH_MAX, Expr, SOURCE_BYTES_MAX};
use super::ROOTS;

#[test]
fn the_author_is_told_what_and_where() {
    for (source, offset, message) in [
        ("", 0, "the expression is empty"),
        ("  ", 0, "the expression is empty"),
        ("paylod.total", 0, "unknown name `paylod`, did you mean `payload`?"),
        ("payload.a + itm.b", 12, "unknown name `itm`, did you mean `item`?"),
        ("EUR", 0, "unknown name `EUR`; a literal is written `\"'EUR'\"`, a member of the event is `payload.EUR`"),
        (
            "payload.x == open",
            13,
            "unknown name `open`; a literal is written `'open'`, a member of the event is `payload.open`",
        ),
        ("order.total", 0, "unknown name `order`; a member of the event is `payload.order`"),
        ("payload.a * 1,19", 13, "a number has a point before its decimals and no comma: write it as 1234.50"),
        ("(1,19)", 2, "a number has a point before its decimals and no comma: write it as 1234.50"),
        ("1,05", 1, "a number has a point before its decimals and no comma: write it as 1234.50"),
        ("1,000", 1, "a number has a point before its decimals and no comma: write it as 1234.50"),
        ("1, 2", 1, "unexpected `,`, an operator or the end should stand here"),
        ("True", 0, "unknown name `True`, did you mean `true`?"),
        ("summ(payload.lines)", 0, "unknown function `summ`, did you mean `sum`?"),
        ("sqrt(4)", 0, "unknown function `sqrt`"),
        ("sum", 0, "`sum` is a function: write `sum(…)`"),
        ("sum()", 0, "`sum` takes exactly one value, 0 given"),
        ("1 + round(2)", 4, "`round` takes exactly 2 values, 1 given"),
        ("coalesce(1)", 0, "`coalesce` takes at least 2 values, 1 given"),
        ("min()", 0, "`min` takes at least one value, 0 given"),
        ("round(1, 21)", 9, "`round` takes 0 to 20 digits"),
        ("round(1, -1)", 9, "`round` takes 0 to 20 digits"),
        ("round(1, 1.5)", 9, "`round` takes 0 to 20 digits"),
        ("exists(1 + 2)", 7, "`exists` asks about one member: exists(payload.total)"),
        ("1 +", 3, "the expression ends too early, a value should stand here"),
        ("(1", 2, "the expression ends too early, `)` should stand here"),
        ("1)", 1, "unexpected `)`, an operator or the end should stand here"),
        ("1 2", 2, "unexpected number 2, an operator or the end should stand here"),
        ("1 adn 2", 2, "unexpected `adn` after a complete expression, did you mean `and`?"),
        ("true AND false", 5, "unexpected `AND` after a complete expression, did you mean `and`?"),
        ("and 1", 0, "unexpected `and`, a value should stand here"),
        ("1 < 2 < 3", 6, "comparisons cannot be chained; join two of them with `and`"),
        ("1 == 2 in [true]", 7, "comparisons cannot be chained; join two of them with `and`"),
        ("1e5", 0, "`1e5` is not a number; write it as 1234.50"),
        ("1_000", 0, "`1_000` is not a number; write it as 1234.50"),
        ("007", 0, "`007` is not a number; write it as 1234.50"),
        ("1.", 0, "`1.` is not a number; write it as 1234.50"),
        (".5", 0, "unexpected `.`, a value should stand here"),
        ("12345678901234567890123456789", 0, "`12345678901234567890123456789` has more than 28 digits"),
        ("'open", 0, "this text has no closing quote"),
        (r"'a\n'", 2, "a backslash can only stand before a quote or a backslash"),
        ("‘a’", 0, "write a straight quote (' or \") instead of a curly one"),
        ("1 && 2", 2, "write `and` instead of `&`"),
        ("1 || 2", 2, "write `or` instead of `|`"),
        ("!true", 0, "write `not` instead of `!`"),
        ("1 <> 2", 2, "write `!=` instead of `<>`"),
        ("5 % 2", 2, "unexpected `%`"),
        (
            "payload.",
            8,
            "the expression ends too early, a member name (in ['…'] if it is an odd one) should stand here",
        ),
        ("payload[1.5]", 8, "unexpected number 1.5, a whole number should stand here"),
        ("payload[-1]", 8, "unexpected `-`, `*`, a whole number or a quoted name should stand here"),
        ("payload[0", 9, "the expression ends too early, `]` should stand here"),
        ("[1, ]", 4, "unexpected `]`, a value should stand here"),
        ("sum(1,)", 6, "unexpected `)`, a value should stand here"),
        ("sum(1 2)", 6, "unexpected number 2, `,` or `)` should stand here"),
        ("１", 0, "unexpected `１`"),
    ] {
        let error = Expr::parse(source, &ROOTS).expect_err(source);
        assert_eq!((error.offset, error.message.as_str()), (offset, message), "{source}");
    }
}

#[test]
fn a_root_is_known_only_if_the_caller_allows_it() {
    assert!(Expr::parse("item.gross", &["payload", "item"]).is_ok());
    assert!(Expr::parse("item.gross", &["payload"]).is_err());
}

#[test]
fn length_and_depth_are_bounded_and_chains_are_not_depth() {
    let nested = |levels: usize| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
    assert!(Expr::parse(&nested(DEPTH_MAX - 1), &ROOTS).is_ok());
    for deep in
        [nested(DEPTH_MAX), "-".repeat(900) + "1", "not ".repeat(400) + "true", "[".repeat(900), "abs(".repeat(400)]
    {
        assert_eq!(Expr::parse(&deep, &ROOTS).unwrap_err().message, "nested deeper than 32", "{deep}");
    }
    let chain = vec!["1"; 900].join("+");
    assert!(Expr::parse(&chain, &ROOTS).is_ok());
    let long = "1".to_owned() + &" ".repeat(SOURCE_BYTES_MAX);
    assert_eq!(Expr::parse(&long, &ROOTS).unwrap_err().message, "longer than 2000 bytes");
    assert!(Expr::parse(&long[..SOURCE_BYTES_MAX], &ROOTS).is_ok());
}
