//! The cost of the rules: one order, decoded, mapped and validated, on one core, with few rules and with a thousand.

use std::time::Instant;

use anyhow::Context;
use fis::domain::books::{Books, Mapped};
use fis::domain::event::{RawMessage, decode};

const TIMES: u32 = 50_000;
const MANY: usize = 1_000;

/// Nanoseconds per order.
pub struct Costs {
    pub decode: u128,
    pub map: u128,
    pub map_many: u128,
}

pub fn costs(books: &str, body: &[u8]) -> anyhow::Result<Costs> {
    let header = |_: &str| None;
    let message = RawMessage { body, routing_key: "ecommerce.order.completed", content_type: None, header: &header };
    let event = decode(message, None).map_err(|undecodable| undecodable.failure)?;
    let (head, rules) = books.split_once("[[rules]]").context("the books have no rules")?;
    let rule =
        |n: usize| format!("[[rules]]\nname = \"generated-{n}\"\non = \"generated.rule.n{n}\"\nignore = true\n\n");
    let many = format!("{head}{}[[rules]]{rules}", (0..MANY).map(rule).collect::<String>());
    let compile = |text: &str| Books::parse(text, 1).map_err(|mistakes| anyhow::anyhow!("{} mistakes", mistakes.len()));
    let (few, many) = (compile(books)?, compile(&many)?);
    let now = fis::platform::time::now();
    let map = |books: &Books| matches!(books.map(&event, now), Ok(Mapped::Entry { .. }));
    anyhow::ensure!(map(&few) && map(&many), "the order is not mapped");
    Ok(Costs { decode: each(|| decode(message, None).is_ok()), map: each(|| map(&few)), map_many: each(|| map(&many)) })
}

fn each(run: impl Fn() -> bool) -> u128 {
    let started = Instant::now();
    let done = (0..TIMES).filter(|_| std::hint::black_box(run())).count();
    started.elapsed().as_nanos() / u128::try_from(done.max(1)).unwrap_or(1)
}
