//! The work that one event can cause, whatever it and the rules are made of: within the budget of steps, within a bound of processor time that only a hang
//! would reach, with the same verdict every time. The input is a set of rules and, behind a line `---`, the body of an event. `@shop`, `@payroll`,
//! `@acme` and `@greedy` stand for the books of those names.

use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use fis::domain::books::Books;

use super::adversary::{Adversary, GREEDY, rules};
use super::{CPU_MAX, PIECES, considered};
use crate::fuzzing::{Target, fuzz, mutate, outline};
use crate::shared::{ACME, CHART};
use crate::table::event;

const BETWEEN: &[u8] = b"\n---\n";

/// The named books: tenant, rules, and all compiled.
struct Named {
    name: &'static str,
    text: &'static str,
    books: Books,
}

fn named() -> [Named; 4] {
    let greedy: &'static str = Box::leak(format!("{CHART}{GREEDY}").into_boxed_str());
    let texts = [
        ("@shop", include_str!("../../../books/shop.toml")),
        ("@payroll", include_str!("../../../books/payroll.toml")),
        ("@acme", ACME),
        ("@greedy", greedy),
    ];
    texts.map(|(name, text)| Named { name, text, books: Books::parse(text, 1).unwrap() })
}

fn make(random: &mut Rng, pool: &[Vec<u8>], named: &[Named]) -> Vec<u8> {
    if random.u8(..5) == 0 && !pool.is_empty() {
        return mutate(random, pool, &PIECES, 300 * 1024);
    }
    let some = &named[random.usize(..named.len())];
    let (written, text, tenant) = match random.u8(..3) {
        0 => {
            let rules = rules(random);
            (rules.clone(), rules, "acme".to_owned())
        }
        1 => {
            let greedy = &named[named.len() - 1];
            (greedy.name.to_owned(), greedy.text.to_owned(), greedy.books.tenant_id.to_string())
        }
        _ => (some.name.to_owned(), some.text.to_owned(), some.books.tenant_id.to_string()),
    };
    let body = Adversary::new(random).event(&tenant, &text);
    [written.as_bytes(), BETWEEN, body.as_bytes()].concat()
}

#[test]
fn no_event_takes_more_than_its_steps_or_its_time_whatever_the_rules_are() {
    let named = named();
    let (used_up, posted) = (AtomicU64::new(0), AtomicU64::new(0));
    let target = Target { name: "map", share: 3, folders: &["tests/corpus/map"], cpu_max: CPU_MAX };
    fuzz(
        target,
        |random, pool| make(random, pool, &named),
        |input| {
            let Some(at) = input.windows(BETWEEN.len()).position(|window| window == BETWEEN) else {
                return "no rules".to_owned();
            };
            let (rules, body) =
                (String::from_utf8_lossy(&input[..at]), String::from_utf8_lossy(&input[at + BETWEEN.len()..]));
            let compiled;
            let books = match named.iter().find(|one| one.name == rules) {
                Some(one) => &one.books,
                None => match Books::parse(&format!("{CHART}\n{rules}"), 1) {
                    Ok(books) => {
                        compiled = books;
                        &compiled
                    }
                    Err(mistakes) => return format!("books: {}", outline(&mistakes[0].to_string())),
                },
            };
            // Deep or long beyond what is taken at all: refused before any rule is asked.
            let event = match event(&body) {
                Ok(event) => event,
                Err(refused) => return outline(&format!("{} {}", refused.reason.code(), refused.detail)),
            };
            let shape = considered(books, &event);
            if input.len() % 8 == 0 {
                assert_eq!(shape, considered(books, &event), "another verdict");
            }
            used_up.fetch_add(u64::from(shape.contains("the rules take more than")), Ordering::Relaxed);
            posted.fetch_add(u64::from(shape.starts_with("entry")), Ordering::Relaxed);
            shape
        },
    );
    let (used_up, posted) = (used_up.into_inner(), posted.into_inner());
    println!("{used_up} events used their steps up, {posted} are entries");
    assert!(
        used_up > 0 && posted > 0,
        "the generator comes near nothing: {used_up} used their steps up, {posted} are entries"
    );
}
