//! Types: one word, one idea. Two public types of one name in one layer would be taken for each other.

use std::collections::BTreeMap;

use crate::layers::layer_of;
use crate::source::{Source, identifier, sources, words};
use crate::{bites, hold};

/// Names that stand twice for now. Nothing may join them; whoever renames one takes it off.
const TWICE: &[&str] = &[];

/// The public types that a file declares.
fn public_types(source: &Source) -> Vec<&str> {
    let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    let named =
        |kind: &'static str| words(&source.code, kind).map(move |at| identifier(&source.code[at + kind.len()..]));
    // A macro's `$name` is no name.
    kinds.into_iter().flat_map(named).filter(|name| !name.is_empty()).collect()
}

fn types_twice(sources: &[Source], known: &[&str]) -> Vec<String> {
    let mut places: BTreeMap<(usize, &str), Vec<&str>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        let Some(layer) = layer_of(source.room()) else { continue };
        for name in public_types(source) {
            places.entry((layer, name)).or_default().push(&source.path);
        }
    }
    places.retain(|_, files| files.len() > 1);
    let mut complaints: Vec<String> = places
        .iter()
        .filter(|((_, name), _)| !known.contains(name))
        .map(|((layer, name), files)| {
            format!("`{name}` is declared more than once in layer {layer} ({}): rename one", files.join(", "))
        })
        .collect();
    let twice = |name: &str| places.keys().any(|(_, found)| *found == name);
    let unneeded = known.iter().filter(|name| !twice(name));
    complaints.extend(unneeded.map(|name| format!("`{name}` stands once; take it off tidy's types::TWICE")));
    complaints
}

#[test]
fn no_public_type_name_stands_twice_in_one_layer() {
    hold(&types_twice(sources(), TWICE));
}

#[test]
fn the_rule_of_type_names_bites() {
    let file = |path: &str, text: &str| Source::new(path, text);
    let twice = [file("journal/a.rs", "pub struct Place(u8);"), file("outbox/b.rs", "pub enum Place { A }")];
    bites(&types_twice(&twice, &[]), "`Place` is declared more than once in layer 2 (journal/a.rs, outbox/b.rs)");
    hold(&types_twice(&twice, &["Place"]));
    bites(&types_twice(&twice[..1], &["Place"]), "`Place` stands once");
    let within = [file("parking/a.rs", "pub struct Step;"), file("parking/b.rs", "pub trait Step {}")];
    bites(&types_twice(&within, &[]), "`Step`");
    for other in [
        file("pipeline/b.rs", "pub struct Place;"),
        file("outbox/b.rs", "struct Place; // pub struct Place"),
        file("outbox/b.rs", "pub struct Placed;"),
        file("outbox/tests.rs", "pub struct Place;"),
    ] {
        hold(&types_twice(&[file("journal/a.rs", "pub struct Place(u8);"), other], &[]));
    }
}
