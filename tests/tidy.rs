//! The project's manners, tested. The sources enter as text; every breach of a rule leaves as one line that says what to do.
//! Each rule is a function from sources to complaints, so that a test below can show that it bites.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failing test is what a test is for"
)]

use std::path::{Path, PathBuf};

/// A file fits a sitting.
const FILE_LINES_MAX: usize = 300;
/// A function fits a screen.
const FUNCTION_LINES_MAX: usize = 70;

/// Files that are longer than a sitting, with their size: they may shrink, never grow, and nothing may join them.
const LONG_FILES: &[(&str, usize)] = &[];
/// The same for functions.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

/// What each room may use, besides itself. `lib.rs` only lists the rooms; `main.rs` is the hall.
const LAYERS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("platform", &[]),
    ("intake", &["domain", "platform"]),
    ("journal", &["domain", "platform"]),
    ("outbox", &["domain", "platform"]),
    ("parking", &["domain", "platform"]),
    ("pipeline", &["domain", "platform", "intake", "journal", "outbox", "parking"]),
    ("admin", &["domain", "platform", "intake", "journal", "outbox", "parking"]),
    ("desk", &["domain", "platform", "intake", "journal", "outbox", "parking", "pipeline"]),
    ("service", &["domain", "platform", "intake", "journal", "outbox", "parking", "pipeline", "admin"]),
    ("cli", &["domain", "platform", "intake", "journal", "outbox", "parking", "pipeline", "admin", "desk", "service"]),
];

/// The crates the ledger's own words may be written with: values, hashes, dates and texts; nothing that does anything.
const DOMAIN_CRATES: &[&str] =
    &["chrono", "chrono_tz", "hex", "iso_currency", "rust_decimal", "serde", "serde_json", "sha2", "thiserror", "toml"];

/// Where a crate or call may be named, and what to use elsewhere.
const ONLY_HERE: &[(&str, &[&str], &str)] = &[
    ("lapin::", &["platform/amqp/"], "speak to the broker through platform::amqp"),
    (
        "deadpool_redis::",
        &["platform/redis.rs", "intake/claim.rs", "intake/ledger.rs", "intake/progress.rs"],
        "Redis is spoken by intake::claim, ledger and progress",
    ),
    ("Utc::now", &["platform/time.rs"], "take the time from platform::time::now, or as an argument"),
    ("Local::now", &[], "take the time from platform::time::now, or as an argument"),
    ("SystemTime::now", &["platform/time.rs"], "take the time from platform::time::now, or as an argument"),
    ("counter!", &["platform/metrics.rs"], "every metric is named in platform::metrics"),
    ("gauge!", &["platform/metrics.rs"], "every metric is named in platform::metrics"),
    ("histogram!", &["platform/metrics.rs"], "every metric is named in platform::metrics"),
    ("println!", &["cli/", "cli.rs", "main.rs"], "only the command line writes to the terminal; log instead"),
    ("print!", &["cli/", "cli.rs", "main.rs"], "only the command line writes to the terminal; log instead"),
    ("eprintln!", &["cli/", "cli.rs", "main.rs"], "only the command line writes to the terminal; log instead"),
    ("eprint!", &["cli/", "cli.rs", "main.rs"], "only the command line writes to the terminal; log instead"),
];

/// Where SQL is written.
const SQL_PLACES: &[&str] = &["platform/postgres", "journal/", "outbox/", "parking/"];
/// SQL that stands elsewhere for now, and why. Nothing may join it.
const SQL_EXCEPTIONS: &[(&str, &str)] = &[
    ("cli/bench/", "the bare posting loop that the service is measured beside is plain SQL on purpose"),
    ("cli/demo/figures.rs", "adds up what the demo did, which no other part asks for"),
];

/// What never enters the sources, and what to write instead.
const BANNED: &[(&str, &str)] = &[
    ("todo!", "write it, or open an issue and say `TODO(#n)`"),
    ("unimplemented!", "write it, or make the state impossible"),
    ("dbg!", "use tracing, or remove it"),
    ("FIXME", "mend it before it leaves your branch"),
];

// --- the sources ------------------------------------------------------------------------------------------------

struct Source {
    /// Below `src/`, with forward slashes.
    path: String,
    text: String,
    /// The text with comments and the insides of strings blanked out; lines stay where they are.
    code: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: code_only(text) }
    }

    /// Tests of a module, in files of their own.
    fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }

    /// The room this file belongs to.
    fn room(&self) -> &str {
        self.path.split('/').next().unwrap_or_default().trim_end_matches(".rs")
    }

    /// The code's lines, numbered from 1.
    fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

fn project() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn sources() -> Vec<Source> {
    let root = project().join("src");
    let source = |file: PathBuf| {
        let path = file.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        Source::new(&path, &std::fs::read_to_string(&file).unwrap())
    };
    files_below(&root, "rs").into_iter().map(source).collect()
}

/// Blanks out comments and the insides of strings and characters.
fn code_only(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let at = |index: usize| characters.get(index).copied().unwrap_or('\0');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut code = String::with_capacity(text.len());
    let mut index = 0;
    while index < characters.len() {
        let end = match (at(index), at(index + 1)) {
            ('/', '/') => (index..characters.len()).find(|&i| at(i) == '\n').unwrap_or(characters.len()),
            ('/', '*') => {
                let (mut depth, mut i) = (1, index + 2);
                while depth > 0 && i < characters.len() {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        _ => i += 1,
                    }
                }
                i
            }
            ('r', '"' | '#') if index == 0 || !is_word(at(index - 1)) || at(index - 1) == 'b' => {
                let hashes = (index + 1..).take_while(|&i| at(i) == '#').count();
                if at(index + 1 + hashes) != '"' {
                    code.push(at(index));
                    index += 1;
                    continue;
                }
                let closes = |&i: &usize| at(i) == '"' && (1..=hashes).all(|n| at(i + n) == '#');
                let close = (index + 2 + hashes..characters.len()).find(closes);
                close.map_or(characters.len(), |i| i + 1 + hashes)
            }
            ('"', _) => after_quote(&characters, index, '"'),
            // A character, not a lifetime: it closes after one character, or begins with a backslash.
            ('\'', '\\') => after_quote(&characters, index, '\''),
            ('\'', _) if at(index + 2) == '\'' => index + 3,
            (other, _) => {
                code.push(other);
                index += 1;
                continue;
            }
        };
        let end = end.min(characters.len());
        // Line ends stay, so that numbers of lines do.
        code.extend(characters[index..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        index = end;
    }
    code
}

fn after_quote(characters: &[char], start: usize, quote: char) -> usize {
    let mut index = start + 1;
    while index < characters.len() && characters[index] != quote {
        index += if characters[index] == '\\' { 2 } else { 1 };
    }
    index + 1
}

/// Where `word` stands in `code` as a word of its own (on the left side; the right side is the caller's).
fn words<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

// --- the rules --------------------------------------------------------------------------------------------------

/// The rooms a source names, with the line: `crate::room`, `crate::{room, …}`, `super::room`.
fn rooms_named(source: &Source) -> Vec<(usize, String)> {
    let is_room = |name: &str| LAYERS.iter().any(|(room, _)| *room == name);
    let mut named = Vec::new();
    for prefix in ["crate::", "super::", "fis::"] {
        for at in words(&source.code, prefix) {
            let rest = &source.code[at + prefix.len()..];
            let line = line_of(&source.code, at);
            let names: Vec<&str> = match rest.strip_prefix('{') {
                Some(group) => top_of_group(group),
                None => vec![identifier(rest)],
            };
            named.extend(names.into_iter().filter(|name| is_room(name)).map(|name| (line, name.to_owned())));
        }
    }
    named
}

/// The first name of each member of `{a::b, c::{d, e}}`, without the opening brace.
fn top_of_group(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut names) = (1, 0, Vec::new());
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && character == ',') {
            names.push(identifier(group[start..at].trim_start()));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    names
}

fn layer_breaches(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let room = source.room();
        let allowed: &[&str] = match LAYERS.iter().find(|(name, _)| *name == room) {
            Some((_, allowed)) => allowed,
            None if room == "lib" => continue,
            None if room == "main" => &["cli"],
            None => {
                complaints
                    .push(format!("src/{}: `{room}` is no room of tidy's LAYERS; give it its place", source.path));
                continue;
            }
        };
        for (line, name) in rooms_named(source) {
            if name != room && !allowed.contains(&name.as_str()) {
                complaints.push(format!("src/{}:{line}: `{room}` may not use `{name}`", source.path));
            }
        }
    }
    complaints
}

fn foreign_crates_in_domain(sources: &[Source], dependencies: &[String]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| source.room() == "domain" && !source.is_test()) {
        for name in dependencies.iter().filter(|name| !DOMAIN_CRATES.contains(&name.as_str())) {
            for (line, code) in source.code_lines() {
                if words(code, &format!("{name}::")).next().is_some() {
                    complaints.push(format!("src/{}:{line}: domain may not use the crate `{name}`", source.path));
                }
            }
        }
        for word in ["std::fs", "std::net", "std::env", "std::process", "std::thread", "Instant::now"] {
            for at in words(&source.code, word) {
                let line = line_of(&source.code, at);
                complaints.push(format!("src/{}:{line}: domain may not touch the world (`{word}`)", source.path));
            }
        }
    }
    complaints
}

/// The names under `[dependencies]`, as Rust spells them.
fn dependencies(manifest: &str) -> Vec<String> {
    let table: toml::Table = toml::from_str(manifest).unwrap();
    table["dependencies"].as_table().unwrap().keys().map(|name| name.replace('-', "_")).collect()
}

fn calls_out_of_place(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        for (call, _, instead) in ONLY_HERE.iter().filter(|(_, places, _)| !source.is_in(places)) {
            for at in words(&source.code, call) {
                let line = line_of(&source.code, at);
                complaints.push(format!("src/{}:{line}: `{call}` has no place here: {instead}", source.path));
            }
        }
    }
    complaints
}

fn sql_out_of_place(sources: &[Source]) -> Vec<String> {
    let writes_sql = |source: &Source| {
        ["sqlx::query", "sqlx::raw_sql", "QueryBuilder"].iter().any(|call| words(&source.code, call).next().is_some())
    };
    let excepted = |source: &Source| SQL_EXCEPTIONS.iter().any(|(place, _)| source.is_in(&[place]));
    sources
        .iter()
        .filter(|source| !source.is_in(SQL_PLACES) && !excepted(source) && writes_sql(source))
        .map(|source| format!("src/{}: SQL is written in {} alone", source.path, SQL_PLACES.join(", ")))
        .collect()
}

fn missing_module_docs(sources: &[Source]) -> Vec<String> {
    let silent = sources.iter().filter(|source| !source.text.starts_with("//! "));
    silent
        .map(|source| format!("src/{}: opens with `//!`: what enters, what leaves, what never happens", source.path))
        .collect()
}

fn banned_words(sources: &[Source]) -> Vec<String> {
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

fn floats_in_domain(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    let money = |source: &&Source| source.room() == "domain" && source.path != "domain/retry.rs";
    for source in sources.iter().filter(money) {
        for float in ["f64", "f32"] {
            for at in words(&source.code, float).filter(|at| identifier(&source.code[*at..]) == float) {
                let line = line_of(&source.code, at);
                complaints.push(format!("src/{}:{line}: `{float}`: money is never a float", source.path));
            }
        }
    }
    complaints
}

fn long_files(sources: &[Source], known: &[(&str, usize)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        let lines = source.text.lines().count();
        let most = known.iter().find(|(path, _)| *path == source.path).map_or(FILE_LINES_MAX, |(_, lines)| *lines);
        if lines > most {
            complaints.push(format!("src/{}: {lines} lines, at most {most}: split it", source.path));
        }
    }
    for (path, _) in known {
        let now = sources.iter().find(|source| source.path == *path).map_or(0, |source| source.text.lines().count());
        if now <= FILE_LINES_MAX {
            complaints.push(format!("src/{path}: no longer long; take it off tidy's LONG_FILES"));
        }
    }
    complaints
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

fn long_functions(sources: &[Source], known: &[(&str, &str, usize)]) -> Vec<String> {
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

/// Files that no `mod` declares are never compiled.
fn unreached_files(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let path = source.path.trim_end_matches(".rs").trim_end_matches("/mod");
        if matches!(path, "lib" | "main") {
            continue;
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parents = match folder {
            "" => vec!["lib.rs".to_owned()],
            folder => vec![format!("{folder}.rs"), format!("{folder}/mod.rs")],
        };
        let declares = |parent: &Source| {
            parents.contains(&parent.path)
                && words(&parent.code, &format!("mod {name}")).any(|at| identifier(&parent.code[at + 4..]) == name)
        };
        if !sources.iter().any(declares) {
            complaints.push(format!("src/{}: no `mod {name}` reaches this file", source.path));
        }
    }
    complaints
}

fn migration_faults(migrations: &[(String, String)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, (name, text)) in migrations.iter().enumerate() {
        let number = format!("{:04}_", index + 1);
        if !name.starts_with(&number) {
            complaints.push(format!("migrations/{name}: the next number is {number}…"));
        }
        if !text.starts_with("-- ") {
            complaints.push(format!("migrations/{name}: opens with the meaning of its tables, as a comment"));
        }
    }
    complaints
}

fn unnamed_points(points: &[&str], tests: &str) -> Vec<String> {
    let named = |point: &str| tests.contains(point) || tests.contains(&point.to_uppercase());
    points
        .iter()
        .filter(|point| !named(point))
        .map(|point| format!("no test in tests/faults names `{point}`"))
        .collect()
}

// --- the rules hold ---------------------------------------------------------------------------------------------

#[track_caller]
fn hold(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn every_room_uses_only_the_layers_below_it() {
    hold(&layer_breaches(&sources()));
}

#[test]
fn the_domain_uses_no_client_crate_and_touches_nothing() {
    let manifest = std::fs::read_to_string(project().join("Cargo.toml")).unwrap();
    hold(&foreign_crates_in_domain(&sources(), &dependencies(&manifest)));
}

#[test]
fn clients_clock_metrics_and_terminal_are_named_in_one_place_each() {
    hold(&calls_out_of_place(&sources()));
}

#[test]
fn sql_is_written_where_the_tables_are_known() {
    hold(&sql_out_of_place(&sources()));
}

#[test]
fn every_exception_for_sql_is_still_needed() {
    let sources = sources();
    for (place, reason) in SQL_EXCEPTIONS {
        let needed = sources.iter().any(|source| source.is_in(&[place]) && source.code.contains("sqlx::"));
        assert!(needed, "src/{place} writes no SQL any more ({reason}); take it off tidy's SQL_EXCEPTIONS");
    }
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    hold(&missing_module_docs(&sources()));
}

#[test]
fn nothing_unfinished_is_left_behind() {
    hold(&banned_words(&sources()));
}

#[test]
fn no_float_comes_near_money() {
    hold(&floats_in_domain(&sources()));
}

#[test]
fn every_file_fits_a_sitting() {
    hold(&long_files(&sources(), LONG_FILES));
}

#[test]
fn every_function_fits_a_screen() {
    hold(&long_functions(&sources(), LONG_FUNCTIONS));
}

#[test]
fn every_file_is_reached_by_a_mod() {
    hold(&unreached_files(&sources()));
}

#[test]
fn migrations_are_numbered_without_a_gap_and_open_with_their_meaning() {
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let files = files_below(&project().join("migrations"), "sql");
    assert!(!files.is_empty());
    let migrations: Vec<_> = files.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect();
    hold(&migration_faults(&migrations));
}

#[test]
fn every_crash_point_stands_in_the_code() {
    let used = |point: &str| {
        let constant = format!("faults::{}", point.to_uppercase());
        sources().iter().any(|source| source.code.contains(&constant))
    };
    for point in fis::platform::faults::ALL {
        assert!(used(point), "no code passes the crash point `{point}`");
    }
}

#[test]
fn every_mutant_stands_in_the_code() {
    for mutant in fis::platform::mutants::ALL {
        let constant = format!("mutants::{}", mutant.to_uppercase());
        let used = sources().iter().any(|source| source.code.contains(&constant));
        assert!(used, "no code has the mutant `{mutant}`");
    }
}

#[test]
fn every_crash_point_has_a_test() {
    let folder = project().join("tests/faults");
    let tests: String = files_below(&folder, "rs").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    hold(&unnamed_points(fis::platform::faults::ALL, &tests));
}

#[test]
fn the_readme_begins_with_the_two_commands() {
    let readme = std::fs::read_to_string(project().join("README.md")).expect("there is a README.md");
    for command in ["./dev demo", "./dev test"] {
        assert!(readme.contains(command), "README.md does not name `{command}`");
    }
}

// --- the rules bite ---------------------------------------------------------------------------------------------

fn bites(complaints: &[String], word: &str) {
    assert!(complaints.iter().any(|complaint| complaint.contains(word)), "{word:?} is not among {complaints:?}");
}

fn one(path: &str, text: &str) -> Vec<Source> {
    vec![Source::new(path, text)]
}

#[test]
fn comments_and_strings_are_no_code() {
    let text = "a // x\nb /* y /* z */ */ c \"d\\\"e\" r#\"f\"g\"# 'h' '\\'' &'i str br\"j\"";
    let code = code_only(text);
    assert_eq!(code.lines().count(), 2);
    for gone in ["x", "y", "z", "d", "e", "f", "g", "h", "j"] {
        assert!(!code.split_whitespace().any(|word| word == gone), "{gone} in {code:?}");
    }
    for kept in ["a", "b", "c", "&'i"] {
        assert!(code.split_whitespace().any(|word| word == kept), "{kept} in {code:?}");
    }
}

#[test]
fn the_layer_rule_bites() {
    let rows = [
        ("domain/x.rs", "use crate::platform::time;", "`domain` may not use `platform`"),
        ("platform/x.rs", "fn f() -> crate::domain::ids::TenantId;", "`platform` may not use `domain`"),
        ("intake/x.rs", "use crate::{domain::ids, journal::{post, read}};", "`intake` may not use `journal`"),
        ("journal/mod.rs", "use super::outbox;", "`journal` may not use `outbox`"),
        ("parking/x.rs", "use super::super::outbox;", "`parking` may not use `outbox`"),
        ("pipeline.rs", "use crate::service::run;", "`pipeline` may not use `service`"),
        ("service/x.rs", "use crate::cli::Cli;", "`service` may not use `cli`"),
        ("main.rs", "use fis::service;", "`main` may not use `service`"),
        ("attic.rs", "", "give it its place"),
    ];
    for (path, text, complaint) in rows {
        bites(&layer_breaches(&one(path, text)), complaint);
    }
    hold(&layer_breaches(&one("journal/x.rs", "use crate::domain::books::Books; // crate::outbox\nuse super::books;")));
}

#[test]
fn the_domain_rule_bites() {
    let crates = dependencies("[dependencies]\ntokio = \"1\"\ndeadpool-redis = \"1\"\nserde = \"1\"\n");
    for text in ["use tokio::net;", "deadpool_redis::Pool", "std::fs::read(\"x\")", "let t = Instant::now();"] {
        assert_eq!(foreign_crates_in_domain(&one("domain/x.rs", text), &crates).len(), 1, "{text}");
    }
    hold(&foreign_crates_in_domain(&one("domain/x.rs", "use serde::Deserialize; // tokio::net"), &crates));
}

#[test]
fn the_rule_of_places_bites() {
    for (path, text) in [
        ("journal/x.rs", "use lapin::Channel;"),
        ("intake/mod.rs", "use deadpool_redis::Pool;"),
        ("pipeline.rs", "let now = Utc::now();"),
        ("outbox/x.rs", "metrics::counter!(\"fis_x\")"),
        ("service.rs", "println!(\"x\")"),
        ("platform/x.rs", "eprintln!(\"x\")"),
    ] {
        assert_eq!(calls_out_of_place(&one(path, text)).len(), 1, "{path}: {text}");
    }
    hold(&calls_out_of_place(&one("cli/x.rs", "println!(\"lapin::\") // lapin::")));
}

#[test]
fn the_sql_rule_bites() {
    bites(&sql_out_of_place(&one("pipeline.rs", "sqlx::query(\"select 1\")")), "pipeline.rs");
    bites(&sql_out_of_place(&one("cli/new.rs", "sqlx::query_as::<_, T>(\"select 1\")")), "cli/new.rs");
    hold(&sql_out_of_place(&one("journal/statements.rs", "sqlx::query(\"select 1\")")));
}

#[test]
fn the_rules_of_words_bite() {
    bites(&missing_module_docs(&one("x.rs", "use std::fmt;\n")), "x.rs");
    for text in ["todo!()", "unimplemented!()", "dbg!(x)", "// FIXME: later"] {
        assert_eq!(banned_words(&one("x.rs", text)).len(), 1, "{text}");
    }
    hold(&banned_words(&one("x.rs", "// never todo!\n")));
    bites(&floats_in_domain(&one("domain/x.rs", "let x: f64 = 1.0;")), "f64");
    hold(&floats_in_domain(&one("domain/retry.rs", "let x: f64 = 1.0;")));
    hold(&floats_in_domain(&one("domain/x.rs", "let f64_free = \"f64\"; // f32")));
}

#[test]
fn the_rules_of_length_bite() {
    let long = "//! x\n".repeat(FILE_LINES_MAX + 1);
    bites(&long_files(&one("x.rs", &long), &[]), "301 lines, at most 300");
    hold(&long_files(&one("x.rs", &long), &[("x.rs", 301)]));
    bites(&long_files(&one("x.rs", &long), &[("x.rs", 300)]), "301 lines");
    bites(&long_files(&one("x.rs", "//! x\n"), &[("x.rs", 310)]), "no longer long");
    hold(&long_files(&one("x/tests.rs", &long), &[]));

    let body = |lines: usize| format!("fn f<T>(a: [u8; 2]) -> T\nwhere\n    T: X,\n{{{}}}\n", "\n".repeat(lines - 4));
    bites(&long_functions(&one("x.rs", &body(71)), &[]), "`f` has 71 lines");
    hold(&long_functions(&one("x.rs", &body(70)), &[]));
    hold(&long_functions(&one("x.rs", &body(71)), &[("x.rs", "f", 71)]));
    bites(&long_functions(&one("x.rs", &body(70)), &[("x.rs", "f", 71)]), "no longer long");
    hold(&long_functions(&one("x.rs", &format!("trait T {{ fn g(&self); }}\n{}", "\n".repeat(100))), &[]));
}

#[test]
fn the_rules_of_files_bite() {
    let lost = vec![Source::new("lib.rs", "pub mod a;"), Source::new("a.rs", "mod b;"), Source::new("a/c.rs", "")];
    bites(&unreached_files(&lost), "src/a/c.rs");
    assert_eq!(unreached_files(&lost).len(), 1);
    let migration = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let gap = [migration("0001_a.sql", "-- A.\n"), migration("0003_b.sql", "create table b ();")];
    let complaints = migration_faults(&gap);
    bites(&complaints, "the next number is 0002_");
    bites(&complaints, "opens with the meaning");
    bites(&unnamed_points(&["after_claim", "after_mark"], "crash_at(AFTER_CLAIM)"), "after_mark");
}
