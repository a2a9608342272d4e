//! The servers by name. A name from the command line enters; which ports, variable, package and processes belong to it leaves.

/// A private server. The broker may be a cluster of three nodes; all of them share one epmd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    Postgres,
    Redis,
    Rabbitmq,
    Rabbitmq2,
    Rabbitmq3,
    /// The name service of Erlang, with which the broker's nodes and `rabbitmqctl` find each other.
    Epmd,
}

use Server::{Epmd, Postgres, Rabbitmq, Rabbitmq2, Rabbitmq3, Redis};

pub const NODES: [Server; 3] = [Rabbitmq, Rabbitmq2, Rabbitmq3];

impl Server {
    /// The servers of a set, without epmd, which comes and goes with the broker.
    pub fn of_a_set(cluster: bool) -> Vec<Self> {
        if cluster { vec![Postgres, Redis, Rabbitmq, Rabbitmq2, Rabbitmq3] } else { vec![Postgres, Redis, Rabbitmq] }
    }

    pub fn name(self) -> &'static str {
        match self {
            Postgres => "postgres",
            Redis => "redis",
            Rabbitmq => "rabbitmq",
            Rabbitmq2 => "rabbitmq2",
            Rabbitmq3 => "rabbitmq3",
            Epmd => "epmd",
        }
    }

    /// The server that a caller names. epmd is nobody's to name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::of_a_set(true).into_iter().find(|server| server.name() == name)
    }

    pub fn is_node(self) -> bool {
        NODES.contains(&self)
    }

    /// A node that joins the first one.
    pub fn is_further_node(self) -> bool {
        matches!(self, Rabbitmq2 | Rabbitmq3)
    }

    /// The end of the node's name and of the names of its ports.
    pub fn number(self) -> &'static str {
        match self {
            Postgres | Redis | Rabbitmq | Epmd => "",
            Rabbitmq2 => "2",
            Rabbitmq3 => "3",
        }
    }

    /// The names of the server's ports. TLS is spoken by the first node alone.
    pub fn ports(self) -> Vec<String> {
        let names: &[&str] = match self {
            Postgres => &["postgres"],
            Redis => &["redis", "redis_tls"],
            Rabbitmq => &["amqp", "amqps", "management", "distribution", "management_tls"],
            Rabbitmq2 | Rabbitmq3 => &["amqp", "management", "distribution"],
            Epmd => &["epmd"],
        };
        names.iter().map(|name| format!("{name}{}", self.number())).collect()
    }

    /// The name of the port on which the server is expected to answer.
    pub fn main_port(self) -> String {
        if self.is_node() { format!("amqp{}", self.number()) } else { self.name().to_owned() }
    }

    /// The variable by which a caller names a server of his own. epmd is a part of the broker.
    pub fn url_variable(self) -> &'static str {
        match self {
            Postgres => "FIS_DATABASE_URL",
            Redis => "FIS_REDIS_URL",
            Rabbitmq | Rabbitmq2 | Rabbitmq3 | Epmd => "FIS_AMQP_URL",
        }
    }

    /// The package of Debian and Ubuntu.
    pub fn package(self) -> &'static str {
        match self {
            Postgres => "postgresql",
            Redis => "redis-server",
            Rabbitmq | Rabbitmq2 | Rabbitmq3 | Epmd => "rabbitmq-server",
        }
    }

    /// The units of systemd that the package brings and that would start at the next boot. PostgreSQL's starts nothing without a
    /// database cluster, and none is made.
    pub fn units(self) -> &'static [&'static str] {
        match self {
            Postgres | Epmd => &[],
            Redis => &["redis-server.service"],
            Rabbitmq | Rabbitmq2 | Rabbitmq3 => &["rabbitmq-server.service", "epmd.socket", "epmd.service"],
        }
    }

    /// Tells whether a process of that name may be one of the server's. It keeps a shell or an editor that somebody has open in a data
    /// directory from being taken for the server.
    pub fn goes_by(self, process: &str) -> bool {
        match self {
            Postgres => process == "postgres",
            Redis => process == "redis-server",
            Rabbitmq | Rabbitmq2 | Rabbitmq3 => {
                ["beam", "erl", "erts"].iter().any(|start| process.starts_with(start))
                    || ["inet_gethost", "epmd", "rabbitmq-server"].contains(&process)
            }
            Epmd => process == "epmd",
        }
    }
}

/// An act on one server, for fault tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Start,
    Stop,
    Crash,
    Pause,
    Resume,
}

impl Action {
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "start" => Some(Self::Start),
            "stop" => Some(Self::Stop),
            "crash" => Some(Self::Crash),
            "pause" => Some(Self::Pause),
            "resume" => Some(Self::Resume),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_found_by_its_name_and_epmd_is_not() {
        for server in Server::of_a_set(true) {
            assert_eq!(Server::parse(server.name()), Some(server));
        }
        assert_eq!(Server::parse("epmd"), None);
        assert_eq!(Server::parse("rabbitmq4"), None);
    }

    #[test]
    fn no_two_servers_share_a_port() {
        let mut ports: Vec<String> = Server::of_a_set(true).into_iter().chain([Epmd]).flat_map(Server::ports).collect();
        let all = ports.len();
        ports.sort();
        ports.dedup();
        assert_eq!(ports.len(), all);
        for server in Server::of_a_set(true) {
            assert!(server.ports().contains(&server.main_port()), "{server:?}");
        }
    }

    #[test]
    fn a_shell_in_a_data_directory_is_no_server() {
        for server in Server::of_a_set(true) {
            assert!(!server.goes_by("bash") && !server.goes_by("vi"), "{server:?}");
        }
        assert!(Rabbitmq2.goes_by("beam.smp") && Rabbitmq.goes_by("erl_child_setup") && Postgres.goes_by("postgres"));
    }
}
