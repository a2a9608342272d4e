//! Files: every source is reached, every migration numbered, every crash point and mutant used and tested.

use std::path::PathBuf;

use crate::source::{Source, files_below, identifier, project, sources, words};
use crate::{bites, hold};

/// Files that no `mod` declares are never compiled.
pub fn unreached_files(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let path = source.path.trim_end_matches(".rs").trim_end_matches("/mod");
        if matches!(path, "lib" | "main") {
            continue;
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parents = match folder {
            "" => vec!["lib.rs".to_owned(), "main.rs".to_owned()],
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

#[test]
fn every_file_is_reached_by_a_mod() {
    hold(&unreached_files(sources()));
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
        let constant = format!("crash_points::{}", point.to_uppercase());
        sources().iter().any(|source| source.code.contains(&constant))
    };
    for point in fis::faults::crash_points::ALL {
        assert!(used(point), "no code passes the crash point `{point}`");
    }
}

#[test]
fn every_mutant_stands_in_the_code() {
    for mutant in fis::faults::mutants::ALL {
        let constant = format!("mutants::{}", mutant.to_uppercase());
        let used = sources().iter().any(|source| source.code.contains(&constant));
        assert!(used, "no code has the mutant `{mutant}`");
    }
}

#[test]
fn every_crash_point_has_a_test() {
    let folder = project().join("tests/faults");
    let tests: String = files_below(&folder, "rs").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    hold(&unnamed_points(fis::faults::crash_points::ALL, &tests));
}

#[test]
fn the_readme_begins_with_the_two_commands() {
    let readme = std::fs::read_to_string(project().join("README.md")).expect("there is a README.md");
    for command in ["./dev demo", "./dev test"] {
        assert!(readme.contains(command), "README.md does not name `{command}`");
    }
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
