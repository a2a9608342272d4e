//! Fuzzing, briefly and on every run: files of `tests/corpus`, and books, are mutated by a seeded generator and given to the decoder, the
//! expressions and the books. No panic, no hang, no float: a value that comes out is exact, or it is an error. A seed that finds
//! something is printed; put the input into the corpus.
//!
//! `FUZZ_SECONDS=600 cargo test --test model fuzz` runs longer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fis::domain::books::Books;
use fis::domain::event::{RawMessage, decode};
use fis::domain::expr::{Expr, Scope, Template};
use fis::domain::json;

use crate::project_file;

/// Per target, where the environment does not say otherwise.
const SECONDS: u64 = 3;
/// Much longer than any bounded input may take, also in a debug build on a busy machine.
const HANG: Duration = Duration::from_secs(10);
/// Pieces that inputs of this kind are made of; mutations put them in.
const PIECES: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "null",
    "true",
    "-0",
    "1e400",
    "9007199254740993",
    "0.1",
    "\\ud800",
    "\\u0000",
    "payload",
    "item",
    ".",
    "(",
    ")",
    "*",
    "/",
    "-",
    "+",
    "==",
    "and",
    "or",
    "not",
    "sum(",
    "round(",
    "coalesce(",
    "[*]",
    "'",
    "{{",
    "[[rules]]\n",
    "lines = [",
    "on = \"#\"",
    "99999999999999999999999999999",
    "é\u{202e}",
];

/// The files of these folders of the project, in the order of their names.
fn corpus(folders: &[&str]) -> Vec<Vec<u8>> {
    let files = |folder: &&str| std::fs::read_dir(project_file(folder)).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = folders.iter().flat_map(files).collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn mutate(random: &mut fastrand::Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = corpus[random.usize(..corpus.len())].clone();
    for _ in 0..random.usize(1..8) {
        let at = random.usize(..=input.len());
        match random.u8(..6) {
            0 => drop(input.splice(at..at, PIECES[random.usize(..PIECES.len())].bytes())),
            1 if !input.is_empty() => {
                let last = input.len() - 1;
                input[at.min(last)] = random.u8(..);
            }
            2 => input.truncate(at),
            3 => {
                let end = random.usize(at..=input.len());
                input.drain(at..end);
            }
            4 => {
                let end = random.usize(at..=input.len().min(at + 40));
                let piece = input[at..end].repeat(random.usize(1..6));
                input.splice(at..at, piece);
            }
            _ => {
                let other = &corpus[random.usize(..corpus.len())];
                let from = random.usize(..=other.len());
                input.splice(at..at, other[from..].iter().copied());
            }
        }
    }
    input.truncate(16 * 1024);
    input
}

fn fuzz(target: &str, folders: &[&str], run: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    let corpus = corpus(folders);
    corpus.iter().for_each(|input| run(input));
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut count = 0u64;
    while Instant::now() < end {
        let seed = fastrand::u64(..);
        let input = mutate(&mut fastrand::Rng::with_seed(seed), &corpus);
        let started = Instant::now();
        let ended = std::panic::catch_unwind(|| run(&input));
        let told = || format!("{target}, seed {seed}: {:?}", String::from_utf8_lossy(&input));
        assert!(ended.is_ok(), "panicked: {}", told());
        assert!(started.elapsed() < HANG, "hung: {}", told());
        count += 1;
    }
    println!("{target}: {count} inputs");
}

#[test]
fn no_message_makes_the_decoder_or_a_rule_panic_or_hang() {
    let books = Books::parse(include_str!("../../books/shop.toml"), 1).unwrap();
    fuzz("decode", &["tests/corpus/decode"], |input| {
        let header = |_: &str| None;
        let message =
            RawMessage { body: input, routing_key: "ecommerce.order.completed", content_type: None, header: &header };
        if let Ok(event) = decode(message, None) {
            let now = chrono::DateTime::UNIX_EPOCH;
            if let Ok(fis::domain::books::Mapped::Entry { entry, .. }) = books.map(&event, now) {
                let sum = |side| {
                    entry
                        .lines()
                        .iter()
                        .filter(|line| line.side == side)
                        .map(|line| line.base_amount)
                        .sum::<rust_decimal::Decimal>()
                };
                assert_eq!(sum(fis::domain::entry::Side::Debit), sum(fis::domain::entry::Side::Credit));
            }
        }
    });
}

#[test]
fn no_text_makes_an_expression_panic_or_hang() {
    let payload =
        json::parse(r#"{"total":"119.00","tax":19,"lines":[{"net":1},{"net":"2.5"}],"name":"x","odd name":true}"#)
            .unwrap();
    fuzz("expr", &["tests/corpus/expr"], |input| {
        let text = String::from_utf8_lossy(input);
        let mut scope = Scope::new();
        scope.bind_json("payload", &payload);
        if let Ok(expr) = Expr::parse(&text, &["payload", "item"]) {
            let _ = expr.eval(&scope);
        }
        if let Ok(template) = Template::parse(&text, &["payload", "item"]) {
            let _ = template.eval(&scope);
        }
    });
}

#[test]
fn no_file_makes_the_books_panic_or_hang() {
    fuzz("books", &["books", "tests/support/books"], |input| {
        if let Err(mistakes) = Books::parse(&String::from_utf8_lossy(input), 1) {
            assert!(!mistakes.is_empty(), "refused without a word");
        }
    });
}
