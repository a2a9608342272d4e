//! The domain: the ledger's own words are written with values alone, and touch no clock, no socket and no float.

use crate::source::{Source, identifier, line_of, project, sources, words};
use crate::{bites, hold, one};

/// The crates the ledger's own words may be written with: values, hashes, dates and texts; nothing that does anything.
const DOMAIN_CRATES: &[&str] =
    &["chrono", "chrono_tz", "hex", "iso_currency", "rust_decimal", "serde", "serde_json", "sha2", "thiserror", "toml"];

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

#[test]
fn the_domain_uses_no_client_crate_and_touches_nothing() {
    let manifest = std::fs::read_to_string(project().join("Cargo.toml")).unwrap();
    hold(&foreign_crates_in_domain(sources(), &dependencies(&manifest)));
}

#[test]
fn no_float_comes_near_money() {
    hold(&floats_in_domain(sources()));
}

#[test]
fn the_domain_rule_bites() {
    let crates = dependencies("[dependencies]\ntokio = \"1\"\ndeadpool-redis = \"1\"\nserde = \"1\"\n");
    for text in ["use tokio::net;", "deadpool_redis::Pool", "std::fs::read(\"x\")", "let t = Instant::now();"] {
        assert_eq!(foreign_crates_in_domain(&one("domain/x.rs", text), &crates).len(), 1, "{text}");
    }
    hold(&foreign_crates_in_domain(&one("domain/x.rs", "use serde::Deserialize; // tokio::net"), &crates));
    bites(&floats_in_domain(&one("domain/x.rs", "let x: f64 = 1.0;")), "f64");
    hold(&floats_in_domain(&one("domain/retry.rs", "let x: f64 = 1.0;")));
    hold(&floats_in_domain(&one("domain/x.rs", "let f64_free = \"f64\"; // f32")));
}
