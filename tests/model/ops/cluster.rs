//! The same for what `docker-compose.cluster.yml` starts, and `docs/cluster.md` tells of.

use clap::Parser;
use fis::cli::Cli;
use fis::platform::amqp::address;
use fis::platform::config::Config;

use super::{block, environment_of, lines, list, seconds, service, service_of, services_of, value};
use crate::{project_file, read};

pub const COMPOSE: &str = "docker-compose.cluster.yml";
const CONF: &str = "ops/rabbitmq-cluster.conf";
const NODES: [&str; 3] = ["rabbitmq-1", "rabbitmq-2", "rabbitmq-3"];

#[test]
fn both_instances_know_every_node_the_name_of_redis_and_the_primary() {
    for instance in ["fis-1", "fis-2"] {
        let config = Config::load(None, environment_of(COMPOSE, instance).into_iter()).unwrap();
        let hosts: Vec<String> = address::parse(&config.amqp).unwrap().into_iter().map(|node| node.host).collect();
        assert_eq!(hosts, NODES);
        assert_eq!(config.redis.url.expose(), "redis://:secret@redis:6379/1");
        assert_eq!(config.database.url.expose(), "postgres://fis_service:secret@postgres:5432/fis");
        assert!(Cli::try_parse_from(["fis", &list(&value(&service_of(COMPOSE, instance), "command"))[0]]).is_ok());
        assert!(seconds(&value(&service_of(COMPOSE, instance), "stop_grace_period")) > config.service.stop_seconds);
    }
    let services = services_of(COMPOSE);
    for name in NODES.into_iter().chain(["redis", "postgres", "standby", "migrate", "fis-1", "fis-2"]) {
        assert!(services.iter().any(|service| service == name), "{name}");
    }
}

#[test]
fn every_node_has_its_own_name_and_data_and_the_same_configuration() {
    let conf = lines(CONF);
    for (node, number) in NODES.into_iter().zip(1..) {
        let service = service_of(COMPOSE, node);
        assert_eq!(value(&service, "hostname"), node);
        let peer = format!("cluster_formation.classic_config.nodes.{number} = rabbit@{node}");
        assert!(conf.contains(&peer), "{peer}");
        let volumes = block(&service, "volumes").join("\n");
        for mount in [
            &format!("{node}-data:/var/lib/rabbitmq"),
            "./ops/rabbitmq.conf:/etc/rabbitmq/",
            &format!("./{CONF}:/etc/rabbitmq/"),
        ] {
            assert!(volumes.contains(mount), "{node}: {mount}");
        }
    }
    assert_eq!(value(&service_of(COMPOSE, NODES[0]), "image"), value(&service("rabbitmq"), "image"));
}

/// Two instances could otherwise relay at once, one on each side of a cut; and a silent node would keep the relay for a minute.
#[test]
fn a_minority_pauses_and_a_silent_node_is_given_up_soon() {
    let conf = lines(CONF);
    assert!(conf.iter().any(|line| line == "cluster_partition_handling = pause_minority"));
    let tick = conf.iter().find_map(|line| line.strip_prefix("net_ticktime = ")).unwrap();
    assert!((10..=20).contains(&tick.parse::<u32>().unwrap()), "{tick}");
    // What the tests run with.
    let dev = read("crates/xtask/src/rabbitmq.rs");
    assert!(dev.contains("\ncluster_partition_handling = pause_minority\n"));
    assert!(dev.contains(&format!("\nnet_ticktime = {tick}\n")));
}

#[test]
fn the_topology_is_imported_when_all_nodes_are_there() {
    let text = service_of(COMPOSE, NODES[0]).join("\n");
    let waits = text.find("list_running()).')\" = 3 ]").unwrap();
    assert!(waits < text.find("import_definitions /etc/rabbitmq/fis-definitions.json").unwrap());
    let topology: serde_json::Value = serde_json::from_str(&read("topology/definitions.json")).unwrap();
    assert!(text.contains(&format!("-ge {} ]", topology["bindings"].as_array().unwrap().len())));
}

#[test]
fn the_standby_is_waited_for_by_the_name_it_gives() {
    let replication = read("ops/postgres-replication.sh");
    assert!(replication.contains("synchronous_standby_names = 'FIRST 1 (standby)'"));
    let standby = service_of(COMPOSE, "standby").join("\n");
    assert!(standby.contains("application_name=standby'"));
    assert!(
        block(&service_of(COMPOSE, "postgres"), "volumes")
            .join("\n")
            .contains("./ops/postgres-replication.sh:/docker-entrypoint-initdb.d/")
    );
    assert_eq!(value(&service_of(COMPOSE, "standby"), "image"), value(&service("postgres"), "image"));
    // Without it the migration would wait for ever.
    let roles = block(&block(&service_of(COMPOSE, "roles"), "depends_on"), "standby");
    assert_eq!(value(&roles, "condition"), "service_healthy");
    let migrate = block(&block(&service_of(COMPOSE, "migrate"), "depends_on"), "roles");
    assert_eq!(value(&migrate, "condition"), "service_completed_successfully");
}

#[test]
fn every_port_is_bound_to_the_loopback_and_every_mount_is_there() {
    let text = lines(COMPOSE);
    for line in text.iter().map(|line| line.trim().trim_start_matches("- ")) {
        if let Some(path) = line.strip_prefix("./") {
            let path = path.split(':').next().unwrap();
            assert!(project_file(path).exists() && line.ends_with(":ro"), "{line}");
        }
    }
    for name in services_of(COMPOSE) {
        let service = service_of(COMPOSE, &name);
        if service.iter().any(|line| line.trim() == "ports:") {
            for port in block(&service, "ports") {
                assert!(port.trim().starts_with("- \"127.0.0.1:"), "{name}: {port}");
            }
        }
    }
}
