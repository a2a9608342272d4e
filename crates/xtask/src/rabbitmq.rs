//! The private RabbitMQ: one node or a cluster of three, of this system or of another one in a directory.
//!
//! It gets its own epmd on its own port, so the machine's epmd is neither used nor stopped. The nodes of a cluster share it; it
//! runs for as long as one of them does. Nothing is taken from /etc/rabbitmq, /var/lib/rabbitmq or the caller's home.

use std::path::Path;
use std::process::Command;

use crate::call;
use crate::files;
use crate::place::{Place, is_root};
use crate::processes;
use crate::programs;
use crate::redis::connect;
use crate::say::{Done, OrDie, die};
use crate::server::{NODES, Server};

/// The broker's settings for a cluster, as in ops/rabbitmq-cluster.conf.
const CLUSTER_CONF: &str = "
cluster_partition_handling = pause_minority
net_ticktime = 15
";

/// A program in the private broker's world. In another root it begins in that root, and is led back to our directory first, for
/// by the working directory we know our processes; the state directory is seen at the same place from within.
fn in_its_world(place: &Place, server: Server, program: &Path) -> Command {
    let dir = place.data(server);
    let mut command = match &place.other_root {
        None => Command::new(program),
        Some(root) => {
            let mut command = Command::new("chroot");
            command.arg(root).arg("env").arg(format!("--chdir={}", dir.display())).arg(program);
            command
        }
    };
    for (name, _) in std::env::vars_os() {
        let ours = name.to_str().is_some_and(|name| name.starts_with("RABBITMQ_") || name.starts_with("ERL_"));
        if ours || name == "NOTIFY_SOCKET" {
            command.env_remove(name);
        }
    }
    let port = |name: &str| place.ports.number(name).to_string();
    let loopback = "-kernel inet_dist_use_interface {127,0,0,1}";
    command
        // For the Erlang cookie, which all nodes share.
        .env("HOME", place.data(Server::Rabbitmq))
        .env("ERL_EPMD_PORT", port("epmd"))
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODENAME", place.ports.node_name(server))
        .env("RABBITMQ_USE_LONGNAME", "false")
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", port(&server.main_port()))
        .env("RABBITMQ_DIST_PORT", port(&format!("distribution{}", server.number())))
        .env("RABBITMQ_MNESIA_BASE", dir.join("data"))
        .env("RABBITMQ_LOG_BASE", dir.join("log"))
        // To stdout.
        .env("RABBITMQ_LOGS", "-")
        .env("RABBITMQ_GENERATED_CONFIG_DIR", dir.join("generated"))
        .env("RABBITMQ_CONF_ENV_FILE", dir.join("env.conf"))
        .env("RABBITMQ_CONFIG_FILE", dir.join("rabbitmq.conf"))
        .env("RABBITMQ_CONFIG_FILES", dir.join("conf.d"))
        .env("RABBITMQ_ADVANCED_CONFIG_FILE", dir.join("advanced.config"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", dir.join("enabled_plugins"))
        .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", loopback)
        .env("RABBITMQ_CTL_ERL_ARGS", loopback);
    command
}

/// The broker's `rabbitmqctl`, for a node that runs.
pub fn control(place: &Place, node: Server) -> Done<Command> {
    let bin = programs::needed(programs::rabbitmq(place), node)?;
    Ok(in_its_world(place, node, &bin.join("rabbitmqctl")))
}

fn configure(place: &Place, node: Server) -> Done {
    let dir = place.data(node);
    for folder in ["data", "log", "generated", "conf.d"] {
        files::make_folder(&dir.join(folder))?;
    }
    files::write(&dir.join("env.conf"), "")?;
    files::write(&dir.join("advanced.config"), "[].\n")?;
    files::write(&dir.join("enabled_plugins"), "[rabbitmq_management].\n")?;
    files::write(&dir.join("rabbitmq.conf"), &configuration(place, node))
}

fn configuration(place: &Place, node: Server) -> String {
    let ports = &place.ports;
    let mut conf = format!(
        "\
listeners.tcp.1 = 127.0.0.1:{amqp}
management.tcp.ip = 127.0.0.1
management.tcp.port = {management}
default_vhost = /fis
default_user = fis_service
default_pass = secret
default_user_tags.administrator = true
loopback_users = none
disk_free_limit.absolute = 200MB
vm_memory_high_watermark.absolute = 2GB
raft.wal_max_size_bytes = 64000000
",
        amqp = ports.main(node),
        management = ports.number(&format!("management{}", node.number())),
    );
    if ports.is_cluster() {
        conf.push_str(CLUSTER_CONF.trim_start());
    }
    if node.is_further_node() {
        // A node without data joins the first one.
        conf.push_str("cluster_formation.peer_discovery_backend = classic_config\n");
        conf.push_str(&format!("cluster_formation.classic_config.nodes.1 = {}\n", ports.node));
    } else if place.has_tls() {
        conf.push_str(&format!(
            "\
listeners.ssl.1 = 127.0.0.1:{amqps}
ssl_options.cacertfile = {tls}/ca.pem
ssl_options.certfile = {tls}/server.pem
ssl_options.keyfile = {tls}/server.key
ssl_options.verify = verify_none
ssl_options.fail_if_no_peer_cert = false
management.ssl.ip = 127.0.0.1
management.ssl.port = {management}
management.ssl.cacertfile = {tls}/ca.pem
management.ssl.certfile = {tls}/server.pem
management.ssl.keyfile = {tls}/server.key
",
            amqps = ports.number("amqps"),
            management = ports.number("management_tls"),
            tls = place.dir.join("tls").display(),
        ));
    }
    conf
}

/// In the foreground rather than with -daemon, which would leave our directory, by which we know our processes.
pub fn launch_epmd(place: &Place) -> Done {
    files::make_folder(&place.data(Server::Epmd))?;
    enter_other_root(place)?;
    processes::spawn(place, Server::Epmd, &in_its_world(place, Server::Epmd, Path::new("epmd")))
}

pub fn launch(place: &Place, node: Server) -> Done {
    configure(place, node)?;
    enter_other_root(place)?;
    let bin = programs::needed(programs::rabbitmq(place), node)?;
    let mut command = in_its_world(place, node, &bin.join("rabbitmq-server"));
    // With RABBITMQ_ALLOW_INPUT the script becomes the Erlang machine instead of watching over it: the number in the pid file is
    // then that of the server itself. -noinput takes the input away again.
    command.env("RABBITMQ_ALLOW_INPUT", "1").arg("-noinput");
    processes::spawn(place, node, &command)
}

/// The state directory is made visible at the same place from within.
fn enter_other_root(place: &Place) -> Done {
    let Some(root) = &place.other_root else { return Ok(()) };
    if !is_root() {
        return die("FIS_DEV_RABBITMQ_ROOT needs root");
    }
    std::fs::copy("/etc/hosts", root.join("etc/hosts")).or_die(format!("cannot write {}/etc/hosts", root.display()))?;
    let proc = root.join("proc");
    if !is_mounted(&proc) {
        call::must(Command::new("mount").args(["-t", "proc", "proc"]).arg(&proc))?;
    }
    let within = programs::outside(place, &place.dir);
    files::make_folder(&within)?;
    if !is_mounted(&within) {
        call::must(Command::new("mount").arg("--bind").arg(&place.dir).arg(&within))?;
    }
    Ok(())
}

fn is_mounted(path: &Path) -> bool {
    call::succeeds(Command::new("mountpoint").arg("-q").arg(path))
}

/// Takes away what outlives a node, and not the last one: epmd, and the state directory's place in another root.
pub fn release(place: &Place) -> Done {
    if NODES.into_iter().any(|node| processes::runs(place, node)) {
        return Ok(());
    }
    processes::kill_rest(place, Server::Epmd)?;
    let within = programs::outside(place, &place.dir);
    if place.other_root.is_some() && is_mounted(&within) {
        call::must(Command::new("umount").arg("--lazy").arg(&within))?;
    }
    Ok(())
}

pub fn epmd_answers(place: &Place) -> bool {
    connect(place.ports.number("epmd")).is_ok()
}

pub fn answers(place: &Place, node: Server) -> bool {
    let management = place.ports.number(&format!("management{}", node.number()));
    connect(place.ports.main(node)).is_ok() && connect(management).is_ok()
}
