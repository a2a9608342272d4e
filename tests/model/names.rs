//! The broker's names in the documents: a reader who binds a queue by what a page says must get every message. Every `fis.…` of a
//! page is an exchange, a queue or a binding of `topology/definitions.json`, an object of tenants' own queues, an outbound kind, also with a tenant,
//! one of the owners' queues, or the exchange that says whose the virtual host is.

use std::collections::BTreeSet;

use fis::domain::names::{LEDGER_EXCHANGE, MIRROR_OWNER_QUEUE, RELAY_OWNER_QUEUE};
use fis::domain::outbound::{OutboundKind, key_of_tenant};
use fis::intake::tenant_queues::TenantQueues;
use fis::platform::amqp::topology::Topology;

use crate::{project_file, read};

/// Objects that are declared by whoever owns them: a queue that is gone with its owner, an exchange that stays.
const OWNERS: [&str; 3] = [RELAY_OWNER_QUEUE, MIRROR_OWNER_QUEUE, LEDGER_EXCHANGE];
/// Endings of file names, such as `fis.example.toml`.
const FILES: [&str; 4] = [".toml", ".service", ".json", ".rs"];

/// The names that exist, by `topology/definitions.json` and the code.
fn known() -> BTreeSet<String> {
    let topology: serde_json::Value = serde_json::from_str(&read("topology/definitions.json")).unwrap();
    let members = |list: &str, member: &str| -> Vec<String> {
        let list = topology[list].as_array().unwrap();
        list.iter().map(|object| object[member].as_str().unwrap().to_owned()).collect()
    };
    let mut known: BTreeSet<String> = members("exchanges", "name").into_iter().collect();
    known.extend(members("queues", "name"));
    known.extend(members("bindings", "routing_key"));
    known.extend(OutboundKind::ALL.map(|kind| kind.routing_key().to_owned()));
    // The tenant of the pages' examples.
    known.extend(OutboundKind::ALL.map(|kind| key_of_tenant(kind.routing_key(), "acme")));
    known.extend(OWNERS.map(str::to_owned));
    let tenants = TenantQueues::parse("acme").unwrap().laid_over(Topology::embedded().unwrap());
    known.extend(tenants.exchanges.into_iter().map(|exchange| exchange.name));
    known.extend(tenants.queues.into_iter().map(|queue| queue.name));
    known
}

/// Every `fis.…` of a page, without the full stop of a sentence.
fn named(text: &str) -> Vec<String> {
    let in_name = |c: char| c.is_ascii_alphanumeric() || "._*#-".contains(c);
    let starts = text.match_indices("fis.").map(|(at, _)| at);
    let alone = |at: &usize| !text[..*at].ends_with(|c: char| in_name(c) || c == '/');
    let name = |at: usize| {
        let end = text[at..].find(|c: char| !in_name(c)).unwrap_or(text.len() - at);
        text[at..at + end].trim_end_matches(['.', '-']).to_owned()
    };
    let names = starts.filter(alone).map(name);
    // A name has a word behind `fis.`; a file has an ending.
    names.filter(|name| name.contains('.') && !FILES.iter().any(|ending| name.ends_with(ending))).collect()
}

/// Whether a name exists, or is a pattern (`fis.journal.*`) that takes one that does.
fn exists(name: &str, known: &BTreeSet<String>) -> bool {
    let takes = |known: &str| match name.split_once('#') {
        Some((start, "")) => known.starts_with(start),
        Some(_) => false,
        None => {
            let (pattern, words): (Vec<&str>, Vec<&str>) = (name.split('.').collect(), known.split('.').collect());
            pattern.len() == words.len() && pattern.iter().zip(words).all(|(p, word)| *p == "*" || *p == word)
        }
    };
    known.iter().any(|known| takes(known))
}

fn strangers(text: &str, known: &BTreeSet<String>) -> Vec<String> {
    named(text).into_iter().filter(|name| !exists(name, known)).collect()
}

#[test]
fn every_name_of_the_broker_in_the_documents_exists() {
    let known = known();
    let mut pages = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned(), "topology/README.md".to_owned()];
    for entry in std::fs::read_dir(project_file("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        pages.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    let mut found = 0;
    for page in pages {
        let text = read(&page);
        found += named(&text).len();
        let strangers = strangers(&text, &known);
        assert!(strangers.is_empty(), "{page} names {strangers:?}, which neither the topology nor the code has");
    }
    assert!(found > 20, "only {found} names were found: the pages are not read as they are written");
}

#[test]
fn a_name_that_does_not_exist_is_found() {
    let known = known();
    let wrong = "Bind `fis.journal.reversed`, or fis.event.*.x, `fis.ingest.queue`. `fis.nothing.#`";
    let names = ["fis.journal.reversed", "fis.event.*.x", "fis.ingest.queue", "fis.nothing.#"];
    assert_eq!(strangers(wrong, &known), names);
    let right = "`fis.journal.reverted` and fis.journal.*, fis.#; ops/fis.service, fis.toml. This is fis. `a.fis.b`";
    assert_eq!(strangers(right, &known), [""; 0]);
}
