//! The ports of the private servers. The text of `STATE/ports` and of `/proc/net/tcp` enters, free ports leave. An address
//! survives `down` and `up`, unless somebody else has taken its port meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::files;
use crate::say::Done;
use crate::server::Server;

/// New ports lie below the range that the kernel takes for outgoing connections, which begins at 32768.
const FIRST: u16 = 20_000;
const LAST: u16 = 31_999;
/// Places at which a state directory may begin to look, and the distance between two: about as many as a set has ports.
const PLACES: u32 = 1_500;
const STRIDE: u32 = 8;

/// The remembered ports by name, and the name of the broker's first node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ports {
    numbers: BTreeMap<String, u16>,
    pub node: String,
}

impl Ports {
    pub fn load(dir: &Path) -> Self {
        fs::read_to_string(dir.join("ports")).map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    pub fn save(&self, dir: &Path) -> Done {
        files::replace(&dir.join("ports"), &self.text())
    }

    fn parse(text: &str) -> Self {
        let mut ports = Self::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            match value.parse() {
                _ if key == "node" => value.clone_into(&mut ports.node),
                Ok(number) => drop(ports.numbers.insert(key.to_owned(), number)),
                Err(_) => {}
            }
        }
        ports
    }

    fn text(&self) -> String {
        let numbers: String = self.numbers.iter().map(|(key, number)| format!("{key}={number}\n")).collect();
        format!("{numbers}node={}\n", self.node)
    }

    pub fn get(&self, name: &str) -> Option<u16> {
        self.numbers.get(name).copied()
    }

    /// The port of that name, or 0, which nobody listens on.
    pub fn number(&self, name: &str) -> u16 {
        self.get(name).unwrap_or(0)
    }

    pub fn main(&self, server: Server) -> u16 {
        self.number(&server.main_port())
    }

    /// Tells whether the broker was made a cluster. It stays one.
    pub fn is_cluster(&self) -> bool {
        self.get("amqp2").is_some()
    }

    /// fis-1234@localhost, fis-1234-2@localhost, …
    pub fn node_name(&self, server: Server) -> String {
        match server.number() {
            "" => self.node.clone(),
            number => self.node.replacen('@', &format!("-{number}@"), 1),
        }
    }

    /// Gives each of the named servers, which do not run, its ports: the remembered ones where they are free, else new ones, at a
    /// place that depends on the state directory. Two directories that start at the same moment then do not want the same ones.
    /// The ports that were lost to somebody else leave.
    pub fn assign(&mut self, servers: &[Server], taken: &BTreeSet<u16>, hash: u32) -> Vec<(Server, u16)> {
        if self.node.is_empty() {
            self.node = format!("fis-{hash:08x}@localhost");
        }
        let mut lost = Vec::new();
        let mut next = u16::try_from(u32::from(FIRST) + hash % PLACES * STRIDE).unwrap_or(FIRST);
        for server in servers {
            for name in server.ports() {
                if let Some(number) = self.get(&name) {
                    if !taken.contains(&number) {
                        continue;
                    }
                    lost.push((*server, number));
                    self.numbers.remove(&name);
                }
                // At most one round: the range is larger than what a machine listens on.
                for _ in FIRST..=LAST {
                    if !taken.contains(&next) && !self.numbers.values().any(|used| *used == next) {
                        break;
                    }
                    next = if next < LAST { next + 1 } else { FIRST };
                }
                self.numbers.insert(name, next);
            }
        }
        lost
    }
}

/// The two tables of the kernel in which sockets are listed, as one text.
pub fn socket_table() -> String {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// Every listening socket of a table: its port and its inode.
fn listening(table: &str) -> impl Iterator<Item = (u16, &str)> {
    table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let port = u16::from_str_radix(columns.get(1)?.rsplit(':').next()?, 16).ok()?;
        // 0A is TCP_LISTEN.
        (columns.get(3) == Some(&"0A")).then_some((port, *columns.get(9)?))
    })
}

pub fn listening_ports(table: &str) -> BTreeSet<u16> {
    listening(table).map(|(port, _)| port).collect()
}

/// The inodes of the sockets that listen on a port.
pub fn listeners(table: &str, port: u16) -> Vec<&str> {
    listening(table).filter(|(found, _)| *found == port).map(|(_, inode)| inode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000   103        0 28761 1 0000000000000000
   1: 0100007F:4E21 0100007F:D431 01 00000000:00000000 00:00000000 00000000   103        0 28762 1 0000000000000000
   2: 00000000000000000000000001000000:4E22 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 991 1 0
";

    #[test]
    fn only_listening_sockets_take_a_port() {
        assert_eq!(listening_ports(TABLE), BTreeSet::from([20_000, 20_002]));
        assert_eq!(listeners(TABLE, 20_000), ["28761"]);
        assert!(listeners(TABLE, 20_001).is_empty());
    }

    #[test]
    fn a_port_is_kept_until_somebody_else_has_it() {
        let mut ports = Ports::default();
        assert!(ports.assign(&[Server::Redis, Server::Postgres], &BTreeSet::new(), 0).is_empty());
        let (redis, postgres) = (ports.number("redis"), ports.number("postgres"));
        assert_eq!((redis, ports.number("redis_tls"), postgres), (20_000, 20_001, 20_002));
        assert!(ports.assign(&[Server::Redis], &BTreeSet::new(), 0).is_empty());
        assert_eq!(ports.number("redis"), redis);
        let lost = ports.assign(&[Server::Redis], &BTreeSet::from([redis]), 0);
        assert_eq!(lost, [(Server::Redis, redis)]);
        assert_eq!(ports.number("redis"), 20_003, "neither taken nor given to another server");
    }

    #[test]
    fn new_ports_stay_below_the_range_of_outgoing_connections() {
        let mut ports = Ports::default();
        let taken: BTreeSet<u16> = (31_900..=LAST).collect();
        ports.assign(&Server::of_a_set(true), &taken, PLACES - 1);
        assert!(ports.numbers.values().all(|port| (FIRST..31_900).contains(port)), "{ports:?}");
        let mut distinct: Vec<u16> = ports.numbers.values().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), ports.numbers.len());
    }

    #[test]
    fn what_is_remembered_is_what_was_saved() {
        let mut ports = Ports::default();
        ports.assign(&Server::of_a_set(true), &BTreeSet::new(), 0xabcd);
        assert_eq!(Ports::parse(&ports.text()), ports);
        assert!(ports.is_cluster());
        assert_eq!(ports.node_name(Server::Rabbitmq), "fis-0000abcd@localhost");
        assert_eq!(ports.node_name(Server::Rabbitmq3), "fis-0000abcd-3@localhost");
    }
}
