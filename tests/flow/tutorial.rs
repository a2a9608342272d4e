//! The README's tutorial, word for word, on a terminal of eighty columns.

use std::process::Stdio;
use std::time::Duration;

use crate::support::process::FIS;
use crate::support::world::World;

const README: &str = include_str!("../../README.md");
const BOOKS: &str = include_str!("../../books/shop.toml");

/// The blocks for the shell in the part *Five minutes*, in their order.
fn tutorial() -> String {
    let part = README.split("\n## ").find(|part| part.starts_with("Five minutes")).expect("the README has a tutorial");
    let blocks = part.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_ends_well_and_fits_eighty_columns() {
    let world = World::new("tutorial").await;
    std::fs::create_dir_all(world.dir.join("books")).unwrap();
    std::fs::write(world.dir.join("books/shop.toml"), BOOKS).unwrap();
    let script = format!("set -eu\nfis() {{ {FIS} \"$@\"; }}\n{}\n", tutorial());
    let mut bash = tokio::process::Command::new("bash");
    bash.args(["-c", &script]).current_dir(&world.dir).stdin(Stdio::null()).kill_on_drop(true);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FIS_")) {
        bash.env_remove(name);
    }
    bash.envs(world.environment()).env("COLUMNS", "80").env("USER", "anna");
    let output =
        tokio::time::timeout(Duration::from_secs(120), bash.output()).await.expect("the tutorial ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let trouble = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{trouble}");
    let wide: Vec<&str> = said.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{}", wide.join("\n"));
    for promised in [
        "would post 119.00 EUR by rule `order-completed`",
        "posted as acme-shop/1",
        "Everything adds up.",
        "verified",
        "no gap, in order, every hash right",
        "Nobody takes events",
        "idempotency_conflict",
    ] {
        assert!(said.contains(promised), "{promised} is missing:\n{said}");
    }
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 1, "it is booked once");
}
