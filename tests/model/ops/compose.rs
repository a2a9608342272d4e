//! The compose file: settings that fis knows, servers that exist, an order that works, nothing open to the network.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use fis::platform::amqp::address;
use fis::platform::config::Config;

use super::{COMPOSE, block, cluster, environment, lines, service, service_of, services, services_of, value};
use crate::{project_file, read};

#[test]
fn compose_gives_fis_settings_that_it_knows_and_addresses_that_exist() {
    let config = Config::load(None, environment("fis").into_iter()).unwrap();
    let services = services();
    let broker = address::parse(&config.amqp).unwrap().remove(0);
    assert!(services.contains(&broker.host));
    let default = address::parse(&Config::default().amqp).unwrap().remove(0);
    assert_eq!((broker.user, broker.vhost), (default.user, default.vhost));
    assert_eq!(config.redis.url.expose(), "redis://:secret@redis:6379/1");
    assert_eq!(config.database.url.expose(), "postgres://fis_service:secret@postgres:5432/fis");

    let migrate = Config::load(None, environment("migrate").into_iter()).unwrap();
    assert_eq!(migrate.database.url.expose(), "postgres://fis_owner:secret@postgres:5432/fis");
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
    for compose in [COMPOSE, cluster::COMPOSE] {
        let redis = service_of(compose, "redis").join("\n");
        assert!(redis.contains("redis.conf - < <(printf 'requirepass %s\\n' \"$$REDISCLI_AUTH\")"), "{redis}");
        let roles = service_of(compose, "roles").join("\n");
        for role in ["fis_owner", "fis_service"] {
            assert!(roles.contains(&format!("alter role {role} password '%s'")), "{roles}");
        }
    }
}

/// A command line is seen by everybody on the machine, and in `docker inspect`.
#[test]
fn compose_puts_no_password_on_a_command_line() {
    for compose in [COMPOSE, cluster::COMPOSE] {
        for name in services_of(compose) {
            let service = service_of(compose, &name);
            if let Some(command) = service.iter().find(|line| line.trim_start().starts_with("command:")) {
                let command = command.to_owned() + &block(&service, "command").join("\n");
                assert!(!command.contains("_PASSWORD:?"), "{compose}, {name}: {command}");
            }
        }
    }
}

/// Neither a superuser of PostgreSQL nor an administrator of RabbitMQ, and with the rights that the README gives to the service.
#[test]
fn compose_runs_fis_with_the_least_rights() {
    let start = "rabbitmqctl set_permissions --vhost /fis fis_service ";
    let readme = read("topology/README.md");
    let rights = readme.lines().find_map(|line| line.strip_prefix(start)).unwrap();
    // A dollar sign is written twice.
    let given = format!("set_permissions --vhost /fis fis_service {}", rights.replace('$', "$$"));
    for compose in [COMPOSE, cluster::COMPOSE] {
        let text = lines(compose).join("\n");
        assert!(text.contains(&given) && text.contains("set_user_tags fis_service management"), "{compose}: {given}");
        assert_eq!(text.matches("postgres://fis_owner:").count(), 1, "only migrate is the owner");
        assert!(!text.contains("postgres://fis:"), "the superuser's address");
    }
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
    for name in services().iter().filter(|name| !["migrate", "roles"].contains(&name.as_str())) {
        for port in block(&service(name), "ports") {
            assert!(port.trim().starts_with("- \"127.0.0.1:"), "{name}: {port}");
        }
    }
}

#[test]
fn compose_starts_in_order_and_waits_for_health() {
    let condition =
        |service_name: &str, on: &str| value(&block(&block(&service(service_name), "depends_on"), on), "condition");
    assert_eq!(condition("roles", "postgres"), "service_healthy");
    assert_eq!(condition("migrate", "roles"), "service_completed_successfully");
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
        for name in [
            "FIS_AMQP_PASSWORD",
            "FIS_REDIS_PASSWORD",
            "FIS_DATABASE_PASSWORD",
            "FIS_DATABASE_ADMIN_PASSWORD",
            "FIS_ERLANG_COOKIE",
        ] {
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
