//! Laws that hold for every input: no panic, no lost digit.

use proptest::prelude::*;
use rust_decimal::Decimal;

use super::super::{Expr, Scope, Template, exact};
use super::{ORDER, ROOTS};
use crate::domain::json;

/// Mantissas of an amount up to 10^15 with up to six decimals, the largest the ledger books.
const MANTISSA_MAX: i64 = 1_000_000_000_000_000;

fn decimal(mantissa: i64, scale: u32) -> Decimal {
    Decimal::from_i128_with_scale(mantissa.into(), scale)
}

fn power(exponent: u32) -> i128 {
    10_i128.pow(exponent)
}

fn eval(source: &str) -> Decimal {
    Expr::parse(source, &ROOTS).unwrap().eval_decimal(&Scope::new()).unwrap()
}

/// Half-even division of integers, by the schoolbook.
fn half_even(numerator: i128, denominator: i128) -> i128 {
    let (numerator, denominator) = if denominator < 0 { (-numerator, -denominator) } else { (numerator, denominator) };
    let (floor, rest) = (numerator.div_euclid(denominator), numerator.rem_euclid(denominator));
    match (2 * rest).cmp(&denominator) {
        std::cmp::Ordering::Less => floor,
        std::cmp::Ordering::Greater => floor + 1,
        std::cmp::Ordering::Equal => floor + floor.rem_euclid(2),
    }
}

proptest! {
    #[test]
    fn sums_differences_and_products_equal_those_of_integers(
        a in -MANTISSA_MAX..MANTISSA_MAX, b in -MANTISSA_MAX / 1000..MANTISSA_MAX / 1000, s in 0_u32..7, t in 0_u32..7,
    ) {
        let (x, y) = (decimal(a, s), decimal(b, t));
        let common = s.max(t);
        let (wide_a, wide_b) = (i128::from(a) * power(common - s), i128::from(b) * power(common - t));
        prop_assert_eq!(eval(&format!("{x} + {y}")), Decimal::from_i128_with_scale(wide_a + wide_b, common));
        prop_assert_eq!(eval(&format!("{x} - {y}")), Decimal::from_i128_with_scale(wide_a - wide_b, common));
        let product = i128::from(a) * i128::from(b);
        prop_assert_eq!(eval(&format!("{x} * {y}")), Decimal::from_i128_with_scale(product, s + t));
        prop_assert_eq!(eval(&format!("{x} + {y} - {y}")), x);
        prop_assert_eq!(eval(&format!("max({x}, {y}) + min({x}, {y})")), eval(&format!("{y} + {x}")));
        let less = Expr::parse(&format!("{x} < {y}"), &ROOTS).unwrap().eval_bool(&Scope::new()).unwrap();
        prop_assert_eq!(less, wide_a < wide_b);
    }

    #[test]
    fn a_rounded_quotient_equals_that_of_integers(
        a in -MANTISSA_MAX..MANTISSA_MAX, b in -1_000_000_i64..1_000_000, s in 0_u32..7, t in 0_u32..7, digits in 0_u32..7,
    ) {
        prop_assume!(b != 0);
        let (x, y) = (decimal(a, s), decimal(b, t));
        let expected = half_even(i128::from(a) * power(t + digits), i128::from(b) * power(s));
        let found = eval(&format!("round({x} / {y}, {digits})"));
        prop_assert_eq!(found, Decimal::from_i128_with_scale(expected, digits));
        prop_assert_eq!(found.scale(), digits);
        prop_assert_eq!(eval(&format!("{x} / {y} * {y}")), x, "divided last");
    }

    #[test]
    fn a_bare_quotient_is_as_near_as_its_decimals_allow(a in -MANTISSA_MAX..MANTISSA_MAX, b in 1_i64..10_000) {
        // 20 decimals, and one fewer for every digit of the integer part beyond four.
        let integer_digits = (a / b).unsigned_abs().checked_ilog10().map_or(0, |log| log + 1);
        let decimals = 20 - integer_digits.saturating_sub(4);
        let expected = half_even(i128::from(a) * power(decimals), i128::from(b));
        prop_assert_eq!(eval(&format!("{a} / {b}")), Decimal::from_i128_with_scale(expected, decimals));
    }

    #[test]
    fn any_two_decimals_are_added_and_multiplied_exactly_or_not_at_all(
        a in -9_999_999_999_999_999_999_999_999_999_i128..9_999_999_999_999_999_999_999_999_999, b in any::<i64>(), s in 0_u32..29, t in 0_u32..29,
    ) {
        let (x, y) = (Decimal::from_i128_with_scale(a, s), Decimal::from_i128_with_scale(b.into(), t));
        if let Some(sum) = exact::add(x, y) {
            // Taking both away again exactly must leave nothing.
            let rest = exact::subtract(sum, y);
            prop_assert!(rest.is_none() || rest == Some(x));
            prop_assert!(sum.mantissa().unsigned_abs() < 10_u128.pow(28));
        }
        if let (Some(product), false) = (exact::multiply(x, y), b == 0) {
            let (p, q) = (product.normalize(), (x.normalize(), y.normalize()));
            // The product's digits divided by one factor's are the other's: compare with remainders, no rounding.
            let lifted = q.0.mantissa().checked_mul(q.1.mantissa());
            if let Some(lifted) = lifted {
                let shift = q.0.scale() + q.1.scale() - p.scale();
                prop_assert_eq!(p.mantissa() * power(shift), lifted);
            }
        }
    }

    #[test]
    fn order_holds_between_decimals_of_any_length_and_scale(
        a in -9_999_999_999_999_999_999_999_999_999_i128..9_999_999_999_999_999_999_999_999_999, b in any::<i64>(), s in 0_u32..29, t in 0_u32..29,
    ) {
        let (x, y) = (Decimal::from_i128_with_scale(a, s), Decimal::from_i128_with_scale(b.into(), t));
        // Integer part first, then the decimals, both filled up to 28 digits.
        let parts = |number: Decimal| {
            let mantissa = number.mantissa();
            let unit = power(number.scale());
            (mantissa.div_euclid(unit), mantissa.rem_euclid(unit) * power(28 - number.scale()))
        };
        let less = Expr::parse(&format!("{x} < {y}"), &ROOTS).unwrap().eval_bool(&Scope::new()).unwrap();
        prop_assert_eq!(less, parts(x) < parts(y));
        let equal = Expr::parse(&format!("{x} == {y}"), &ROOTS).unwrap().eval_bool(&Scope::new()).unwrap();
        prop_assert_eq!(equal, parts(x) == parts(y));
    }

    #[test]
    fn no_text_makes_the_parser_panic(source in any::<String>()) {
        let _ = Expr::parse(&source, &ROOTS);
        let _ = Template::parse(&source, &ROOTS);
    }

    #[test]
    fn nothing_that_looks_like_an_expression_makes_anything_panic(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "payload", ".total", ".tax", ".lines", "[*]", "[0]", ".net", ".tags", ".big", ".tiny", ".mixed", "['odd name']", "item", " ",
            "1", "0", "2.50", "0.0000000001", "9999999999999999999999999999", "'x'", "\"7\"", "true", "null", "+", "-", "*", "/", "(", ")",
            "[", "]", ",", "==", "!=", "<", ">=", " and ", " or ", " not ", " in ", "sum(", "round(", "min(", "coalesce(", "exists(", "abs(", "count(",
            "{", "}", "é", "\\",
        ]), 1..24),
    ) {
        let source = parts.concat();
        let payload = json::parse(ORDER).unwrap();
        let mut scope = Scope::new();
        scope.bind_json("payload", &payload);
        if let Ok(expression) = Expr::parse(&source, &ROOTS) {
            if let Err(error) = expression.eval(&scope) {
                prop_assert!(!error.message.is_empty() && error.expression == source);
            }
            let _ = expression.eval_list(&scope);
            let _ = expression.eval_text(&scope);
        }
        if let Ok(template) = Template::parse(&source, &ROOTS) {
            let _ = template.eval(&scope);
        }
    }

    #[test]
    fn operators_between_arbitrary_values_never_panic(
        op in proptest::sample::select(vec!["+", "-", "*", "/", "==", "<", "and", "in"]),
        left in proptest::sample::select(vec!["payload.big", "payload.tiny", "payload.total", "payload.word", "payload.lines", "payload.none", "0", "payload.lines[*].net", "[1]", "null", "true"]),
        right in proptest::sample::select(vec!["payload.big", "payload.tiny", "payload.tax", "payload.customer", "payload.hugeText", "0", "payload.prices", "payload.empty", "'x'"]),
        wrap in proptest::sample::select(vec!["", "abs", "sum", "count", "max", "not "]),
    ) {
        let payload = json::parse(ORDER).unwrap();
        let mut scope = Scope::new();
        scope.bind_json("payload", &payload);
        let source = format!("{wrap}({left} {op} {right})");
        let _ = Expr::parse(&source, &ROOTS).unwrap().eval(&scope);
    }
}

#[test]
fn the_deepest_input_fits_a_small_stack() {
    let levels = super::super::DEPTH_MAX - 1;
    let source = format!("{}true{}", "false or true and true == (".repeat(levels), ")".repeat(levels));
    let document = format!("{}{}", "{\"a\":[".repeat(32), "]}".repeat(32));
    // Measured: under 384 KiB in a debug build, under 128 KiB in a release. Tokio's threads have 2 MiB.
    std::thread::Builder::new()
        .stack_size(1024 * 1024)
        .spawn(move || {
            let expression = Expr::parse(&source, &ROOTS).unwrap();
            assert!(expression.eval(&Scope::new()).is_ok());
            let mut out = Vec::new();
            crate::domain::canonical::write_canonical(&json::parse(&document).unwrap(), &mut out);
            assert_eq!(out.len(), document.len());
        })
        .unwrap()
        .join()
        .unwrap();
}
