//! The commands about the servers: up, down, status, env, server, rabbitmqctl, rabbitmq4. Arguments that have been understood
//! enter; servers run or do not, and what a caller asked for stands on stdout.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::addresses;
use crate::afterwards;
use crate::call;
use crate::environment;
use crate::files;
use crate::install;
use crate::lifecycle;
use crate::place::{Place, is_root};
use crate::ports::Ports;
use crate::processes::{self, signal_all};
use crate::programs;
use crate::rabbitmq;
use crate::say::{Done, Stop, answer, die, say};
use crate::server::{Action, NODES, Server};

/// The servers that `up` is going to start, and those of them whose programs have to be installed first.
#[derive(Debug)]
pub struct Plan {
    private: Vec<Server>,
    missing: Vec<Server>,
}

/// Looks at what there is to do, and asks for what is needed: from here on `up` needs no terminal.
pub fn plan(place: &mut Place, cluster: bool) -> Done<Plan> {
    place.cluster |= cluster;
    if cfg!(not(target_os = "linux")) {
        return install::docker_way("Private servers need Linux.");
    }
    for server in place.servers().into_iter().filter(|server| place.given.is_external(*server)) {
        say(format!("{}: using {} from the environment", server.name(), server.url_variable()));
    }
    let private = place.private_servers();
    if private.is_empty() {
        say("No private server is needed.");
    }
    let missing = install::missing(place, &private)?;
    Ok(Plan { private, missing })
}

pub fn up(place: &mut Place, plan: &Plan) -> Done {
    if plan.private.is_empty() {
        return Ok(());
    }
    install::install(place, &plan.missing)?;
    let _lock = place.lock()?;
    place.ports = Ports::load(&place.dir);
    // All of them know that it is a cluster before the first one is configured.
    if plan.private.contains(&Server::Rabbitmq2) && !place.ports.is_cluster() {
        lifecycle::assign_ports(place, &[Server::Rabbitmq2, Server::Rabbitmq3])?;
    }
    match lifecycle::start_all(place, &plan.private) {
        Err(Stop::Told(_)) => die("not all servers are up"),
        other => other,
    }
}

pub fn down(place: &Place, wipe: bool) -> Done {
    let all = || place.servers().into_iter().chain([Server::Epmd]);
    if !place.dir.is_dir() && all().all(|server| processes::orphans_of(place, server).is_empty()) {
        say(format!("Nothing is up in {}.", place.dir.display()));
        return Ok(());
    }
    let _lock = place.lock()?;
    lifecycle::stop_all(place, &place.servers())?;
    if wipe { wipe_state(place) } else { Ok(()) }
}

/// Removes only what we put there: FIS_DEV_DIR may name a directory that holds other things too.
fn wipe_state(place: &Place) -> Done {
    let elsewhere = place.postgres_elsewhere();
    let linked = fs::read_link(place.data(Server::Postgres)).ok();
    // The second one is for where the link was lost; only root's PostgreSQL is ever elsewhere.
    for data in linked.into_iter().chain(is_root().then_some(elsewhere)) {
        let ours = |folder: &&Path| folder.to_string_lossy().starts_with("/var/tmp/fis-dev-");
        if let Some(folder) = data.parent().filter(ours) {
            files::remove(folder)?;
        }
    }
    for server in place.servers().into_iter().chain([Server::Epmd]) {
        files::remove(&place.data(server))?;
        for extension in ["new", "log", "log.old", "pid"] {
            files::remove(&place.file(server, extension))?;
        }
    }
    for name in ["tls", "tls.new", "install.log", "install-readers.log", "ports", "ports.new", "env", "env.new", "lock"]
    {
        files::remove(&place.dir.join(name))?;
    }
    let _ = fs::remove_dir(&place.dir);
    say(format!("wiped {}", place.dir.display()));
    Ok(())
}

pub fn status(place: &Place) {
    for server in place.servers() {
        answer(status_line(place, server));
    }
}

fn status_line(place: &Place, server: Server) -> String {
    let name = server.name();
    if place.given.is_external(server) {
        return format!("{name:<9} external  {} is set\n", server.url_variable());
    }
    let version = programs::version(place, server);
    match processes::main_pid(place, server) {
        Some(pid) => {
            let state = if processes::is_paused(pid) { "paused" } else { "running" };
            format!("{name:<9} {state:<8}  pid {pid:<7} version {version:<8} {}\n", lifecycle::address(place, server))
        }
        None => format!("{name:<9} stopped   version {version}\n"),
    }
}

pub fn env(place: &Place) -> Done {
    for server in place.private_servers() {
        if addresses::private_url(&place.ports, server.url_variable()).is_none() {
            let (name, dir) = (server.name(), place.dir.display());
            return die(format!("no private {name} has been started in {dir} yet: ./dev up"));
        }
    }
    answer(addresses::text(&environment::lines(place)));
    Ok(())
}

pub fn server(place: &mut Place, server: Server, action: Action) -> Done {
    if server.is_further_node() && !place.cluster {
        return die(format!("the broker in {} is no cluster: ./dev up --cluster", place.dir.display()));
    }
    if action == Action::Start {
        let missing = install::missing(place, &[server])?;
        install::install(place, &missing)?;
    }
    let _lock = place.lock()?;
    let must_run =
        || if processes::runs(place, server) { Ok(()) } else { die(format!("{} does not run", server.name())) };
    match action {
        Action::Start => lifecycle::start_all(place, &[server])?,
        Action::Stop => lifecycle::stop(place, server)?,
        Action::Crash => lifecycle::crash(place, server)?,
        Action::Pause => {
            must_run()?;
            signal_all(place, server, "STOP");
        }
        Action::Resume => {
            must_run()?;
            signal_all(place, server, "CONT");
        }
    }
    if server.is_node() { rabbitmq::release(place) } else { Ok(()) }
}

/// The watcher's life: it waits until the process that started it is gone, and then does what the words say. Servers that did not
/// run before `./dev test` do not run after it.
pub fn afterwards(place: &Place, words: &[OsString]) -> Done {
    afterwards::wait();
    if words.iter().any(|word| word == install::RELEASE_SERVICES) {
        return install::release_services();
    }
    let servers: Vec<Server> = words.iter().filter_map(|word| Server::parse(word.to_str()?)).collect();
    let _lock = place.lock()?;
    lifecycle::stop_all(place, &servers)
}

/// Becomes the `rabbitmqctl` of the node that FIS_DEV_NODE names, else of the first one that runs.
pub fn rabbitmqctl(place: &Place, args: &[OsString]) -> Done {
    let named = std::env::var("FIS_DEV_NODE").ok().filter(|name| !name.is_empty());
    let nodes = match &named {
        Some(name) => Server::parse(name).filter(|server| server.is_node()).into_iter().collect(),
        None => NODES.to_vec(),
    };
    let Some(node) = nodes.into_iter().find(|node| processes::runs(place, *node)) else {
        let node = named.map_or(String::new(), |name| format!(" node {name}"));
        return die(format!("the private RabbitMQ{node} does not run: ./dev up"));
    };
    let mut control = rabbitmq::control(place, node)?;
    control.args(args);
    call::become_program(control)
}

/// Installs another RabbitMQ than the distribution's own, beside it.
pub fn rabbitmq4(place: &mut Place, dir: &Path) -> Done {
    let dir = files::resolve(dir)?;
    place.other_root = Some(dir.clone());
    if !programs::is_installed(place, Server::Rabbitmq) {
        if !is_root() {
            return die("rabbitmq4 needs root");
        }
        let log = place.dir.join("install.log");
        if call::find("debootstrap").is_none() && install::apt_install(place, &["debootstrap"], &log).is_err() {
            return die(format!("installing debootstrap failed; all of it is in {}", log.display()));
        }
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", "--include=rabbitmq-server", "trixie"]).arg(&dir);
        if call::must(debootstrap.stdout(std::io::stderr())).is_err() {
            return die("debootstrap failed");
        }
    }
    let version = programs::version(place, Server::Rabbitmq);
    say(format!("RabbitMQ {version}: export FIS_DEV_RABBITMQ_ROOT={}, with a FIS_DEV_DIR of its own", dir.display()));
    Ok(())
}
