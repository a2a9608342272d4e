//! The pages for people: links lead somewhere, the index names every page, and the list of metrics is the source's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{project_file, read};

const INDEX: &str = "docs/README.md";

/// Every page that a person may come to from README.md.
fn pages() -> Vec<PathBuf> {
    let root = project_file("");
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in ["", "docs", "docs/adr", "topology", "examples"] {
        let files = std::fs::read_dir(root.join(folder)).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        found.extend(paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    found.sort();
    found
}

/// The targets of `[text](target)`, outside code blocks.
fn links(page: &str) -> Vec<String> {
    let prose: String = page.split("```").step_by(2).collect();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).filter(|target| !target.contains("://")).collect()
}

/// The anchor that a heading gets: small letters, blanks as hyphens, no other marks.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == ' ';
    headings
        .map(|text| text.to_lowercase().chars().filter(|c| kept(*c)).collect::<String>().replace(' ', "-"))
        .collect()
}

fn broken_links(path: &Path, page: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for target in links(page) {
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let there = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
        let leads = there.exists()
            && (anchor.is_empty() || anchors(&std::fs::read_to_string(&there).unwrap_or_default()).contains(anchor));
        if !leads {
            broken.push(format!("{}: {target}", path.display()));
        }
    }
    broken
}

#[test]
fn every_link_leads_somewhere() {
    let broken: Vec<String> =
        pages().iter().flat_map(|path| broken_links(path, &std::fs::read_to_string(path).unwrap())).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let index = project_file(INDEX);
    for wrong in ["[x](none.md)", "[x](books.md#no-such-heading)", "[x](#no-such-heading)"] {
        assert_eq!(broken_links(&index, wrong).len(), 1, "{wrong}");
    }
    assert!(broken_links(&index, "[x](books.md#periods) ```\n[x](none.md)\n```").is_empty());
}

#[test]
fn the_index_names_every_page_and_the_readme_names_the_index() {
    let named: BTreeSet<String> =
        links(&read(INDEX)).iter().map(|link| link.split('#').next().unwrap().to_owned()).collect();
    for page in std::fs::read_dir(project_file("docs")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let is_page = name.ends_with(".md") && name != "README.md";
        assert!(!is_page || named.contains(&name), "docs/README.md does not name {name}");
    }
    assert!(links(&read("README.md")).contains(&INDEX.to_owned()), "README.md does not name {INDEX}");
}

/// The metrics that the source describes, with their kind.
fn described(source: &str) -> BTreeMap<String, String> {
    let mut kinds = BTreeMap::new();
    for (constant, name) in source.lines().filter_map(constant) {
        let kind = ["counter", "gauge", "histogram"].into_iter().find(|kind| {
            let act = format!("describe_{kind}!(");
            let described = source.split(&act).skip(1);
            described.map(str::trim_start).any(|rest| rest.starts_with(&format!("{constant},")))
        });
        kinds.insert(name.to_owned(), kind.unwrap_or_else(|| panic!("{constant} is not described")).to_owned());
    }
    kinds
}

/// `pub const INTAKE_HELD: &str = "fis_intake_held_total";`
fn constant(line: &str) -> Option<(&str, &str)> {
    let (constant, value) = line.strip_prefix("pub const ")?.split_once(": &str = \"")?;
    Some((constant, value.strip_suffix("\";")?))
}

#[test]
fn the_list_of_metrics_is_the_sources() {
    let page = read("docs/operations.md");
    let mut listed = BTreeMap::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| `fis_")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert!(cells.len() == 5 && !cells[3].is_empty(), "a metric has a kind, labels and a meaning: {row}");
        listed.insert(format!("fis_{}", cells[0].trim_end_matches('`')), cells[1].to_owned());
    }
    let source = read("src/platform/metrics.rs");
    assert_eq!(listed, described(&source));
    assert_eq!(source.matches("\"fis_").count(), listed.len(), "a metric is named outside its constant");
}
