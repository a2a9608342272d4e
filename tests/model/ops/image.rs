//! The image and the unit: built from what is there, started with commands that fis understands, stopped in time, never as root.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use clap::Parser;
use fis::cli::Cli;
use fis::platform::amqp::address;
use fis::platform::config::Config;

use super::{BINARY, COMPOSE, DOCKERFILE, UNIT, block, directive, lines, list, seconds, service, unit, value};
use crate::{project_file, read};

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
    for needed in ["Cargo.toml", "Cargo.lock", "build.rs", "src", "crates", "migrations", "topology"] {
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
    assert_eq!(unit("LimitCORE"), "0", "a core file would hold passwords");
    assert_eq!(unit("MemoryMax"), "1G");
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

/// The unit starts fis again after a failure, and must not after a wrong configuration: nothing but a person mends it.
#[test]
fn a_wrong_configuration_exits_with_the_code_on_which_the_unit_gives_up() {
    let exit = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fis"));
        command.args(arguments).env_clear().current_dir(std::env::temp_dir()).envs(environment.iter().copied());
        command.stderr(Stdio::null()).status().unwrap().code().unwrap().to_string()
    };
    let gives_up = unit("RestartPreventExitStatus");
    let rows: [&[(&str, &str)]; 6] = [
        &[("FIS__INTAKE__PREFETSCH", "1")],
        &[("FIS__INTAKE__PREFETCH", "many")],
        &[("FIS_CONFIG", "/nowhere/fis.toml")],
        &[("FIS_DATABASE_URL", "nonsense")],
        &[("FIS_HTTP_ADDR", "nonsense")],
        &[("FIS__LOG__FILTER", "fis=loud")],
    ];
    for environment in rows {
        assert_eq!(exit(&["run"], environment), gives_up, "{environment:?}");
    }
    assert_eq!(exit(&["rnu"], &[]), gives_up);
    // A port that is taken may be free a moment later.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(exit(&["run"], &[("FIS_HTTP_ADDR", &taken.local_addr().unwrap().to_string())]), "1");
    for path in ["README.md", "src/main.rs"] {
        let says = format!("1 failed, {gives_up} wrong usage or a wrong");
        assert!(read(path).contains(&says), "{path} does not say `{says}`");
    }
}

#[test]
fn the_license_is_the_one_that_the_manifest_names() {
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    assert_eq!(manifest["package"]["license"].as_str(), Some("Apache-2.0"));
    let license = read("LICENSE");
    for part in ["Apache License", "Version 2.0, January 2004", "END OF TERMS AND CONDITIONS"] {
        assert!(license.contains(part), "{part}");
    }
    assert!(directive(DOCKERFILE, "COPY ").iter().any(|copy| copy.starts_with("LICENSE ")), "the image has no license");
}

#[test]
fn every_supervisor_waits_longer_than_the_drain() {
    let drain = Config::default().service.stop_seconds;
    assert!(seconds(&value(&service("fis"), "stop_grace_period")) > drain);
    assert!(seconds(&unit("TimeoutStopSec")) > drain);
    assert_eq!(directive(DOCKERFILE, "STOPSIGNAL "), ["SIGTERM"]);
}
