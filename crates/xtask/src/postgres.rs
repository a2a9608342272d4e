//! The private PostgreSQL: its data, its start, its first database. It never runs as root, and never has a Unix socket.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::call;
use crate::files;
use crate::place::{Place, is_root};
use crate::processes;
use crate::programs;
use crate::say::{Done, OrDie, Stop, die};
use crate::server::Server;

/// PostgreSQL refuses to run as root; then its package's user does it.
fn as_postgres(program: impl AsRef<std::ffi::OsStr>) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
    command
}

fn bin(place: &Place) -> Done<PathBuf> {
    programs::needed(programs::postgres(place), Server::Postgres)
}

/// The place of the data: the state directory, unless that lies where the user postgres may not go (a clone in /root). Then it is
/// in /var/tmp, and a link in the state directory remembers that.
fn data_place(place: &Place) -> PathBuf {
    if call::succeeds(as_postgres("test").arg("-x").arg(&place.dir)) {
        place.data(Server::Postgres)
    } else {
        place.postgres_elsewhere()
    }
}

/// Made under another name and renamed, so that an interrupted initdb never looks like a database.
fn create(place: &Place, bin: &Path) -> Done {
    let data = place.data(Server::Postgres);
    if data.join("PG_VERSION").exists() {
        return Ok(());
    }
    let target = data_place(place);
    let Some(folder) = target.parent() else { return die("PostgreSQL's data has no folder") };
    files::remove(&data)?;
    if target != data {
        files::remove(folder)?;
        make_folder(folder, 0o755)?;
    }
    let new = target.with_extension("new");
    files::remove(&new)?;
    make_folder(&new, 0o700)?;
    give_to_postgres(&[&new])?;
    let log = processes::open_log(place, Server::Postgres)?;
    let mut initdb = as_postgres(bin.join("initdb"));
    initdb.arg(format!("--pgdata={}", new.display()));
    initdb.args(["--username=fis", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]);
    initdb.current_dir(folder).stdin(Stdio::null());
    initdb.stdout(log.try_clone().or_die("cannot write the log")?).stderr(log);
    call::must(&mut initdb)?;
    files::rename(&new, &target)?;
    if target != data {
        std::os::unix::fs::symlink(&target, &data).or_die(format!("cannot link {}", data.display()))?;
    }
    Ok(())
}

fn make_folder(path: &Path, mode: u32) -> Done {
    DirBuilder::new().mode(mode).create(path).or_die(format!("cannot create {}", path.display()))
}

fn give_to_postgres(paths: &[&Path]) -> Done {
    if is_root() { call::must(Command::new("chown").arg("postgres:").args(paths)) } else { Ok(()) }
}

pub fn launch(place: &Place) -> Done {
    let bin = bin(place)?;
    create(place, &bin)?;
    let data = place.data(Server::Postgres).canonicalize().or_die("cannot find PostgreSQL's data")?;
    // PostgreSQL would believe a stale lock file whose number is that of a process nobody has collected yet. Whoever starts us
    // has made sure that nothing of ours is alive.
    files::remove(&data.join("postmaster.pid"))?;
    let mut postgres = as_postgres(bin.join("postgres"));
    postgres.arg("-D").arg(&data);
    let port = format!("port={}", place.ports.number("postgres"));
    // No Unix socket: its path would be too long for some clones, and everybody here uses TCP.
    let settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"];
    let sizes = ["shared_buffers=256MB", "max_wal_size=4GB"];
    for setting in [port.as_str()].into_iter().chain(settings).chain(sizes) {
        postgres.args(["-c", setting]);
    }
    if place.has_tls() {
        copy_certificate(place, &data)?;
        postgres.args(["-c", "ssl=on", "-c", "ssl_cert_file=server.pem", "-c", "ssl_key_file=server.key"]);
    }
    processes::spawn(place, Server::Postgres, &postgres)
}

/// PostgreSQL wants a key that nobody else can read, so it gets a copy of its own.
fn copy_certificate(place: &Place, data: &Path) -> Done {
    let (certificate, key) = (data.join("server.pem"), data.join("server.key"));
    fs::copy(place.dir.join("tls/server.pem"), &certificate).or_die("cannot copy the certificate")?;
    fs::copy(place.dir.join("tls/server.key"), &key).or_die("cannot copy the certificate's key")?;
    fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).or_die("cannot protect the certificate's key")?;
    give_to_postgres(&[&certificate, &key])
}

pub fn answers(place: &Place) -> bool {
    let port = format!("--port={}", place.ports.number("postgres"));
    programs::postgres(place).is_some_and(|bin| {
        call::succeeds(Command::new(bin.join("pg_isready")).args(["--quiet", "--host=127.0.0.1", "--timeout=2", &port]))
    })
}

/// The database that fis and the tests begin with, and the roles in it.
pub fn finish(place: &Place) -> Done {
    if sql(place, "select 1 from pg_database where datname = 'fis'")? != "1" {
        sql(place, "create database fis")?;
    }
    let mut roles = psql(place, "fis")?;
    roles
        .args(["--quiet", "--set=ON_ERROR_STOP=1"])
        .arg(format!("--file={}", place.root.join("ops/roles.sql").display()));
    call::output_of(&mut roles).map(drop).ok_or(Stop::Told(1))
}

fn sql(place: &Place, statement: &str) -> Done<String> {
    let mut psql = psql(place, "postgres")?;
    psql.arg(format!("--command={statement}"));
    call::output_of(&mut psql).ok_or(Stop::Told(1))
}

fn psql(place: &Place, database: &str) -> Done<Command> {
    let mut psql = Command::new(bin(place)?.join("psql"));
    // The caller's PG* variables are about another server.
    for name in ["PGSERVICE", "PGOPTIONS", "PGSSLMODE", "PGHOSTADDR", "PGREQUIRESSL"] {
        psql.env_remove(name);
    }
    psql.args(["--no-psqlrc", "--host=127.0.0.1", "--username=fis", "--no-align", "--tuples-only"]);
    psql.arg(format!("--port={}", place.ports.number("postgres"))).arg(format!("--dbname={database}"));
    Ok(psql)
}
