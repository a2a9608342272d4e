//! The addresses of the servers. What the caller gave and the ports enter; KEY=VALUE lines leave. Nothing here reads a file.

use std::collections::BTreeMap;
use std::path::Path;

use crate::ports::Ports;
use crate::server::Server;

pub const MANAGEMENT: &str = "FIS__AMQP__MANAGEMENT_URL";
/// The state directory of the `./dev` that started a program, so that a `./dev` below it can tell which addresses are private.
pub const FROM: &str = "FIS_DEV_FROM";
pub const NAMES: [&str; 4] = ["FIS_AMQP_URL", "FIS_REDIS_URL", "FIS_DATABASE_URL", MANAGEMENT];

/// The addresses that the caller gave by the environment.
#[derive(Debug, Clone, Default)]
pub struct Given(BTreeMap<&'static str, String>);

impl Given {
    pub fn by_caller() -> Self {
        let value = |name: &'static str| Some((name, std::env::var(name).ok().filter(|value| !value.is_empty())?));
        Self(NAMES.into_iter().filter_map(value).collect())
    }

    /// Forgets addresses that are those of private servers: our own, for they are ours to start, and those of the `./dev` that
    /// started us.
    pub fn forget_private(&mut self, ports: &Ports) {
        self.0.retain(|name, value| private_url(ports, name).as_ref() != Some(value));
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn is_external(&self, server: Server) -> bool {
        self.get(server.url_variable()).is_some()
    }
}

/// A private server's address by the name of its variable; nothing before its first start.
pub fn private_url(ports: &Ports, variable: &str) -> Option<String> {
    match variable {
        "FIS_DATABASE_URL" => ports.get("postgres").map(|port| format!("postgres://fis@127.0.0.1:{port}/fis")),
        "FIS_REDIS_URL" => ports.get("redis").map(|port| format!("redis://127.0.0.1:{port}/1")),
        "FIS_AMQP_URL" => node_urls(ports, "amqp", "amqp://fis_service:secret@127.0.0.1:", "/%2Ffis?heartbeat=10"),
        MANAGEMENT => node_urls(ports, "management", "http://127.0.0.1:", ""),
        _ => None,
    }
}

/// The private PostgreSQL's address for a running fis: as the role that cannot alter the journal. The other one is the superuser's, for
/// `fis migrate` and for tests, which make databases.
pub fn service_database(ports: &Ports) -> Option<String> {
    ports.get("postgres").map(|port| format!("postgres://fis_service@127.0.0.1:{port}/fis"))
}

/// The addresses of all nodes, with commas in between.
fn node_urls(ports: &Ports, name: &str, before: &str, after: &str) -> Option<String> {
    let numbers = ["", "2", "3"].into_iter().filter_map(|number| ports.get(&format!("{name}{number}")));
    let urls: Vec<String> = numbers.map(|port| format!("{before}{port}{after}")).collect();
    (!urls.is_empty()).then(|| urls.join(","))
}

/// Everything there is to say about the servers' addresses.
pub fn lines(ports: &Ports, given: &Given, dir: &Path, tls: bool) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for name in NAMES {
        // The management page of a broker that is the caller's own is not ours to guess.
        let ours = name != MANAGEMENT || !given.is_external(Server::Rabbitmq);
        let value = given.get(name).map(str::to_owned).or_else(|| private_url(ports, name).filter(|_| ours));
        lines.extend(value.map(|value| (name, value)));
    }
    lines.push(("FIS_DEV_DIR", dir.display().to_string()));
    if tls {
        // For the tests that speak TLS to the private servers.
        let port = |name: &str| ports.get(name).map_or(String::new(), |port| port.to_string());
        let ca = dir.join("tls/ca.pem");
        let (amqps, management, redis) = (port("amqps"), port("management_tls"), port("redis_tls"));
        let text = format!("amqps={amqps},management={management},redis={redis},ca={}", ca.display());
        lines.push(("FIS_DEV_TLS", text));
    }
    lines
}

pub fn text(lines: &[(&'static str, String)]) -> String {
    lines.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn ports(cluster: bool) -> Ports {
        let mut ports = Ports::default();
        ports.assign(&Server::of_a_set(cluster), &BTreeSet::new(), 0);
        ports
    }

    #[test]
    fn the_lines_name_every_private_server() {
        let lines = super::lines(&ports(false), &Given::default(), Path::new("/state"), true);
        let expected = "\
FIS_AMQP_URL=amqp://fis_service:secret@127.0.0.1:20003/%2Ffis?heartbeat=10
FIS_REDIS_URL=redis://127.0.0.1:20001/1
FIS_DATABASE_URL=postgres://fis@127.0.0.1:20000/fis
FIS__AMQP__MANAGEMENT_URL=http://127.0.0.1:20005
FIS_DEV_DIR=/state
FIS_DEV_TLS=amqps=20004,management=20007,redis=20002,ca=/state/tls/ca.pem
";
        assert_eq!(text(&lines), expected);
    }

    #[test]
    fn the_lines_name_every_node_of_a_cluster() {
        let lines = super::lines(&ports(true), &Given::default(), Path::new("/state"), false);
        assert_eq!(lines[0].1.split(',').count(), 3, "{lines:?}");
        assert_eq!(lines[3].1, "http://127.0.0.1:20005,http://127.0.0.1:20009,http://127.0.0.1:20012");
    }

    #[test]
    fn an_address_of_the_callers_own_replaces_the_private_one() {
        let given = Given(BTreeMap::from([("FIS_AMQP_URL", "amqp://elsewhere".to_owned())]));
        let lines = super::lines(&ports(false), &given, Path::new("/state"), false);
        assert_eq!(lines[0], ("FIS_AMQP_URL", "amqp://elsewhere".to_owned()));
        assert!(lines.iter().all(|(name, _)| *name != MANAGEMENT), "{lines:?}");
        assert!(given.is_external(Server::Rabbitmq2) && !given.is_external(Server::Redis));
    }

    #[test]
    fn an_address_of_a_private_server_is_not_the_callers_own() {
        let ports = ports(true);
        let private = |name: &'static str| (name, private_url(&ports, name).unwrap());
        let mut given = Given(BTreeMap::from(NAMES.map(private)));
        given.0.insert("FIS_REDIS_URL", "redis://elsewhere".to_owned());
        given.forget_private(&ports);
        assert_eq!(given.0.into_keys().collect::<Vec<_>>(), ["FIS_REDIS_URL"]);
    }
}
