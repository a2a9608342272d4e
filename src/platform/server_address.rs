//! A server as people know it: the settings enter; its name, its address without user and password, and where the address came from leave.
//! What must never happen: a password reaches an error, a log line or a screen.

use std::fmt;

use super::config::Secret;

/// A server, its address as people are told, and the place of the setting that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    pub name: &'static str,
    /// `host:port`, several of them for a cluster.
    pub place: String,
    /// `address from FIS_DATABASE_URL`.
    pub origin: String,
}

impl ServerAddress {
    /// `variable` is the environment's name of the setting, for whoever has set none.
    pub(super) fn new(name: &'static str, place: String, url: &Secret, variable: &str) -> Self {
        let origin = match url.origin() {
            Some(origin) => format!("address from {origin}"),
            None => format!("address from the default; {variable} is not set"),
        };
        Self { name, place, origin }
    }

    /// One sentence about this server: `PostgreSQL at 127.0.0.1:5432 refuses connections (address from fis.toml)`.
    #[must_use]
    pub fn sentence(&self, why: &str) -> String {
        format!("{self} {why} ({})", self.origin)
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.place)
    }
}

/// What an error of a socket means, as the predicate of a sentence about its server.
#[must_use]
pub fn io_text(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => "refuses connections".to_owned(),
        ErrorKind::TimedOut => "does not answer".to_owned(),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof
        | ErrorKind::NotConnected => "closed the connection".to_owned(),
        _ => format!("cannot be reached: {error}"),
    }
}
