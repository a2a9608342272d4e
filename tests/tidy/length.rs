//! Length: a file is cut where its idea ends, which mostly is before it is long.

use crate::source::{Source, identifier, line_of, sources, sources_of, words};
use crate::{bites, hold, one};

/// A file fits a sitting: above it, look for the place where its idea ends.
const FILE_LINES_ADVISED: usize = 300;
/// A file that is longer tells more than one thing.
const FILE_LINES_MAX: usize = 450;
/// A function fits a screen.
const FUNCTION_LINES_MAX: usize = 70;

/// The folders whose files are counted.
const FOLDERS: &[&str] = &["src", "tests", "crates", "examples"];

/// Functions that are longer than a screen, with their size: they may shrink, never grow, and nothing may join them.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

/// Files above a limit, each with what to do about it.
fn long_files(folder: &str, sources: &[Source], most: usize) -> Vec<String> {
    let told = |source: &Source| {
        let lines = source.text.lines().count();
        (lines > most)
            .then(|| format!("{folder}/{}: {lines} lines, {most} are enough: cut it where an idea ends", source.path))
    };
    sources.iter().filter_map(told).collect()
}

/// Every function with its first line and its length.
fn functions(source: &Source) -> Vec<(String, usize, usize)> {
    let code = &source.code;
    let mut functions = Vec::new();
    for at in words(code, "fn ") {
        let name = identifier(&code[at + 3..]);
        let (mut depth, mut body) = (0i32, None);
        for (offset, character) in code[at..].char_indices() {
            match character {
                '(' | '[' => depth += 1,
                ')' | ']' => depth -= 1,
                // The end of a declaration without a body.
                ';' if depth == 0 => break,
                '{' if depth == 0 => {
                    body = Some(at + offset);
                    break;
                }
                _ => {}
            }
        }
        let Some(body) = body.filter(|_| !name.is_empty()) else { continue };
        let mut braces = 0;
        let end = code[body..].char_indices().find(|(_, character)| {
            match character {
                '{' => braces += 1,
                '}' => braces -= 1,
                _ => {}
            }
            braces == 0
        });
        let end = end.map_or(code.len(), |(offset, _)| body + offset);
        functions.push((name.to_owned(), line_of(code, at), code[at..end].matches('\n').count() + 1));
    }
    functions
}

pub fn long_functions(sources: &[Source], known: &[(&str, &str, usize)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        for (name, line, lines) in functions(source) {
            let listed = known.iter().find(|(path, function, _)| *path == source.path && *function == name);
            let most = listed.map_or(FUNCTION_LINES_MAX, |(_, _, lines)| *lines);
            if lines > most {
                complaints.push(format!("src/{}:{line}: `{name}` has {lines} lines, at most {most}", source.path));
            }
        }
    }
    for (path, function, _) in known {
        let of = |source: &&Source| source.path == *path;
        let still_long =
            sources.iter().filter(of).flat_map(functions).any(|(n, _, l)| n == *function && l > FUNCTION_LINES_MAX);
        if !still_long {
            complaints.push(format!("src/{path}: `{function}` is no longer long; take it off tidy's LONG_FUNCTIONS"));
        }
    }
    complaints
}

#[test]
fn every_file_fits_a_sitting() {
    let above = |most: usize| -> Vec<String> {
        FOLDERS.iter().flat_map(|folder| long_files(folder, &sources_of(folder), most)).collect()
    };
    for advice in above(FILE_LINES_ADVISED) {
        eprintln!("advice: {advice}");
    }
    hold(&above(FILE_LINES_MAX));
}

#[test]
fn every_function_fits_a_screen() {
    hold(&long_functions(sources(), LONG_FUNCTIONS));
}

#[test]
fn the_rules_of_length_bite() {
    let long = "//! x\n".repeat(FILE_LINES_MAX + 1);
    bites(&long_files("src", &one("x.rs", &long), FILE_LINES_MAX), "src/x.rs: 451 lines, 450 are enough");
    bites(&long_files("tests", &one("x.rs", &long), FILE_LINES_ADVISED), "tests/x.rs: 451 lines, 300 are enough");
    hold(&long_files("src", &one("x.rs", &"//! x\n".repeat(FILE_LINES_MAX)), FILE_LINES_MAX));

    let body = |lines: usize| format!("fn f<T>(a: [u8; 2]) -> T\nwhere\n    T: X,\n{{{}}}\n", "\n".repeat(lines - 4));
    bites(&long_functions(&one("x.rs", &body(71)), &[]), "`f` has 71 lines");
    hold(&long_functions(&one("x.rs", &body(70)), &[]));
    hold(&long_functions(&one("x.rs", &body(71)), &[("x.rs", "f", 71)]));
    bites(&long_functions(&one("x.rs", &body(70)), &[("x.rs", "f", 71)]), "no longer long");
    hold(&long_functions(&one("x.rs", &format!("trait T {{ fn g(&self); }}\n{}", "\n".repeat(100))), &[]));
}
