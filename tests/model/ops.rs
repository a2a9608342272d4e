//! What an operator starts fis with fits the code: settings, ports, paths, commands, health checks, time limits. The files are
//! read line by line; `docker compose` itself is asked where there is one.

mod cluster;
mod compose;
mod health;
mod image;
mod kubernetes;

use fis::platform::config::Config;

use crate::read;

const COMPOSE: &str = "docker-compose.yml";
const DOCKERFILE: &str = "ops/Dockerfile";
const UNIT: &str = "ops/fis.service";
const BINARY: &str = "/usr/local/bin/fis";

/// The lines of a file that are not comments.
fn lines(path: &str) -> Vec<String> {
    read(path).lines().filter(|line| !line.trim_start().starts_with('#')).map(str::to_owned).collect()
}

/// The block below `key:`, that is, the following lines with a greater indent; of a service, with what it shares.
fn block(lines: &[String], key: &str) -> Vec<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let start = lines.iter().position(|line| line.trim_start().starts_with(&format!("{key}:")));
    let start = start.unwrap_or_else(|| panic!("no `{key}:`"));
    let inside = |line: &&String| line.trim().is_empty() || indent(line) > indent(&lines[start]);
    lines[start + 1..].iter().take_while(inside).filter(|line| !line.trim().is_empty()).cloned().collect()
}

fn service(name: &str) -> Vec<String> {
    service_of(COMPOSE, name)
}

fn service_of(file: &str, name: &str) -> Vec<String> {
    let all = lines(file);
    let mut found = block(&block(&all, "services"), name);
    let merged: Vec<String> =
        found.iter().filter_map(|line| line.trim().strip_prefix("<<: ")).map(str::to_owned).collect();
    for anchor in merged.iter().flat_map(|merged| list(merged)) {
        found.extend(block(&all, &format!("x-{}", anchor.trim_start_matches('*'))));
    }
    found
}

fn services() -> Vec<String> {
    services_of(COMPOSE)
}

fn services_of(file: &str) -> Vec<String> {
    let names = block(&lines(file), "services");
    names
        .iter()
        .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'))
        .filter(|n| !n.starts_with(' '))
        .map(str::to_owned)
        .collect()
}

/// The value of the one line that begins with `key: `.
fn value(lines: &[String], key: &str) -> String {
    let prefix = format!("{key}: ");
    let found: Vec<&str> = lines.iter().filter_map(|line| line.trim_start().strip_prefix(&prefix)).collect();
    assert_eq!(found.len(), 1, "`{key}` in {lines:#?}");
    found[0].trim_matches('"').to_owned()
}

/// The members of a list in brackets, `["a", "b"]`.
fn list(text: &str) -> Vec<String> {
    text.trim_matches(['[', ']']).split(", ").map(|word| word.trim_matches('"').to_owned()).collect()
}

/// The environment of a service, with every `${VARIABLE:?…}` filled in.
fn environment(name: &str) -> Vec<(String, String)> {
    environment_of(COMPOSE, name)
}

fn environment_of(file: &str, name: &str) -> Vec<(String, String)> {
    let pair = |line: String| {
        let (variable, value) = line.trim().split_once(": ").unwrap_or_else(|| panic!("{line}"));
        (variable.to_owned(), filled(value))
    };
    block(&service_of(file, name), "environment").into_iter().map(pair).collect()
}

fn filled(text: &str) -> String {
    match text.split_once("${") {
        None => text.to_owned(),
        Some((before, rest)) => format!("{before}secret{}", filled(rest.split_once('}').unwrap().1)),
    }
}

/// Seconds of `20s`, `5m` or a bare number.
fn seconds(text: &str) -> u64 {
    text.strip_suffix('m')
        .map_or_else(|| text.trim_end_matches('s').parse().unwrap(), |m| 60 * m.parse::<u64>().unwrap())
}

/// The values of a directive of the image's last stage, or of a key of the unit.
fn directive(path: &str, word: &str) -> Vec<String> {
    let text = lines(path).join("\n").replace("\\\n", " ");
    let stage = text.rsplit("\nFROM ").next().unwrap().to_owned();
    stage.lines().filter_map(|line| line.strip_prefix(word)).map(|rest| rest.trim().to_owned()).collect()
}

fn unit(key: &str) -> String {
    directive(UNIT, &format!("{key}=")).first().unwrap_or_else(|| panic!("{UNIT} has no {key}")).clone()
}

// --- the servers' configurations ----------------------------------------------------------------------------------

#[test]
fn redis_evicts_what_expires_first_and_never_refuses_a_write() {
    let conf = lines("ops/redis.conf");
    for line in ["maxmemory-policy volatile-ttl", "stop-writes-on-bgsave-error no", "maxmemory 512mb"] {
        assert!(conf.iter().any(|found| found == line), "{line}");
    }
    assert!(service("redis").iter().any(|line| line.contains("./ops/redis.conf:/usr/local/etc/redis/redis.conf:ro")));
}

#[test]
fn the_broker_waits_longer_for_a_consumer_than_any_hold() {
    let conf = lines("ops/rabbitmq.conf");
    let timeout = conf.iter().find_map(|line| line.strip_prefix("consumer_timeout = ")).unwrap();
    let timeout: u64 = timeout.parse::<u64>().unwrap() / 1000;
    assert!(timeout >= 2 * Config::default().intake.hold_seconds);
    let longest = [("FIS__INTAKE__HOLD_SECONDS".to_owned(), (timeout - 1).to_string())];
    assert!(Config::load(None, longest.into_iter()).is_err(), "a hold as long as the broker's patience is refused");
    assert!(service("rabbitmq").iter().any(|line| line.contains("./ops/rabbitmq.conf:/etc/rabbitmq/conf.d/")));
}
