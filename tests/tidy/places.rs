//! Places: client crates, clock, metrics and terminal are named in one place each.

use crate::source::{Source, line_of, sources, words};
use crate::{hold, one};

/// Where a crate or call may be named, and what to use elsewhere.
const ONLY_HERE: &[(&str, &[&str], &str)] = &[
    ("lapin::", &["platform/amqp/"], "speak to the broker through platform::amqp"),
    (
        "deadpool_redis::",
        &["platform/redis.rs", "intake/claim.rs", "intake/ledger.rs", "intake/progress.rs"],
        "Redis is spoken by intake::claim, ledger and progress",
    ),
    ("Utc::now", &["platform/time.rs"], "take the time from platform::time::now, or as an argument"),
    ("Local::now", &[], "take the time from platform::time::now, or as an argument"),
    ("SystemTime::now", &["platform/time.rs"], "take the time from platform::time::now, or as an argument"),
    ("counter!", &["platform/metrics.rs"], "every metric is named in platform::metrics"),
    ("gauge!", &["platform/metrics.rs"], "every metric is named in platform::metrics"),
    ("histogram!", &["platform/metrics.rs"], "every metric is named in platform::metrics"),
    ("println!", &["cli/", "cli.rs", "main.rs"], "only the command line writes to the terminal; log instead"),
    ("print!", &["cli/", "cli.rs", "main.rs"], "only the command line writes to the terminal; log instead"),
    ("eprintln!", &["cli/", "cli.rs", "main.rs"], "only the command line writes to the terminal; log instead"),
    ("eprint!", &["cli/", "cli.rs", "main.rs"], "only the command line writes to the terminal; log instead"),
];

fn calls_out_of_place(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        for (call, _, instead) in ONLY_HERE.iter().filter(|(_, places, _)| !source.is_in(places)) {
            for at in words(&source.code, call) {
                let line = line_of(&source.code, at);
                complaints.push(format!("src/{}:{line}: `{call}` has no place here: {instead}", source.path));
            }
        }
    }
    complaints
}

#[test]
fn clients_clock_metrics_and_terminal_are_named_in_one_place_each() {
    hold(&calls_out_of_place(sources()));
}

#[test]
fn the_rule_of_places_bites() {
    for (path, text) in [
        ("journal/x.rs", "use lapin::Channel;"),
        ("intake/mod.rs", "use deadpool_redis::Pool;"),
        ("pipeline.rs", "let now = Utc::now();"),
        ("outbox/x.rs", "metrics::counter!(\"fis_x\")"),
        ("service.rs", "println!(\"x\")"),
        ("platform/x.rs", "eprintln!(\"x\")"),
    ] {
        assert_eq!(calls_out_of_place(&one(path, text)).len(), 1, "{path}: {text}");
    }
    hold(&calls_out_of_place(&one("cli/x.rs", "println!(\"lapin::\") // lapin::")));
}
