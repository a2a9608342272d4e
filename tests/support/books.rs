//! The books that tests share, one file each in `books/`: a name enters, the text of a books file leaves. What must never happen: a
//! test has a copy of its own of a rule that stands here. The fuzzer begins with all of them.

// Three binaries share these texts, and none uses all of them.
#![allow(dead_code)]

/// The books of most tests: a rule of each kind.
pub const ACME: &str = include_str!("books/acme.toml");
/// Accounts, periods and rates for rules that stand beside their rows.
pub const CHART: &str = include_str!("books/chart.toml");
/// Orders and their cancellations, and nothing else.
pub const SALES: &str = include_str!("books/sales.toml");

/// The books of most tests, as those of a tenant.
pub fn books(tenant: &str) -> String {
    ACME.replacen("tenant = \"acme\"", &format!("tenant = {tenant:?}"), 1)
}

/// The one rule of this name, as text.
#[track_caller]
pub fn rule(books: &str, name: &str) -> String {
    let rules = books.split("[[rules]]\n").skip(1);
    let named: Vec<&str> = rules.filter(|rule| rule.starts_with(&format!("name = {name:?}\n"))).collect();
    assert_eq!(named.len(), 1, "rules of the name {name}");
    format!("[[rules]]\n{}", named[0])
}
