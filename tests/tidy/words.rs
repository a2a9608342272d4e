//! Words: every file opens with what it is for, and nothing unfinished is left behind.

use crate::source::{Source, line_of, sources, words};
use crate::{bites, hold, one};

/// What never enters the sources, and what to write instead.
const BANNED: &[(&str, &str)] = &[
    ("todo!", "write it, or open an issue and say `TODO(#n)`"),
    ("unimplemented!", "write it, or make the state impossible"),
    ("dbg!", "use tracing, or remove it"),
    ("FIXME", "mend it before it leaves your branch"),
];

pub fn missing_module_docs(sources: &[Source]) -> Vec<String> {
    let silent = sources.iter().filter(|source| !source.text.starts_with("//! "));
    silent
        .map(|source| format!("src/{}: opens with `//!`: what enters, what leaves, what never happens", source.path))
        .collect()
}

pub fn banned_words(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        for (word, instead) in BANNED {
            // FIXME stands in comments.
            let text = if word.ends_with('!') { &source.code } else { &source.text };
            for at in words(text, word) {
                complaints.push(format!("src/{}:{}: `{word}`: {instead}", source.path, line_of(text, at)));
            }
        }
    }
    complaints
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    hold(&missing_module_docs(sources()));
}

#[test]
fn nothing_unfinished_is_left_behind() {
    hold(&banned_words(sources()));
}

#[test]
fn the_rules_of_words_bite() {
    bites(&missing_module_docs(&one("x.rs", "use std::fmt;\n")), "x.rs");
    for text in ["todo!()", "unimplemented!()", "dbg!(x)", "// FIXME: later"] {
        assert_eq!(banned_words(&one("x.rs", text)).len(), 1, "{text}");
    }
    hold(&banned_words(&one("x.rs", "// never todo!\n")));
}
