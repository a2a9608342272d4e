//! Missing packages of Debian and Ubuntu. The servers that are to run enter; their programs are on the machine afterwards, and no
//! service of theirs has been started, now or for the next boot.

use std::fs::{self, File};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::afterwards::Afterwards;
use crate::call;
use crate::place::{Place, is_root};
use crate::programs;
use crate::say::{Done, OrDie, Stop, bold, die, last_lines, say};
use crate::server::Server;

const POLICY: &str = "/usr/sbin/policy-rc.d";
const POSTGRES_CONF: &str = "/etc/postgresql-common/createcluster.conf";
const POSTGRES_CONF_OF_PACKAGE: &str = "/usr/share/postgresql-common/createcluster.conf";
/// The watcher's word for [`release_services`].
pub const RELEASE_SERVICES: &str = "release-services";
const MARK: &str = "made by fis ./dev while it installs packages; safe to delete";
/// Lines of the log that are shown when an installation fails.
const LOG_LINES: usize = 30;

/// The servers whose programs are missing, after it is clear that they can be installed. Where sudo needs a password, it is
/// asked for here, before anything else writes to the terminal.
pub fn missing(place: &Place, servers: &[Server]) -> Done<Vec<Server>> {
    let missing: Vec<Server> =
        servers.iter().copied().filter(|server| !programs::is_installed(place, *server)).collect();
    if let (true, Some(root)) = (missing.iter().any(|server| server.is_node()), &place.other_root) {
        return die(format!("there is no RabbitMQ in {0}: ./dev rabbitmq4 {0}", root.display()));
    }
    if missing.is_empty() {
        return Ok(missing);
    }
    let packages = packages(&missing).join(" ");
    if call::find("apt-get").is_none() {
        return docker_way(&format!("Missing: {packages}. This is no Debian or Ubuntu, so ./dev cannot install them."));
    }
    if !can_be_root() {
        return docker_way(&format!("Missing: {packages}. Installing them needs root or sudo."));
    }
    Ok(missing)
}

pub fn install(place: &Place, missing: &[Server]) -> Done {
    if missing.is_empty() {
        return Ok(());
    }
    let packages = packages(missing);
    let what = bold(&format!("Installing from the distribution: {}", packages.join(" ")));
    say(format!("{what} (programs only, no system service; about a minute)"));
    let log = place.dir.join("install.log");
    if apt_install(place, &packages, &log).is_err() {
        let text = fs::read_to_string(&log).unwrap_or_default();
        say(last_lines(&text, LOG_LINES));
        return die(format!("installing failed; all of it is in {}", log.display()));
    }
    disable_units(missing);
    match missing.iter().find(|server| !programs::is_installed(place, **server)) {
        Some(server) => die(format!("{} is installed, but its programs are not where they belong", server.package())),
        None => Ok(()),
    }
}

/// The packages of servers, each once.
fn packages(servers: &[Server]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = servers.iter().map(|server| server.package()).collect();
    packages.dedup();
    packages
}

pub fn docker_way<T>(reason: &str) -> Done<T> {
    Err(Stop::Explained(format!(
        "{reason}
The servers can run in containers instead:

    docker compose up -d

and with FIS_AMQP_URL, FIS_REDIS_URL and FIS_DATABASE_URL set to their addresses (see docker-compose.yml),
every ./dev command uses those."
    )))
}

/// Tells whether we are root or may become it. With a terminal, sudo may ask for the password.
pub fn can_be_root() -> bool {
    if is_root() {
        return true;
    }
    if call::find("sudo").is_none() {
        return false;
    }
    call::succeeds(Command::new("sudo").args(["-n", "true"]))
        || (std::io::stdin().is_terminal()
            && Command::new("sudo").arg("-v").status().is_ok_and(|status| status.success()))
}

/// A command as root: directly, or through sudo.
fn as_root(program: &str) -> Command {
    if is_root() {
        return Command::new(program);
    }
    let mut sudo = Command::new("sudo");
    sudo.arg(program);
    sudo
}

/// Installs packages without a word at the terminal; everything they say is in the log.
pub fn apt_install(place: &Place, packages: &[&str], log: &Path) -> Done {
    place.make()?;
    let log = File::create(log).or_die(format!("cannot write {}", log.display()))?;
    let logged = |mut command: Command| -> Done {
        let (out, error) = (log.try_clone().or_die("log")?, log.try_clone().or_die("log")?);
        call::must(command.stdin(Stdio::null()).stdout(out).stderr(error))
    };
    let released = Afterwards::watch(place, &[RELEASE_SERVICES])?;
    hold_services()?;
    let mut update = as_root("apt-get");
    update.arg("update");
    if logged(update).is_err() {
        let _ = writeln!(&log, "apt-get update failed; trying with the package lists that are there");
    }
    // needrestart, where there is one, would restart other people's services.
    let mut install = as_root("env");
    install.args(["DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1", "apt-get"]);
    install.args(["-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends"]).args(packages);
    let installed = logged(install);
    released.now();
    installed
}

/// Installing a server package starts the server, and PostgreSQL's makes a database cluster. We want the programs only. Debian's
/// switch for that is a policy-rc.d that says no, for as long as the installation takes.
fn hold_services() -> Done {
    if !Path::new(POLICY).exists() || is_marked(POLICY) {
        write_as_root(POLICY, &format!("#!/bin/sh\n# {MARK}\nexit 101\n"))?;
        call::must(as_root("chmod").args(["755", POLICY]))?;
    }
    if let (false, Some(folder)) = (Path::new(POSTGRES_CONF).exists(), Path::new(POSTGRES_CONF).parent()) {
        call::must(as_root("mkdir").arg("-p").arg(folder))?;
        write_as_root(POSTGRES_CONF, &format!("# {MARK}\ncreate_main_cluster = false\n"))?;
    }
    Ok(())
}

/// Puts both files back to what they would be without us.
pub fn release_services() -> Done {
    if is_marked(POLICY) {
        call::must(as_root("rm").args(["-f", POLICY]))?;
    }
    if is_marked(POSTGRES_CONF) {
        if Path::new(POSTGRES_CONF_OF_PACKAGE).exists() {
            call::must(as_root("cp").args([POSTGRES_CONF_OF_PACKAGE, POSTGRES_CONF]))?;
            call::must(as_root("rm").arg("-f").arg(format!("{POSTGRES_CONF}.ucf-dist")))?;
        } else {
            call::must(as_root("rm").args(["-f", POSTGRES_CONF]))?;
        }
    }
    Ok(())
}

fn is_marked(path: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains(MARK))
}

fn write_as_root(path: &str, text: &str) -> Done {
    let mut tee = as_root("tee");
    let mut child = tee.arg(path).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().or_die(call::cannot_run(&tee))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes()).or_die(format!("cannot write {path}"))?;
    }
    call::judge(child.wait().or_die(format!("cannot write {path}"))?)
}

/// The packages also want to start at the next boot. Where systemd runs, those we just brought are switched off.
fn disable_units(servers: &[Server]) {
    if Path::new("/run/systemd/system").is_dir() {
        for unit in servers.iter().flat_map(|server| server.units()) {
            call::succeeds(as_root("systemctl").args(["disable", unit]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_of_a_cluster_are_one_package() {
        assert_eq!(packages(&Server::of_a_set(true)), ["postgresql", "redis-server", "rabbitmq-server"]);
    }
}
