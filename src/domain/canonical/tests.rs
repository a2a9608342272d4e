//! The canonical form and the hash, against vectors made by another program and against their own laws.
//!
//! The golden rows were made by this python3 script, which shares nothing with the code under test:
//!
//! ```python
//! import decimal, hashlib, json
//! def number(d):
//!     sign, digits, exp = d.as_tuple()
//!     s = "".join(map(str, digits)).lstrip("0")
//!     if not s: return "0"
//!     t = s.rstrip("0"); exp += len(s) - len(t); minus = "-" if sign else ""
//!     plain = minus + format(decimal.Decimal((0, tuple(map(int, t)), exp)), "f")
//!     return plain if len(plain) <= 64 else f"{minus}{t}e{exp}"
//! def form(v):
//!     if isinstance(v, decimal.Decimal): return number(v)
//!     if isinstance(v, list): return "[" + ",".join(map(form, v)) + "]"
//!     if isinstance(v, dict): return "{" + ",".join(form(k) + ":" + form(v[k]) for k in sorted(v)) + "}"
//!     return json.dumps(v, ensure_ascii=False)
//! def payload_hash(event_type, payload, tenant):
//!     v = json.loads(payload, parse_int=decimal.Decimal, parse_float=decimal.Decimal)
//!     text = form({"eventType": event_type, "payload": v, "tenantId": tenant})
//!     return text, "sha256:" + hashlib.sha256(text.encode()).hexdigest()
//! ```

use std::fmt::Write as _;

use proptest::prelude::*;

use super::{payload_hash, write_canonical};
use crate::domain::json::{Json, parse};

fn canonical(text: &str) -> String {
    let mut out = Vec::new();
    write_canonical(&parse(text).unwrap(), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn forms_and_hashes_equal_those_of_an_independent_program() {
    #[rustfmt::skip]
    let rows = [
        ("{}", "{}", "sha256:591f3ffb80a3ec2ef8a1abd4a401da094b15e865690ebdd2a7f9d25c2acd6cd3"),
        (r#"{"orderId":"ord-1001","currency":"EUR","total":"119.00","tax":"19.00"}"#, r#"{"currency":"EUR","orderId":"ord-1001","tax":"19.00","total":"119.00"}"#, "sha256:77468e26e3cf3665edb4ddd24d25ff32408c7dad53c91ec501210f8dffda1afb"),
        (r#"{"a":1.10,"b":1e2,"c":-0.0,"d":9007199254740993,"e":0.00015,"f":1E400,"g":-12.5e-70,"h":1e63,"i":1e64,"j":-1e63}"#, r#"{"a":1.1,"b":100,"c":0,"d":9007199254740993,"e":0.00015,"f":1e400,"g":-125e-71,"h":1000000000000000000000000000000000000000000000000000000000000000,"i":1e64,"j":-1e63}"#, "sha256:5d9b57412b8994833abb255c60640828bb6faec4fe9f04eee382dead97ba66c2"),
        (r#"{"a":9007199254740992}"#, r#"{"a":9007199254740992}"#, "sha256:3fdb95c7e528d7812ff7d7708d2dbd43c9b93a8b0455cf4aad9f8e2ee636cdf0"),
        (r#"{"a":9007199254740993}"#, r#"{"a":9007199254740993}"#, "sha256:f75c3103f3d50d1ff38e44c79bd5908e81ac6bfb2716c9513bcebec1a5c13697"),
        (r#"{"\uE000":1,"\uD83D\uDE00":2,"\u00e9":3,"z":4,"Z":5,"":6}"#, "{\"\":6,\"Z\":5,\"z\":4,\"é\":3,\"\u{e000}\":1,\"😀\":2}", "sha256:f814f25c5c1266eb62d2e80e9352ac5d3a0c7f61fb7334ecd4ffe1d47933d5ad"),
        (r#"["\u0001\b\t\n\f\r\"\\\/\u007f\u001F é😀\u2028"]"#, "[\"\\u0001\\b\\t\\n\\f\\r\\\"\\\\/\u{7f}\\u001f é😀\u{2028}\"]", "sha256:987a4672795b74473b932d5f706af5c45b011286f96c2c55c57900f968b44e4d"),
        (r#"[[],{},null,true,false,[{"b":[{"d":1,"c":2}],"a":"x"}]]"#, r#"[[],{},null,true,false,[{"a":"x","b":[{"c":2,"d":1}]}]]"#, "sha256:0c594a09ea935eb3f4aa195298da929af5024c9110137136fa4e67b4cc68b7d9"),
    ];
    for (payload, form, hash) in rows {
        assert_eq!(canonical(payload), form, "{payload}");
        assert_eq!(payload_hash("ecommerce.order.completed", &parse(payload).unwrap(), "acme"), hash, "{payload}");
    }
}

#[test]
fn a_number_has_one_text() {
    for (spellings, form) in [
        (&["0", "-0", "0.0", "-0.00", "0e5", "-0E-9999", "0.000e9999"][..], "0"),
        (&["1.1", "1.10", "1.100", "11e-1", "0.11e1", "110E-2"], "1.1"),
        (&["100", "1e2", "1E+2", "1.0e2", "100.00", "1000e-1", "0.001e5"], "100"),
        (&["-0.0015", "-1.5e-3", "-15e-4", "-0.00150"], "-0.0015"),
        (&["12345678901234567.89", "1234567890123456789e-2"], "12345678901234567.89"),
        (&["1e9999", "10e9998"], "1e9999"),
        (&["-25e-9999", "-2.5e-9998"], "-25e-9999"),
        // 64 characters are written out, 65 are not, however they were spelt.
        (&["1e63", "10e62"], "1000000000000000000000000000000000000000000000000000000000000000"),
        (&["1e64", "10000000000000000000000000000000000000000000000000000000000000000"], "1e64"),
        (&["-1e63", "-1000000000000000000000000000000000000000000000000000000000000000"], "-1e63"),
        (&["1e-62"], "0.00000000000000000000000000000000000000000000000000000000000001"),
        (&["1e-63", "0.000000000000000000000000000000000000000000000000000000000000001"], "1e-63"),
        (&["-1e-62"], "-1e-62"),
    ] {
        for spelling in spellings {
            assert_eq!(canonical(spelling), form, "{spelling}");
        }
    }
}

#[test]
fn neighbouring_large_amounts_have_different_hashes() {
    let hash = |text: &str| payload_hash("a.b.c", &parse(text).unwrap(), "acme");
    assert_ne!(hash(r#"{"amount":9007199254740992}"#), hash(r#"{"amount":9007199254740993}"#));
    assert_ne!(hash(r#"{"amount":"1.10"}"#), hash(r#"{"amount":"1.1"}"#), "strings are text, not numbers");
    assert_ne!(hash(r#"{"amount":1}"#), hash(r#"{"amount":"1"}"#));
}

#[test]
fn the_three_parts_of_the_hash_cannot_flow_into_each_other() {
    let payload = parse("{}").unwrap();
    let hashes = [("a", "b"), ("b", "a"), ("ab", ""), ("", "ab"), ("a\",\"payload\":{}", "b")]
        .map(|(event_type, tenant)| payload_hash(event_type, &payload, tenant));
    for (index, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..index].contains(hash), "{index}");
    }
}

/// A tree to be spelt in two ways.
#[derive(Debug, Clone)]
enum Tree {
    Leaf(&'static [&'static str], String),
    List(Vec<Tree>),
    Object(std::collections::BTreeMap<String, Tree>),
}

fn trees() -> impl Strategy<Value = Tree> {
    let spellings: [&[&str]; 6] = [
        &["null"],
        &["true"],
        &["0", "-0", "0e3"],
        &["1.5", "15e-1", "1.50"],
        &["-100", "-1e2", "-100.0"],
        &["9007199254740993", "9007199254740993.0"],
    ];
    let leaf = prop_oneof![
        proptest::sample::select(spellings.to_vec()).prop_map(|spelt| Tree::Leaf(spelt, String::new())),
        "[^\u{0}]{0,12}".prop_map(|text| Tree::Leaf(&[], text)),
    ];
    leaf.prop_recursive(4, 40, 20, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Tree::List),
            proptest::collection::btree_map("[^\u{0}]{0,3}", inner, 0..20).prop_map(Tree::Object),
        ]
    })
}

/// Spells a tree; `seed` decides member order, white space, escapes and number spellings.
fn spell(tree: &Tree, seed: &mut u64, out: &mut String) {
    fn next(seed: &mut u64, below: usize) -> usize {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(*seed >> 33).unwrap() % below
    }
    let space = |seed: &mut u64, out: &mut String| out.push_str(["", " ", "\n\t", "\r  "][next(seed, 4)]);
    let quote = |text: &str, seed: &mut u64, out: &mut String| {
        out.push('"');
        for character in text.chars() {
            let must = character < ' ' || character == '"' || character == '\\';
            if must || next(seed, 5) == 0 {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04X}").unwrap();
                }
            } else {
                out.push(character);
            }
        }
        out.push('"');
    };
    space(seed, out);
    match tree {
        Tree::Leaf([], text) => quote(text, seed, out),
        Tree::Leaf(spellings, _) => out.push_str(spellings[next(seed, spellings.len())]),
        Tree::List(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                spell(element, seed, out);
            }
            out.push(']');
        }
        Tree::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for index in (1..members.len()).rev() {
                members.swap(index, next(seed, index + 1));
            }
            out.push('{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                space(seed, out);
                quote(name, seed, out);
                space(seed, out);
                out.push(':');
                spell(value, seed, out);
            }
            out.push('}');
        }
    }
    space(seed, out);
}

proptest! {
    #[test]
    fn another_spelling_has_the_same_form(tree in trees(), one: u64, other: u64) {
        let [first, second] = [one, other].map(|mut seed| {
            let mut text = String::new();
            spell(&tree, &mut seed, &mut text);
            text
        });
        let form = canonical(&first);
        prop_assert_eq!(&form, &canonical(&second));
        // The form is JSON itself, and its own form.
        prop_assert_eq!(&form, &canonical(&form));
    }

    #[test]
    fn numbers_have_one_form_exactly_if_they_are_equal(mantissa in -99_999_i64..99_999, shift in -80_i32..80, zeros in 0_usize..3) {
        let form = canonical(&format!("{mantissa}e{shift}"));
        let same = canonical(&format!("{mantissa}.{}e{shift}", "0".repeat(zeros + 1)));
        let other = canonical(&format!("{}e{shift}", mantissa + 1));
        prop_assert_eq!(&form, &same);
        prop_assert_ne!(&form, &other);
        prop_assert!(form.len() <= 64);
    }

    #[test]
    fn an_owned_copy_has_the_same_form(tree in trees(), mut seed: u64) {
        let mut text = String::new();
        spell(&tree, &mut seed, &mut text);
        let owned: Json<'static> = parse(&text).unwrap().into_owned();
        let mut out = Vec::new();
        write_canonical(&owned, &mut out);
        prop_assert_eq!(canonical(&text).into_bytes(), out);
    }
}
