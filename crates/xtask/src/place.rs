//! One set of private servers: its state directory (`FIS_DEV_DIR`, else `.dev`), its ports and what the caller said. The servers
//! are private: own data, own ports, loopback only, all of it below that directory; any number of such directories can be up at
//! the same time. Nothing in it changes without its lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::addresses::{FROM, Given};
use crate::call;
use crate::files;
use crate::ports::Ports;
use crate::say::{Done, OrDie, die};
use crate::server::Server;

/// Longer than one `./dev` holds the lock, also where it starts three nodes one after the other on a busy machine.
const LOCK_PATIENCE: Duration = Duration::from_secs(300);
const LOCK_LOOK: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct Place {
    /// The project's directory.
    pub root: PathBuf,
    /// The state directory, without links.
    pub dir: PathBuf,
    /// The directory where cargo builds.
    pub target: PathBuf,
    /// Another system in a directory, whose RabbitMQ runs instead of this system's (`FIS_DEV_RABBITMQ_ROOT`).
    pub other_root: Option<PathBuf>,
    pub ports: Ports,
    pub given: Given,
    /// The broker has three nodes.
    pub cluster: bool,
}

/// The right to change a state directory, until it is dropped. Children do not inherit it: Rust opens files close-on-exec.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Place {
    pub fn open(root: PathBuf) -> Done<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = files::resolve(&variable("FIS_DEV_DIR").unwrap_or_else(|| root.join(".dev")))?;
        let target = variable("CARGO_TARGET_DIR").unwrap_or_else(|| root.join("target"));
        let target = std::path::absolute(target).or_die("cannot resolve CARGO_TARGET_DIR")?;
        let ports = Ports::load(&dir);
        let mut given = Given::by_caller();
        given.forget_private(&ports);
        // A test under `./dev test` that brings up a second set of servers has the addresses of the first one around it.
        if let Some(from) = variable(FROM) {
            given.forget_private(&Ports::load(&from));
        }
        let other_root = variable("FIS_DEV_RABBITMQ_ROOT").map(|root| files::resolve(&root)).transpose()?;
        let cluster = ports.is_cluster();
        Ok(Self { root, dir, target, other_root, ports, given, cluster })
    }

    pub fn servers(&self) -> Vec<Server> {
        Server::of_a_set(self.cluster)
    }

    /// The servers that are ours to run: those whose address the caller did not give.
    pub fn private_servers(&self) -> Vec<Server> {
        self.servers().into_iter().filter(|server| !self.given.is_external(*server)).collect()
    }

    /// The data directory of a server. PostgreSQL's may be a link to elsewhere.
    pub fn data(&self, server: Server) -> PathBuf {
        self.dir.join(server.name())
    }

    /// `postgres.log`, `redis.pid`, … in the state directory.
    pub fn file(&self, server: Server, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", server.name()))
    }

    pub fn has_tls(&self) -> bool {
        self.dir.join("tls/server.pem").exists()
    }

    /// The number that stands for the state directory: the ports and the broker's node name hang on it.
    pub fn hash(&self) -> u32 {
        hash_of(&self.dir)
    }

    /// PostgreSQL's place where the state directory cannot hold it.
    pub fn postgres_elsewhere(&self) -> PathBuf {
        PathBuf::from(format!("/var/tmp/fis-dev-{:08x}/postgres", self.hash()))
    }

    /// The state directory with its lock file, which shows at once whether we may write there.
    pub fn make(&self) -> Done<File> {
        if std::fs::create_dir_all(&self.dir).is_err() {
            return die(format!("cannot create {}", self.dir.display()));
        }
        OpenOptions::new().create(true).append(true).open(self.dir.join("lock")).or_else(|_| {
            let user = call::output_of(std::process::Command::new("id").arg("-un")).unwrap_or_default();
            die(format!("{} is not writable by you ({user}); was it made by another user?", self.dir.display()))
        })
    }

    /// One `./dev` at a time may change a state directory. `down --wipe` deletes the lock file as well, so a lock that was waited
    /// for may be one on a file that is no longer there: then again.
    pub fn lock(&self) -> Done<Lock> {
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            let file = self.make()?;
            while let Err(error) = file.try_lock() {
                if let TryLockError::Error(error) = error {
                    return Err(error).or_die(format!("cannot lock {}", self.dir.display()));
                }
                if Instant::now() > deadline {
                    return die(format!("another ./dev has been busy with {} for 5 minutes", self.dir.display()));
                }
                std::thread::sleep(LOCK_LOOK);
            }
            if is_still(&file, &self.dir.join("lock")) {
                return Ok(Lock { _file: file });
            }
        }
    }
}

fn is_still(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |meta: &std::fs::Metadata| (meta.dev(), meta.ino());
    matches!((file.metadata(), path.metadata()), (Ok(one), Ok(other)) if identity(&one) == identity(&other))
}

/// FNV-1a: short, and the same with every compiler, which the standard library's hasher does not promise.
fn hash_of(path: &Path) -> u32 {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Tells whether we are root. The kernel gives `/proc/self` to the user whose rights the process has.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_directory_is_the_same_for_ever() {
        assert_eq!(hash_of(Path::new("")), 0x811c_9dc5);
        assert_eq!(hash_of(Path::new("a")), 0xe40c_292c);
        assert_eq!(hash_of(Path::new("foobar")), 0xbf9c_f968);
    }

    #[test]
    fn a_lock_on_a_deleted_file_is_no_lock() {
        let path = std::env::temp_dir().join(format!("xtask-lock-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        assert!(is_still(&file, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_still(&file, &path));
        let _other = File::create(&path).unwrap();
        assert!(!is_still(&file, &path));
        std::fs::remove_file(&path).unwrap();
    }
}
