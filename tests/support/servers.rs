//! Where the servers are: named by the environment, or private ones that `./dev` starts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The addresses of one set of servers.
#[derive(Debug, Clone)]
pub struct Servers {
    pub amqp: String,
    pub redis: String,
    pub database: String,
    pub management: String,
    /// Where `./dev` keeps them, for a set that a test may crash.
    pub dev_dir: Option<PathBuf>,
}

const NAMES: [&str; 4] = ["FIS_AMQP_URL", "FIS_REDIS_URL", "FIS_DATABASE_URL", "FIS__AMQP__MANAGEMENT_URL"];

impl Servers {
    /// The servers that all tests of this process share.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Servers> = OnceLock::new();
        SHARED.get_or_init(|| {
            let named = NAMES.map(|name| std::env::var(name).ok());
            if let [Some(amqp), Some(redis), Some(database), Some(management)] = named {
                return Self { amqp, redis, database, management, dev_dir: None };
            }
            dev(None, &["up"]);
            Self::from_dev(None)
        })
    }

    /// A set of its own below `dir`, started where it is not running.
    pub fn private(dir: &Path) -> Self {
        dev(Some(dir), &["up"]);
        Self { dev_dir: Some(dir.to_owned()), ..Self::from_dev(Some(dir)) }
    }

    /// The same, with a broker of three nodes.
    pub fn cluster(dir: &Path) -> Self {
        dev(Some(dir), &["up", "--cluster"]);
        Self { dev_dir: Some(dir.to_owned()), ..Self::from_dev(Some(dir)) }
    }

    fn from_dev(dir: Option<&Path>) -> Self {
        let text = dev(dir, &["env"]);
        let value = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            found.unwrap_or_else(|| panic!("`./dev env` does not name {name}:\n{text}")).to_owned()
        };
        let [amqp, redis, database, management] = NAMES.map(value);
        Self { amqp, redis, database, management, dev_dir: None }
    }

    /// `./dev …` on this set.
    pub fn dev(&self, args: &[&str]) {
        dev(Some(self.dev_dir.as_deref().expect("only a private set may be harmed")), args);
    }
}

pub const DEV: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dev");

/// Makes a command act on the set of servers that lives in a directory, and on no other.
pub fn only_on(dir: &Path, command: &mut Command) {
    command.env("FIS_DEV_DIR", dir);
    for name in NAMES {
        command.env_remove(name);
    }
}

fn dev(dir: Option<&Path>, args: &[&str]) -> String {
    let mut command = Command::new(DEV);
    command.args(args);
    if let Some(dir) = dir {
        only_on(dir, &mut command);
    }
    let output = command.output().unwrap_or_else(|error| panic!("cannot run ./dev: {error}"));
    assert!(output.status.success(), "./dev {args:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The same address, or each of several, with another path: another virtual host, database or Redis database.
pub fn with_path(urls: &str, path: &str) -> String {
    urls.split(',').map(|url| one_with_path(url, path)).collect::<Vec<_>>().join(",")
}

fn one_with_path(url: &str, path: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, ""), |(address, query)| (address, query));
    let host_at = address.find("://").map_or(0, |at| at + 3);
    let end = address[host_at..].find('/').map_or(address.len(), |at| host_at + at);
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{}/{path}{mark}{query}", &address[..end])
}

/// The roles of ops/roles.sql that fis runs and migrates as.
pub const SERVICE: &str = "fis_service";
pub const OWNER: &str = "fis_owner";

/// An address of PostgreSQL with another role, and the same password where it has one.
pub fn as_role(url: &str, role: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (user, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    let password = user.split_once(':').map_or(String::new(), |(_, password)| format!(":{password}"));
    format!("{scheme}://{role}{password}@{place}")
}

pub fn password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    Some(rest.rsplit_once('@')?.0.split_once(':')?.1)
}
