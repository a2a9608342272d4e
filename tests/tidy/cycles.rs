//! Cycles: the files of one room use each other in one direction, so that each can be read before those that use it. A file uses
//! another by a path that begins with `crate::` or `super::`; a name that a parent passes on belongs to the file that declares it.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, identifier, sources, words};
use crate::{bites, hold};

/// Files that use each other in a circle for now. Nothing may join them; whoever breaks a circle takes it off.
const CIRCLES: &[&[&str]] = &[];

type Path = Vec<String>;

/// The rooms as a graph of files.
struct House<'s> {
    /// A file by the path of its module.
    files: BTreeMap<Path, &'s Source>,
    /// What a module brings in by `use`: the name here, and the path that it means.
    imports: BTreeMap<Path, BTreeMap<String, Path>>,
}

/// `journal/books/apply.rs` is `journal::books::apply`, `journal/mod.rs` is `journal`.
fn module(path: &str) -> Path {
    path.trim_end_matches(".rs").trim_end_matches("/mod").split('/').map(str::to_owned).collect()
}

/// The code of a file without the tests at its end, whose `super` is the file itself.
fn product(source: &Source) -> &str {
    let is_module = |at: &usize| {
        let rest = source.code[*at + "#[cfg(test)]".len()..].trim_start();
        rest.starts_with("mod ") && rest.find('{') < rest.find(';').or(Some(usize::MAX))
    };
    let end = source.code.match_indices("#[cfg(test)]").map(|(at, _)| at).find(is_module);
    &source.code[..end.unwrap_or(source.code.len())]
}

/// Adds every path of `a::{b, c::d as e}`, each with the name that it has here; `start` is what stands before it.
fn expand(text: &str, start: &Path, found: &mut Vec<(String, Path)>) -> usize {
    let (mut path, mut at) = (start.clone(), 0);
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        if let Some(group) = text[at..].strip_prefix('{') {
            let mut inside = 0;
            while inside < group.len() && !group[inside..].starts_with('}') {
                inside += expand(&group[inside..], &path, found).max(1);
                inside += group[inside..].len() - group[inside..].trim_start_matches([',', ' ', '\n']).len();
            }
            return at + inside + 2;
        }
        let name = identifier(&text[at..]);
        at += name.len();
        match name {
            "super" => _ = path.pop(),
            "self" => {}
            // A star, or nothing that is a path.
            "" => return at.max(1),
            name => path.push(name.to_owned()),
        }
        if let Some(rest) = text[at..].strip_prefix("::") {
            at = text.len() - rest.len();
            continue;
        }
        let alias = text[at..].strip_prefix(" as ").map(identifier);
        let here = alias.map(str::to_owned).or_else(|| path.last().cloned()).unwrap_or_default();
        found.push((here, path));
        return at + alias.map_or(0, |alias| " as ".len() + alias.len());
    }
}

/// Every path in the code that begins with `crate::` or `super::`.
fn paths(code: &str, module: &Path) -> Vec<Path> {
    let mut found = Vec::new();
    for prefix in ["crate::", "super::"] {
        for at in words(code, prefix).filter(|at| !code[..*at].ends_with("::")) {
            let start = if prefix == "crate::" { Path::new() } else { module[..module.len() - 1].to_vec() };
            expand(&code[at + prefix.len()..], &start, &mut found);
        }
    }
    found.into_iter().map(|(_, path)| path).collect()
}

impl<'s> House<'s> {
    fn new(sources: &'s [Source]) -> Self {
        let product = sources.iter().filter(|source| !source.is_test());
        let files: BTreeMap<Path, &Source> = product.map(|source| (module(&source.path), source)).collect();
        let imports = files.iter().map(|(module, source)| (module.clone(), imports(source, module, &files))).collect();
        Self { files, imports }
    }

    /// The file that declares what a path means.
    fn declaring(&self, path: &[String], depth: usize) -> Option<&'s Source> {
        let length = (1..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(length);
        let passed_on = rest.first().and_then(|name| self.imports[module].get(name)).filter(|_| depth > 0);
        passed_on.and_then(|path| self.declaring(path, depth - 1)).or_else(|| self.files.get(module).copied())
    }

    /// The files of its own room that each file uses.
    fn uses(&self) -> BTreeMap<&'s str, BTreeSet<&'s str>> {
        let of = |(module, source): (&Path, &&'s Source)| {
            let used = paths(product(source), module).into_iter().filter_map(|path| self.declaring(&path, 5));
            let beside = used.filter(|other| other.room() == source.room() && other.path != source.path);
            (source.path.as_str(), beside.map(|other| other.path.as_str()).collect())
        };
        self.files.iter().map(of).collect()
    }
}

/// The names that a file brings in from its own crate.
fn imports(source: &Source, module: &Path, files: &BTreeMap<Path, &Source>) -> BTreeMap<String, Path> {
    let mut found = Vec::new();
    for at in words(product(source), "use ") {
        let text = &product(source)[at + "use ".len()..];
        let first = identifier(text);
        let child = [module.as_slice(), &[first.to_owned()]].concat();
        match first {
            "crate" => _ = expand(&text["crate::".len()..], &Path::new(), &mut found),
            "super" | "self" => _ = expand(text, module, &mut found),
            _ if files.contains_key(&child) => _ = expand(text, module, &mut found),
            _ => {}
        }
    }
    found.into_iter().collect()
}

/// Every file that a file reaches by what it uses, and what those use.
fn reached<'s>(from: &'s str, uses: &BTreeMap<&'s str, BTreeSet<&'s str>>) -> BTreeSet<&'s str> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(file) = left.pop() {
        left.extend(uses[file].iter().copied().filter(|other| reached.insert(*other)));
    }
    reached
}

/// The files that use each other in a circle, each circle once.
fn circles<'s>(uses: &BTreeMap<&'s str, BTreeSet<&'s str>>) -> BTreeSet<Vec<&'s str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> = uses.keys().map(|file| (*file, reached(file, uses))).collect();
    let in_circle = reach.iter().filter(|(file, reached)| reached.contains(*file));
    in_circle
        .map(|(file, reached)| reached.iter().copied().filter(|other| reach[other].contains(file)).collect())
        .collect()
}

fn unknown_circles(sources: &[Source], known: &[&[&str]]) -> Vec<String> {
    let uses = House::new(sources).uses();
    let found = circles(&uses);
    let told = |circle: &Vec<&str>| {
        let within =
            |file: &&str| uses[file].iter().copied().filter(|other| circle.contains(other)).collect::<Vec<_>>();
        let each: Vec<String> =
            circle.iter().map(|file| format!("{file} uses {}", within(file).join(" and "))).collect();
        format!("{} use each other in a circle: turn one use around\n    {}", circle.join(", "), each.join("\n    "))
    };
    let new = found.iter().filter(|circle| !known.contains(&circle.as_slice()));
    let mut complaints: Vec<String> = new.map(told).collect();
    let gone = known.iter().filter(|circle| !found.contains(**circle));
    complaints.extend(gone.map(|circle| format!("{circle:?} is no circle any more; take it off tidy's CIRCLES")));
    complaints
}

#[test]
fn the_files_of_a_room_use_each_other_in_one_direction() {
    hold(&unknown_circles(sources(), CIRCLES));
}

#[test]
fn a_path_leads_to_the_file_that_declares_the_name() {
    let file = |path: &str, text: &str| Source::new(path, text);
    let sources = [
        file("journal/mod.rs", "mod post;\npub mod books;\npub use post::{Post as Posted, post};\npub struct Error;"),
        file("journal/post.rs", "use super::books::{self, Shelf, apply::{Plan, check}};\nuse crate::outbox::x;"),
        file("journal/books.rs", "pub mod apply;\nfn f() -> super::Error {}"),
        file(
            "journal/books/apply.rs",
            "use super::super::Posted;\n#[cfg(test)]\nmod tests { use super::*; use super::super::Shelf; }",
        ),
        file("outbox.rs", ""),
    ];
    let uses = House::new(&sources).uses();
    let of = |file: &str| uses[file].iter().copied().collect::<Vec<_>>();
    assert_eq!(of("journal/mod.rs"), [""; 0], "a parent that names its children uses none of them");
    assert_eq!(of("journal/post.rs"), ["journal/books.rs", "journal/books/apply.rs"]);
    assert_eq!(of("journal/books.rs"), ["journal/mod.rs"]);
    assert_eq!(of("journal/books/apply.rs"), ["journal/post.rs"]);
}

#[test]
fn the_rule_of_one_direction_bites() {
    let file = |path: &str, text: &str| Source::new(path, text);
    let circle = [
        file("journal/a.rs", "use super::b::B;"),
        file("journal/b.rs", "fn f(c: &crate::journal::c::C) {}"),
        file("journal/c.rs", "use crate::journal::{a::A, b};"),
        file("journal/d.rs", "use super::a; // a uses nothing of d"),
    ];
    let files = ["journal/a.rs", "journal/b.rs", "journal/c.rs"];
    bites(&unknown_circles(&circle, &[]), "journal/a.rs, journal/b.rs, journal/c.rs use each other in a circle");
    bites(&unknown_circles(&circle, &[]), "journal/c.rs uses journal/a.rs and journal/b.rs");
    assert_eq!(unknown_circles(&circle, &[]).len(), 1);
    hold(&unknown_circles(&circle, &[&files]));
    bites(&unknown_circles(&circle[..2], &[&files]), "is no circle any more");
    hold(&unknown_circles(&circle[1..], &[&files[1..]]));
    // Rooms are the matter of the layers.
    hold(&unknown_circles(&[file("a/x.rs", "use crate::b::y;"), file("b/y.rs", "use crate::a::x;")], &[]));
}
