//! The examples, run as they are against the real servers. Each reader finds the gap, the duplicate and what came late; what a publisher
//! does is in `publishers`. Where an interpreter or a package is missing, a test says so and ends.

mod publishers;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::Duration;

use lapin::options::BasicGetOptions;

use crate::support::events::order;
use crate::support::world::World;

const QUEUE: &str = "finance.example.queue";

fn project(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

fn tmp(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn works(program: &PathBuf, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

/// Runs the reader for so many messages.
async fn read(world: &World, reader: &[String], count: usize) -> String {
    let (program, args) = reader.split_first().unwrap();
    let mut command = tokio::process::Command::new(program);
    command.args(args).arg(QUEUE).arg(count.to_string()).env("FIS_AMQP_URL", &world.amqp_url).kill_on_drop(true);
    let output: Output = tokio::time::timeout(Duration::from_secs(60), command.output())
        .await
        .unwrap_or_else(|_| panic!("{reader:?} does not end"))
        .unwrap();
    assert!(output.status.success(), "{reader:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Five entries, the first of which gets lost, and comes again with the second when the reader asks for it.
async fn finds_gap_and_duplicate(name: &str, reader: &[String]) {
    let world = World::new(name).await;
    let said = read(&world, reader, 0).await;
    assert!(said.contains("summary handled=0"), "{said}");
    let mut run = world.run().await;
    world.publish(&["o1", "o2", "o3", "o4", "o5"].map(order)).await;
    world.rest(&mut run).await;

    let connection = world.connect().await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let lost = channel.basic_get(QUEUE.into(), BasicGetOptions { no_ack: true }).await.unwrap().unwrap();
    let lost: serde_json::Value = serde_json::from_slice(&lost.delivery.data).unwrap();
    assert_eq!(lost["data"]["sequence"], 1);
    let _ = connection.close(200, "bye".into()).await;
    world
        .fis(&["feed", "resend", "--tenant", "acme", "--from", "1", "--to", "2", "--queue", QUEUE])
        .await
        .expect(0, &[]);

    let said = read(&world, reader, 6).await;
    let told: Vec<&str> = said.lines().collect();
    let starts = ["gap acme 1..1: fis feed resend --tenant acme --from 1 --to 1", "entry acme 2", "entry acme 3"];
    let ends = ["entry acme 4", "entry acme 5", "entry acme 1", "duplicate acme 2"];
    let summary = ["summary handled=5 duplicates=1 gaps=1 missing=0"];
    let expected: Vec<&str> = starts.into_iter().chain(ends).chain(summary).collect();
    assert_eq!(told.len(), expected.len(), "{said}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "`{told}` is not `{expected}…`: {said}");
    }
    assert_eq!(world.ready_count(QUEUE).await, 0, "everything was acknowledged");
}

/// A Python that has pika. Installed once, also where several tests ask at the same time.
static PYTHON: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let place = tmp("pika");
    let python = place.join("bin/python");
    if !works(&python, &["-c", "import pika"]) {
        works(&"python3".into(), &["-m", "venv", place.to_str().unwrap()]);
        works(&place.join("bin/pip"), &["install", "--quiet", "--disable-pip-version-check", "pika"]);
    }
    Some(python).filter(|python| works(python, &["-c", "import pika"]))
});

/// The folder in which Node finds amqplib.
static NODE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let place = tmp("amqplib");
    let installed = place.join("node_modules/amqplib/package.json");
    if !installed.exists() {
        std::fs::create_dir_all(&place).unwrap();
        let options = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "amqplib", "--prefix"];
        works(&"npm".into(), &[&options[..], &[place.to_str().unwrap()]].concat());
    }
    Some(place).filter(|_| installed.exists() && works(&"node".into(), &["--version"]))
});

/// The command of an example in Python.
fn in_python(file: &str) -> Option<Vec<String>> {
    let Some(python) = PYTHON.as_ref() else {
        eprintln!("skipped: python3 is not there, or cannot install pika");
        return None;
    };
    Some(vec![python.to_str().unwrap().to_owned(), "-u".to_owned(), project(&format!("examples/{file}"))])
}

/// The command of an example in Node.
fn in_node(file: &str) -> Option<Vec<String>> {
    let Some(place) = NODE.as_ref() else {
        eprintln!("skipped: node is not there, or npm cannot install amqplib");
        return None;
    };
    // Node looks for packages beside the script.
    let script = place.join(file);
    std::fs::copy(project(&format!("examples/{file}")), &script).unwrap();
    Some(vec!["node".to_owned(), script.to_str().unwrap().to_owned()])
}

/// The command of an example in Rust. `cargo test` builds the examples, and puts them beside the folder of the tests; `cargo test --test flow` does not.
fn in_rust(name: &str) -> Option<Vec<String>> {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples").join(name);
    let made = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    if made(&example) < made(Path::new(&project(&format!("examples/{name}.rs")))) {
        eprintln!("skipped: the example is not built; run `cargo build --all-features --example {name}` first");
        return None;
    }
    Some(vec![example.to_str().unwrap().to_owned()])
}

#[test]
fn every_example_fits_a_page() {
    let lines_max = [("finance_reader", 80), ("publisher", 160)];
    for file in std::fs::read_dir(project("examples")).unwrap() {
        let path = file.unwrap().path();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let (_, most) = lines_max.iter().find(|(name, _)| *name == stem).expect("a limit for every example");
        assert!(lines < *most, "{} has {lines} lines", path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_reader_finds_gaps_and_duplicates() {
    if let Some(reader) = in_python("finance_reader.py") {
        finds_gap_and_duplicate("example_python", &reader).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_reader_finds_gaps_and_duplicates() {
    if let Some(reader) = in_node("finance_reader.mjs") {
        finds_gap_and_duplicate("example_node", &reader).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_reader_finds_gaps_and_duplicates() {
    if let Some(reader) = in_rust("finance_reader") {
        finds_gap_and_duplicate("example_rust", &reader).await;
    }
}
