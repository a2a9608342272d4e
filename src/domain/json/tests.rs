//! The reader and the numbers, as rows.

use std::borrow::Cow;

use proptest::prelude::*;
use rust_decimal::Decimal;

use super::{Json, JsonErrorKind as Kind, NumberError, decimal_from_str, parse};

fn kind(text: &str) -> Kind {
    parse(text).expect_err(text).kind
}

#[test]
fn what_the_grammar_allows_is_read() {
    for text in [
        "null",
        " true ",
        "\t\r\nfalse\n",
        "0",
        "-0",
        "-1.5E+10",
        "1e-9999",
        "\"\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1,[2,[]]]",
        r#"{"a":{"a":{"a":1}},"b":1}"#,
        r#"["\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"]"#,
        "\"\u{7f}\u{fffe}é😀\"",
        "\"\u{feff}\"",
    ] {
        assert!(parse(text).is_ok(), "{text}: {:?}", parse(text));
    }
}

#[test]
fn what_the_grammar_does_not_allow_is_refused() {
    for text in [
        "",
        " ",
        "nul",
        "nulll",
        "True",
        "NaN",
        "Infinity",
        "-Infinity",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e5",
        "1e",
        "1e+",
        "--1",
        "0x1",
        "1_000",
        "１",
        "'a'",
        "\"",
        "\"a",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u+123\"",
        "\"\\u12G4\"",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,]",
        "[1 2]",
        "]",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "{1:1}",
        "{\"a\":1 \"b\":2}",
        "{,}",
        "1 2",
        "{} {}",
        "[]]",
        "// c\n1",
        "1 // c",
        "/* */1",
        "\u{a0}1",
        "\u{b}1",
        "1\u{0}",
        "[1}",
        "{\"a\":1]",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn each_mistake_has_its_kind() {
    let number = |digits: usize| "1".repeat(digits);
    for (text, expected) in [
        ("\u{feff}{}", Kind::ByteOrderMark),
        ("{} x", Kind::TrailingData),
        ("01", Kind::LeadingZero),
        ("-00.5", Kind::LeadingZero),
        ("\"a\nb\"", Kind::ControlCharacter),
        ("\"a\u{0}b\"", Kind::ControlCharacter),
        (r#""\u0000""#, Kind::NulCharacter),
        (r#"{"a\u0000":1}"#, Kind::NulCharacter),
        (r#""\ud800""#, Kind::LoneSurrogate),
        (r#""\ud800x""#, Kind::LoneSurrogate),
        (r#""\ud800\n""#, Kind::LoneSurrogate),
        (r#""\ud800\ud800""#, Kind::LoneSurrogate),
        (r#""\ude00\ud83d""#, Kind::LoneSurrogate),
        (r#""\q""#, Kind::BadEscape),
        (r#""\ud800\u12""#, Kind::BadEscape),
        ("1e10000", Kind::ExponentTooLarge),
        ("1e-10000", Kind::ExponentTooLarge),
        ("1e99999999999999999999", Kind::ExponentTooLarge),
        (&number(257), Kind::NumberTooLong),
        (&format!("{}1{}", "[".repeat(65), "]".repeat(65)), Kind::TooDeep),
        (&"[".repeat(100_000), Kind::TooDeep),
        (&r#"{"a":"#.repeat(100_000), Kind::TooDeep),
        (r#"{"a":1,"a":1}"#, Kind::DuplicateMember { name: "a".into() }),
        (r#"{"ab":1,"x":{"ab":2},"\u0061b":3}"#, Kind::DuplicateMember { name: "ab".into() }),
        ("[tru]", Kind::Unexpected { found: 't', expected: "a value" }),
        ("[1", Kind::UnexpectedEnd { expected: "`,` or `]`" }),
    ] {
        assert_eq!(kind(text), expected, "{}", &text[..text.len().min(80)]);
    }
    assert!(parse(&number(256)).is_ok());
    assert!(parse("1e00009999").is_ok());
    assert!(parse(&format!("{}1{}", "[".repeat(64), "]".repeat(64))).is_ok());
    assert!(parse(r#"{"a":{"a":1},"b":[{"a":1},{"a":1}]}"#).is_ok());
}

#[test]
fn a_duplicate_is_found_in_a_large_object_too() {
    for (count, one, other) in [(16, 0, 15), (17, 0, 16), (17, 15, 16), (40, 3, 20), (40, 20, 39), (20_000, 77, 19_999)]
    {
        let members: Vec<String> = (0..count)
            .map(|index| format!("\"k{}\":{{\"x\":1,\"y\":{index}}}", if index == other { one } else { index }))
            .collect();
        let text = format!("[{{\"z\":{{{}}}}}]", members.join(","));
        let error = parse(&text).unwrap_err();
        assert_eq!(error.kind, Kind::DuplicateMember { name: format!("k{one}") });
        let name = format!("\"k{one}\"");
        assert_eq!(error.offset, text.rfind(&name).unwrap(), "the second one is pointed at");
    }
}

#[test]
fn the_place_is_told_in_lines_and_characters() {
    let error = parse("{\n  \"größe\": 01\n}").unwrap_err();
    assert_eq!((error.line, error.column, error.offset), (2, 12, 15));
    assert_eq!(error.to_string(), "a number starts with a superfluous zero at line 2, column 12");
    assert_eq!(
        parse(r#"{"a":1,"a":2}"#).unwrap_err().to_string(),
        "the member `a` occurs twice in one object at line 1, column 8"
    );
    assert_eq!(
        parse("[1;]").unwrap_err().to_string(),
        "unexpected `;`, `,` or `]` should stand here at line 1, column 3"
    );
    assert_eq!(parse("").unwrap_err().to_string(), "the text ends where a value should follow at line 1, column 1");
    let long = format!(r#"{{"{0}":1,"{0}":2}}"#, "n".repeat(500));
    assert!(parse(&long).unwrap_err().to_string().len() < 150, "names from outside are cut");
}

#[test]
fn members_keep_their_order_and_plain_text_is_borrowed() {
    let json = parse(r#"{"b":"plain","a":"with \n escape","c":[1.50,null,true]}"#).unwrap();
    let members = json.as_object().unwrap();
    assert_eq!(members.iter().map(|(name, _)| name.as_ref()).collect::<Vec<_>>(), ["b", "a", "c"]);
    assert!(matches!(json.get("b"), Some(Json::String(Cow::Borrowed("plain")))));
    assert!(matches!(json.get("a"), Some(Json::String(Cow::Owned(text))) if text == "with \n escape"));
    let [Json::Number(number), Json::Null, Json::Bool(true)] = json.get("c").unwrap().as_array().unwrap() else {
        panic!("{json:?}")
    };
    assert_eq!(number.text(), "1.50");
    assert_eq!(json.get("d"), None);
    assert_eq!(json.clone().into_owned(), json);
}

#[test]
fn a_member_is_found_among_any_number_of_them_and_few_are_looked_at() {
    for count in [0, 1, 2, 15, 16, 17, 18, 31, 100, 5_000] {
        // Neither in the order of their names nor against it, and with names that begin alike.
        let name = |n: usize| format!("m{}", (n * 7919) % 10_007);
        let members: Vec<String> = (0..count).map(|n| format!("\"{}\":{n}", name(n))).collect();
        let text = format!("{{{}}}", members.join(","));
        let json = parse(&text).unwrap();
        let Json::Object(object) = &json else { panic!("{json:?}") };
        assert_eq!(
            object.as_slice().iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>(),
            (0..count).map(name).collect::<Vec<_>>()
        );
        for n in 0..count {
            let (found, looks) = object.find(&name(n));
            assert!(matches!(found, Some(Json::Number(number)) if number.text() == n.to_string()), "{n} of {count}");
            assert!(looks <= 16, "{looks} of {count}");
        }
        for absent in ["", "a", "m", "m1x", "z", "é"] {
            let (found, looks) = object.find(absent);
            assert!(found.is_none() && looks <= 16, "{absent} of {count}");
        }
        assert_eq!(json.clone().into_owned(), json);
        // One more of a name that is there, however far back.
        if count > 0 {
            let twice = format!("{{{},\"{}\":0}}", members.join(","), name(count / 2));
            let error = parse(&twice).unwrap_err();
            assert_eq!(error.kind, Kind::DuplicateMember { name: name(count / 2) });
            assert_eq!(error.offset, text.len(), "the later one is pointed at");
        }
    }
}

#[test]
fn json_numbers_are_exact_decimals() {
    use NumberError::{TooManyDecimals, TooManyDigits};
    for (text, expected) in [
        ("0", Ok("0")),
        ("-0", Ok("0")),
        ("-0.00", Ok("0.00")),
        ("1.10", Ok("1.10")),
        ("1e2", Ok("100")),
        ("1.5e-3", Ok("0.0015")),
        ("-1.50E1", Ok("-15.0")),
        ("12.5e1", Ok("125")),
        ("0e9999", Ok("0")),
        ("0.0e5", Ok("0")),
        ("99999999999999.99", Ok("99999999999999.99")),
        ("9007199254740993", Ok("9007199254740993")),
        ("18446744073709551615", Ok("18446744073709551615")),
        ("9999999999999999999", Ok("9999999999999999999")),
        ("9999999999999999999999999999", Ok("9999999999999999999999999999")),
        ("-99999999999999.99999999999999", Ok("-99999999999999.99999999999999")),
        ("0.0000000000000000000000000001", Ok("0.0000000000000000000000000001")),
        ("1e27", Ok("1000000000000000000000000000")),
        ("1e-28", Ok("0.0000000000000000000000000001")),
        ("1e28", Err(TooManyDigits)),
        ("1e9999", Err(TooManyDigits)),
        ("10000000000000000000000000000", Err(TooManyDigits)),
        ("1.0000000000000000000000000001", Err(TooManyDigits)),
        ("1234567890123456789012345678901234567890", Err(TooManyDigits)),
        ("1e-29", Err(TooManyDecimals)),
        ("0.00000000000000000000000000001", Err(TooManyDecimals)),
        ("1e-9999", Err(TooManyDecimals)),
    ] {
        let Json::Number(number) = parse(text).unwrap() else { panic!("{text}") };
        assert_eq!(number.to_decimal().map(|decimal| decimal.to_string()), expected.map(str::to_owned), "{text}");
    }
}

#[test]
fn a_string_spells_a_number_in_one_shape_only() {
    for good in ["0", "-0", "7", "-7.50", "0.001", "119.00", "9999999999999999999999999999"] {
        let expected = Decimal::from_str_exact(good).unwrap();
        assert_eq!(decimal_from_str(good), Ok(expected), "{good}");
    }
    for bad in [
        "", "-", "+1", "--1", "01", "-01", "00", "1.", ".5", "-.5", "1.2.3", "1e3", "1E3", "1_000", "1,000", " 1",
        "1 ", "１２", "٣", "NaN", "inf", "0x10", "1-", "abc", "1.5e", "−1", "1.-5", "1\u{0}",
    ] {
        assert_eq!(decimal_from_str(bad), Err(NumberError::NotANumber), "{bad}");
    }
    assert!(!decimal_from_str("-0.0").unwrap().is_sign_negative());
    assert_eq!(decimal_from_str("10000000000000000000000000000"), Err(NumberError::TooManyDigits));
    assert_eq!(decimal_from_str("0.00000000000000000000000000001"), Err(NumberError::TooManyDecimals));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn nothing_that_looks_like_json_makes_the_reader_panic(text in r#"([\[\]{}:,"0-9a-f.eE+\-\\u \n]|true|null|\\ud83d|\\ude00|é|😀){0,60}"#) {
        if let Err(error) = parse(&text) {
            prop_assert!(error.offset <= text.len() && error.line >= 1 && error.column >= 1);
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn number_text_and_decimal_agree(mantissa in any::<i64>(), scale in 0_u32..19) {
        let decimal = Decimal::from_i128_with_scale(mantissa.into(), scale);
        let text = decimal.to_string();
        prop_assert_eq!(decimal_from_str(&text), Ok(decimal));
        let Ok(Json::Number(number)) = parse(&text) else { panic!("{text}") };
        prop_assert_eq!(number.to_decimal(), Ok(decimal));
        prop_assert_eq!(number.to_decimal().unwrap().scale(), scale);
    }
}
