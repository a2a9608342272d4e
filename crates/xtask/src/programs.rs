//! The programs of the servers: where they are, and which version. Nothing enters but the machine; nothing is started but
//! `--version`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::call;
use crate::place::Place;
use crate::say::{Done, Stop};
use crate::server::Server;

/// The folder of PostgreSQL's programs: of the version that the data was made with, else of the newest.
pub fn postgres(place: &Place) -> Option<PathBuf> {
    let of = |version: &str| Path::new("/usr/lib/postgresql").join(version).join("bin");
    if let Ok(version) = fs::read_to_string(place.dir.join("postgres/PG_VERSION")) {
        let folder = of(version.trim_end());
        if call::is_program(&folder.join("postgres")) {
            return Some(folder);
        }
    }
    let versions = names_in(Path::new("/usr/lib/postgresql"));
    let newest =
        versions.iter().filter(|version| call::is_program(&of(version).join("postgres"))).max_by_key(|v| order(v));
    match newest {
        Some(version) => Some(of(version)),
        None => Some(call::find("postgres")?.canonicalize().ok()?.parent()?.to_owned()),
    }
}

/// The folder of RabbitMQ's own scripts. The ones in /usr/sbin switch to the user rabbitmq and to the system's data. With another
/// root they are those of the system in that directory, and the path is one within it.
pub fn rabbitmq(place: &Place) -> Option<PathBuf> {
    let libraries = Path::new("/usr/lib/rabbitmq/lib");
    let mut folders = vec![PathBuf::from("/usr/lib/rabbitmq/bin")];
    folders.extend(names_in(&outside(place, libraries)).iter().map(|name| libraries.join(name).join("sbin")));
    folders.push(PathBuf::from("/opt/rabbitmq/sbin"));
    folders.into_iter().find(|folder| call::is_program(&outside(place, folder).join("rabbitmq-server")))
}

/// A path of the system in which RabbitMQ runs, as it is seen from here.
pub fn outside(place: &Place, path: &Path) -> PathBuf {
    match &place.other_root {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
        None => path.to_owned(),
    }
}

/// A folder of programs that [`is_installed`] has shown to be there.
pub fn needed(folder: Option<PathBuf>, server: Server) -> Done<PathBuf> {
    folder.ok_or_else(|| Stop::Died(format!("{} is not installed: ./dev up", server.name())))
}

pub fn is_installed(place: &Place, server: Server) -> bool {
    match server {
        Server::Postgres => postgres(place).is_some(),
        Server::Redis => call::find("redis-server").is_some(),
        Server::Rabbitmq | Server::Rabbitmq2 | Server::Rabbitmq3 | Server::Epmd => rabbitmq(place).is_some(),
    }
}

pub fn version(place: &Place, server: Server) -> String {
    let version = match server {
        Server::Postgres => postgres(place).and_then(|folder| told_by(&folder.join("postgres"), ") ")),
        Server::Redis => call::find("redis-server").and_then(|program| told_by(&program, "v=")),
        Server::Rabbitmq | Server::Rabbitmq2 | Server::Rabbitmq3 | Server::Epmd => rabbitmq_version(place),
    };
    version.unwrap_or_else(|| "not installed".to_owned())
}

fn told_by(program: &Path, mark: &str) -> Option<String> {
    number_behind(&call::output_of(Command::new(program).arg("--version"))?, mark)
}

/// RabbitMQ tells its version only while it runs, so the name of its folder is asked.
fn rabbitmq_version(place: &Place) -> Option<String> {
    let folder = outside(place, &rabbitmq(place)?);
    let above = folder.join("..");
    let mut paths: Vec<PathBuf> =
        names_in(&above.join("lib")).iter().map(|name| above.join("lib").join(name)).collect();
    paths.push(above);
    let real = paths.iter().filter_map(|path| path.canonicalize().ok());
    let versions = real.filter_map(|path| number_behind(&path.to_string_lossy(), "rabbitmq_server-"));
    versions.max_by_key(|version| order(version))
}

/// The first number with points that stands directly behind a mark.
fn number_behind(text: &str, mark: &str) -> Option<String> {
    let number = |(at, _): (usize, &str)| {
        let rest = text.get(at + mark.len()..)?;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        Some(rest.get(..end)?.to_owned()).filter(|number| !number.is_empty())
    };
    text.match_indices(mark).find_map(number)
}

/// 9 comes before 15, and 3.9 before 3.10.
fn order(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_what_the_program_tells() {
        let postgres = "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)";
        assert_eq!(number_behind(postgres, ") ").as_deref(), Some("15.14"));
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64";
        assert_eq!(number_behind(redis, "v=").as_deref(), Some("7.0.15"));
        let folder = "/usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/sbin";
        assert_eq!(number_behind(folder, "rabbitmq_server-").as_deref(), Some("3.10.8"));
        assert_eq!(number_behind("nothing", "v="), None);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(order("9") < order("15"));
        assert!(order("3.9.1") < order("3.10"));
    }
}
