//! The parts list (SBOM) of the product: every crate that is compiled into the program, or that a build script of it uses, enters from
//! `cargo tree` and `Cargo.lock`; a CycloneDX document in JSON leaves. It says nothing of when or where it was made: equal sources have equal lists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::call;
use crate::cargo::cargo;
use crate::place::Place;
use crate::say::{Done, OrDie, die, say};

/// A crate as `cargo tree` tells it: name, version, license.
type Part = (String, String, String);

/// Writes the parts list beside what is built.
pub fn write(place: &Place) -> Done {
    let words = ["tree", "--locked", "--package", "fis", "--edges", "normal,build", "--prefix", "none", "--no-dedupe"];
    let tree = call::output_of(cargo(place, &words).args(["--format", "{p}|{l}"]))
        .map_or_else(|| die("cargo tree failed"), Ok)?;
    let lock = std::fs::read_to_string(place.root.join("Cargo.lock")).or_die("cannot read Cargo.lock")?;
    let list = list(&parts(&tree), &checksums(&lock)).map_or_else(|| die("cargo tree names no package `fis`"), Ok)?;
    std::fs::create_dir_all(&place.target).or_die("cannot make the target directory")?;
    let file: PathBuf = place.target.join("fis.cdx.json");
    std::fs::write(&file, list).or_die(format!("cannot write {}", file.display()))?;
    say(format!("parts list: {}", file.display()));
    Ok(())
}

/// The crates of a tree, each once. A line is `name vVERSION (where)|LICENSE`; `where` is absent for those of the registry.
fn parts(tree: &str) -> BTreeSet<Part> {
    let part = |line: &str| {
        let (package, license) = line.split_once('|')?;
        let mut words = package.split(' ');
        let name = words.next()?.to_owned();
        Some((name, words.next()?.strip_prefix('v')?.to_owned(), license.trim().to_owned()))
    };
    tree.lines().filter_map(part).collect()
}

/// The checksums of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            line.and_then(|line| line.strip_suffix('"')).map(ToOwned::to_owned)
        };
        if let (Some(name), Some(version), Some(sum)) = (value("name"), value("version"), value("checksum")) {
            found.insert((name, version), sum);
        }
    }
    found
}

/// The document; `None` where the product itself is not among the parts.
fn list(parts: &BTreeSet<Part>, checksums: &BTreeMap<(String, String), String>) -> Option<String> {
    let component = |kind: &str, (name, version, license): &Part| {
        let mut text =
            format!(r#"{{"type":"{kind}","name":"{name}","version":"{version}","purl":"pkg:cargo/{name}@{version}""#);
        // Old packages part their licenses with a slash.
        let license = license.replace('/', " OR ");
        if !license.is_empty() {
            text.push_str(&format!(r#","licenses":[{{"expression":"{license}"}}]"#));
        }
        if let Some(sum) = checksums.get(&(name.clone(), version.clone())) {
            text.push_str(&format!(r#","hashes":[{{"alg":"SHA-256","content":"{sum}"}}]"#));
        }
        text.push('}');
        text
    };
    let product = parts.iter().find(|part| part.0 == "fis")?;
    let others: Vec<String> =
        parts.iter().filter(|part| *part != product).map(|part| component("library", part)).collect();
    Some(format!(
        "{{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"version\":1,\"metadata\":{{\"component\":{}}},\n\"components\":[\n{}\n]}}\n",
        component("application", product),
        others.join(",\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "fis v0.1.0 (/somewhere)|Apache-2.0\nitoa v1.0.1|MIT OR Apache-2.0\nold v0.2.0|MIT/Apache-2.0\nitoa v1.0.1|MIT OR Apache-2.0\n";
    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"fis\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"itoa\"\nversion = \"1.0.1\"\nsource = \"registry\"\nchecksum = \"ab12\"\n";

    #[test]
    fn a_list_names_every_part_once_with_license_and_checksum() {
        let list = list(&parts(TREE), &checksums(LOCK)).unwrap();
        let itoa = r#"{"type":"library","name":"itoa","version":"1.0.1","purl":"pkg:cargo/itoa@1.0.1","licenses":[{"expression":"MIT OR Apache-2.0"}],"hashes":[{"alg":"SHA-256","content":"ab12"}]}"#;
        assert_eq!(list.matches(itoa).count(), 1, "{list}");
        assert!(list.contains(r#""component":{"type":"application","name":"fis","version":"0.1.0""#), "{list}");
        assert!(list.contains(r#"{"expression":"MIT OR Apache-2.0"}]}"#), "a license in the old spelling: {list}");
        assert!(!list.contains("/somewhere"), "a path of the machine is nobody's business: {list}");
    }

    #[test]
    fn a_tree_without_the_product_makes_no_list() {
        assert!(list(&parts("itoa v1.0.1|MIT\n"), &BTreeMap::new()).is_none());
    }
}
