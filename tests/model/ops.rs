//! What an operator starts fis with fits the code: settings, ports, paths, commands, health checks, time limits. The files are
//! read line by line; `docker compose` itself is asked where there is one.

mod cluster;

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use fis::cli::Cli;
use fis::platform::amqp::address;
use fis::platform::config::Config;

use crate::{project_file, read};

const COMPOSE: &str = "docker-compose.yml";
const DOCKERFILE: &str = "ops/Dockerfile";
const UNIT: &str = "ops/fis.service";
const BINARY: &str = "/usr/local/bin/fis";

// --- reading ----------------------------------------------------------------------------------------------------

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

fn port_of(address: &str) -> &str {
    address.rsplit(':').next().unwrap()
}

// --- the compose file -------------------------------------------------------------------------------------------

#[test]
fn compose_gives_fis_settings_that_it_knows_and_addresses_that_exist() {
    let config = Config::load(None, environment("fis").into_iter()).unwrap();
    let services = services();
    let broker = address::parse(&config.amqp).unwrap().remove(0);
    assert!(services.contains(&broker.host));
    let default = address::parse(&Config::default().amqp).unwrap().remove(0);
    assert_eq!((broker.user, broker.vhost), (default.user, default.vhost));
    assert_eq!(config.redis.url.expose(), "redis://:secret@redis:6379/1");
    assert_eq!(config.database.url.expose(), "postgres://fis:secret@postgres:5432/fis");

    let migrate = Config::load(None, environment("migrate").into_iter()).unwrap();
    assert_eq!(migrate.database, config.database);
}

#[test]
fn compose_makes_the_users_and_databases_that_it_gives_to_fis() {
    let rabbitmq = environment("rabbitmq");
    let postgres = environment("postgres");
    let has = |all: &[(String, String)], name: &str, value: &str| all.contains(&(name.to_owned(), value.to_owned()));
    let topology: serde_json::Value = serde_json::from_str(&read("topology/definitions.json")).unwrap();
    assert!(has(&rabbitmq, "RABBITMQ_DEFAULT_VHOST", topology["vhosts"][0]["name"].as_str().unwrap()));
    assert!(has(&rabbitmq, "RABBITMQ_DEFAULT_USER", "fis_service"));
    assert!(has(&rabbitmq, "RABBITMQ_DEFAULT_PASS", "secret"));
    assert!(has(&postgres, "POSTGRES_USER", "fis"));
    assert!(has(&postgres, "POSTGRES_DB", "fis"));
    assert!(has(&postgres, "POSTGRES_PASSWORD", "secret"));
    assert!(service("redis").iter().any(|line| line.contains("\"--requirepass\", \"${FIS_REDIS_PASSWORD:?")));
}

#[test]
fn compose_imports_the_topology_after_the_start_and_waits_for_all_of_it() {
    let rabbitmq = service("rabbitmq");
    let mounted = "./topology/definitions.json:/etc/rabbitmq/fis-definitions.json:ro";
    assert!(rabbitmq.iter().any(|line| line.trim() == format!("- {mounted}")));
    let text = rabbitmq.join("\n");
    assert!(text.contains("import_definitions /etc/rabbitmq/fis-definitions.json"));
    let topology: serde_json::Value = serde_json::from_str(&read("topology/definitions.json")).unwrap();
    let bindings = topology["bindings"].as_array().unwrap();
    assert!(bindings.iter().all(|binding| binding["source"].as_str().unwrap().starts_with("fis.")));
    assert!(text.contains(&format!("-ge {} ]", bindings.len())), "there are {} bindings", bindings.len());
    // With it the server would make no user.
    assert!(!lines("ops/rabbitmq.conf").iter().any(|line| line.contains("load_definitions")));
    assert!(topology["users"].is_null(), "a password in the repository");
}

#[test]
fn compose_takes_every_password_from_the_environment() {
    let text = [lines(COMPOSE), lines(cluster::COMPOSE)].concat().join("\n");
    let used: BTreeSet<&str> =
        text.split("${").skip(1).map(|rest| rest.split_once(":?").expect("no default").0).collect();
    let example = read("ops/env.example");
    let given: BTreeSet<&str> =
        example.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.strip_suffix('=')).collect();
    assert_eq!(used, given);
    assert!(read(".gitignore").lines().any(|line| line == "/.env"), "the passwords would be committed");
}

#[test]
fn compose_mounts_what_is_there_and_keeps_all_state_in_named_volumes() {
    let all = lines(COMPOSE);
    let named: BTreeSet<String> = block(&all[all.iter().position(|l| l == "volumes:").unwrap()..], "volumes")
        .iter()
        .map(|line| line.trim().trim_end_matches(':').to_owned())
        .collect();
    let mut used = BTreeSet::new();
    for service in ["rabbitmq", "redis", "postgres", "fis"].map(service) {
        for volume in block(&service, "volumes") {
            let source = volume.trim().trim_start_matches("- ").split(':').next().unwrap().to_owned();
            match source.strip_prefix("./") {
                Some(path) => {
                    assert!(project_file(path).exists(), "{path}");
                    assert!(volume.ends_with(":ro"), "{volume}");
                }
                None => _ = used.insert(source),
            }
        }
    }
    assert_eq!(used, named);
}

#[test]
fn compose_binds_every_port_to_the_loopback() {
    for name in services().iter().filter(|name| *name != "migrate") {
        for port in block(&service(name), "ports") {
            assert!(port.trim().starts_with("- \"127.0.0.1:"), "{name}: {port}");
        }
    }
}

#[test]
fn compose_starts_in_order_and_waits_for_health() {
    let condition =
        |service_name: &str, on: &str| value(&block(&block(&service(service_name), "depends_on"), on), "condition");
    assert_eq!(condition("migrate", "postgres"), "service_healthy");
    assert_eq!(condition("fis", "migrate"), "service_completed_successfully");
    assert_eq!(condition("fis", "rabbitmq"), "service_healthy");
    // fis works without Redis.
    assert_eq!(condition("fis", "redis"), "service_started");
    for name in ["rabbitmq", "redis", "postgres", "fis"] {
        assert!(!block(&service(name), "healthcheck").is_empty(), "{name}");
    }
    for (name, image) in [("rabbitmq", "rabbitmq:4-management"), ("redis", "redis:7"), ("postgres", "postgres:17")] {
        assert_eq!(value(&service(name), "image"), image);
    }
}

#[test]
fn docker_compose_accepts_the_file() {
    let works = |arguments: &[&str]| {
        let mut command = Command::new("docker");
        command.args(arguments).current_dir(project_file("")).stdout(Stdio::null()).stderr(Stdio::null());
        for name in ["FIS_AMQP_PASSWORD", "FIS_REDIS_PASSWORD", "FIS_DATABASE_PASSWORD", "FIS_ERLANG_COOKIE"] {
            command.env(name, "secret");
        }
        command.status().is_ok_and(|status| status.success())
    };
    if !works(&["compose", "version"]) {
        eprintln!("skipped: there is no docker compose");
        return;
    }
    assert!(works(&["compose", "config", "--quiet"]));
    assert!(works(&["compose", "-f", cluster::COMPOSE, "config", "--quiet"]));
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

// --- the image and the unit -----------------------------------------------------------------------------------------

#[test]
fn every_command_is_one_that_fis_understands() {
    let words = |list: Vec<String>| [vec!["fis".to_owned()], list].concat();
    let start = unit("ExecStart");
    let commands = [
        words(list(&value(&service("fis"), "command"))),
        words(list(&value(&service("migrate"), "command"))),
        words(list(&directive(DOCKERFILE, "CMD ")[0])),
        start.split_whitespace().map(str::to_owned).collect(),
    ];
    for command in commands {
        if let Err(error) = Cli::try_parse_from(&command) {
            panic!("{command:?}: {error}");
        }
    }
    // What the comments tell people to type.
    for path in [COMPOSE, UNIT] {
        for line in read(path).lines().filter_map(|line| line.split_once("exec fis fis ")) {
            let command: Vec<&str> = std::iter::once("fis").chain(line.1.split_whitespace()).collect();
            assert!(Cli::try_parse_from(&command).is_ok(), "{command:?}");
        }
    }
}

#[test]
fn the_image_holds_the_binary_where_it_is_started() {
    assert_eq!(list(&directive(DOCKERFILE, "ENTRYPOINT ")[0]), [BINARY]);
    assert!(directive(DOCKERFILE, "COPY ").iter().any(|copy| copy.ends_with(&format!("/fis {BINARY}"))));
    assert!(unit("ExecStart").starts_with(&format!("{BINARY} ")));
    assert_eq!(value(&block(&lines(COMPOSE), "build"), "dockerfile"), DOCKERFILE);
}

#[test]
fn the_image_is_built_with_a_compiler_that_is_new_enough_and_for_one_release() {
    let file = lines(DOCKERFILE);
    let stages: Vec<&String> = file.iter().filter(|line| line.starts_with("FROM ")).collect();
    assert_eq!(stages.len(), 2);
    assert!(stages.iter().all(|stage| stage.contains("${DEBIAN}")), "{stages:?}");
    let image = stages[0].strip_prefix("FROM rust:").unwrap().split('-').next().unwrap();
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    let needed = manifest["package"]["rust-version"].as_str().unwrap();
    let version = |text: &str| text.split('.').map(|part| part.parse::<u32>().unwrap()).collect::<Vec<_>>();
    assert!(version(image) >= version(needed), "{image} is older than {needed}");
}

#[test]
fn the_image_is_built_from_what_is_there_and_not_ignored() {
    let copied: Vec<String> = lines(DOCKERFILE)
        .iter()
        .filter_map(|line| line.strip_prefix("COPY ").filter(|rest| !rest.starts_with("--from")))
        .flat_map(|rest| rest.split_whitespace().rev().skip(1).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let ignored = lines(".dockerignore");
    assert_eq!(ignored.first().map(String::as_str), Some("*"));
    for path in &copied {
        assert!(project_file(path).exists(), "{path}");
        assert!(ignored.contains(&format!("!{path}")), "{path} is ignored");
    }
    // What the sources and the build script read at compile time.
    for needed in ["Cargo.toml", "Cargo.lock", "build.rs", "vendor", "src", "crates", "migrations", "topology"] {
        assert!(copied.iter().any(|path| path == needed), "{needed} is not copied");
    }
}

#[test]
fn nothing_runs_as_root() {
    let user = &directive(DOCKERFILE, "USER ")[0];
    assert!(user.parse::<u32>().unwrap() > 0);
    assert!(lines(DOCKERFILE).join(" ").contains(&format!("--uid {user} ")));
    assert_eq!(unit("DynamicUser"), "yes");
    for (key, expected) in [
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("CapabilityBoundingSet", ""),
        ("SystemCallFilter", "@system-service"),
    ] {
        assert_eq!(unit(key), expected, "{key}");
    }
    let fis = service("fis");
    assert_eq!(value(&fis, "read_only"), "true");
    assert_eq!(value(&fis, "cap_drop"), "[ALL]");
}

#[test]
fn the_unit_takes_credentials_from_a_file_and_comes_back_slower_and_slower() {
    assert_eq!(unit("EnvironmentFile"), "/etc/fis/credentials.env");
    assert_eq!(unit("Restart"), "always");
    assert!(seconds(&unit("RestartSec")) < seconds(&unit("RestartMaxDelaySec")));
    assert_eq!(unit("StartLimitIntervalSec"), "0");
    // The three lines it asks for are settings.
    let text = read(UNIT);
    let asked = text
        .lines()
        .filter_map(|line| line.strip_prefix("#   ")?.split_once('='))
        .filter(|(n, _)| n.starts_with("FIS_"));
    let config = Config::load(None, asked.map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap();
    assert_ne!(config.amqp, Config::default().amqp);
    assert_ne!(config.redis, Config::default().redis);
    assert_ne!(config.database, Config::default().database);
    address::parse(&config.amqp).unwrap();
}

#[test]
fn every_supervisor_waits_longer_than_the_drain() {
    let drain = Config::default().service.stop_seconds;
    assert!(seconds(&value(&service("fis"), "stop_grace_period")) > drain);
    assert!(seconds(&unit("TimeoutStopSec")) > drain);
    assert_eq!(directive(DOCKERFILE, "STOPSIGNAL "), ["SIGTERM"]);
}

#[test]
fn the_ports_of_image_compose_and_health_checks_are_one() {
    let address = environment("fis").into_iter().find(|(name, _)| name == "FIS_HTTP_ADDR").unwrap().1;
    let port = port_of(&address).to_owned();
    assert!(address.starts_with("0.0.0.0:"), "nobody outside the container could ask");
    assert_eq!(directive(DOCKERFILE, "ENV "), [format!("FIS_HTTP_ADDR={address}")]);
    assert_eq!(directive(DOCKERFILE, "EXPOSE ").join(","), port);
    assert_eq!(block(&service("fis"), "ports")[0].trim(), format!("- \"127.0.0.1:{port}:{port}\""));
    for check in [image_check(), compose_check()] {
        assert!(check.contains(&format!("/dev/tcp/127.0.0.1/{port}")), "{check}");
    }
    assert_eq!(port_of(&Config::default().http.addr), port);
}

// --- the health checks ------------------------------------------------------------------------------------------------

/// The script that `bash -c` gets from the image.
fn image_check() -> String {
    let check = &directive(DOCKERFILE, "HEALTHCHECK ")[0];
    let words: Vec<String> = serde_json::from_str(check.split_once("CMD ").unwrap().1).unwrap();
    assert_eq!(words[..2], ["bash", "-c"]);
    words[2].clone()
}

/// The same from the compose file, where a dollar is written twice.
fn compose_check() -> String {
    let words = block(&block(&service("fis"), "healthcheck"), "test");
    let words: Vec<&str> = words.iter().map(|line| line.trim().trim_start_matches("- ")).collect();
    assert_eq!(words[..3], ["CMD", "bash", "-c"]);
    words[3].replace("$$", "$")
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_fis_answers_the_health_checks() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fis"));
    // Its servers are away, which is no reason to be dead, but one not to be ready.
    command
        .arg("run")
        .env_clear()
        .current_dir(std::env::temp_dir())
        .env("FIS_HTTP_ADDR", format!("127.0.0.1:{port}"))
        .env("FIS_AMQP_URL", "amqp://fis_service@127.0.0.1:1/%2Ffis")
        .env("FIS_REDIS_URL", "redis://127.0.0.1:1/1")
        .env("FIS_DATABASE_URL", "postgres://fis@127.0.0.1:1/fis")
        .stderr(Stdio::null());
    let _running = Running(command.spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "fis does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let passes = |script: String| {
        let script = script.replace("/8080", &format!("/{port}"));
        Command::new("bash").args(["-c", &script]).status().unwrap().success()
    };
    assert!(image_check().contains("/healthz") && passes(image_check()));
    assert!(compose_check().contains("/readyz") && !passes(compose_check()));
    assert!(passes(compose_check().replace("/readyz", "/healthz")), "only the path makes the difference");
}
