//! The private Redis. It keeps nothing on the disk: fis must live without what it knew.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::files;
use crate::place::Place;
use crate::ports::Ports;
use crate::processes;
use crate::say::Done;
use crate::server::Server;

/// A server on the loopback that is well answers at once.
const ANSWER: Duration = Duration::from_secs(2);

const TLS: &str = "\
tls-cert-file ../tls/server.pem
tls-key-file ../tls/server.key
tls-ca-cert-file ../tls/ca.pem
tls-auth-clients no
";

pub fn launch(place: &Place) -> Done {
    let data = place.data(Server::Redis);
    files::make_folder(&data)?;
    files::write(&data.join("redis.conf"), &configuration(&place.ports, place.has_tls()))?;
    let mut redis = Command::new("redis-server");
    redis.arg("./redis.conf");
    processes::spawn(place, Server::Redis, &redis)
}

/// Each test has a database of its own, hence so many.
fn configuration(ports: &Ports, tls: bool) -> String {
    let tls = if tls { format!("tls-port {}\n{TLS}", ports.number("redis_tls")) } else { String::new() };
    format!(
        "\
bind 127.0.0.1
port {}
databases 16384
save \"\"
appendonly no
maxmemory 1gb
maxmemory-policy volatile-ttl
{tls}",
        ports.number("redis")
    )
}

pub fn answers(place: &Place) -> bool {
    let ask = || -> std::io::Result<[u8; 5]> {
        let mut stream = connect(place.ports.number("redis"))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| &answer == b"+PONG")
}

/// A connection to a port of the loopback, with a limit for every wait.
pub fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_speaks_tls_only_with_certificates() {
        let mut ports = Ports::default();
        ports.assign(&[Server::Redis], &std::collections::BTreeSet::new(), 0);
        let plain = configuration(&ports, false);
        assert!(plain.starts_with("bind 127.0.0.1\nport 20000\n") && plain.ends_with("volatile-ttl\n"), "{plain}");
        assert!(configuration(&ports, true).contains("\ntls-port 20001\ntls-cert-file "));
    }
}
