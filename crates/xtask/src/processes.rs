//! The processes of the servers, as `/proc` shows them. A server enters, the numbers of its processes leave.
//!
//! A process is ours if it works in our data directory (`/proc/PID/cwd`) and has a server's name. A pid file alone proves nothing:
//! after a reboot the number belongs to somebody else. Nothing else is ever signalled.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::call;
use crate::files;
use crate::place::Place;
use crate::ports;
use crate::say::{Done, OrDie, die};
use crate::server::Server;

/// A killed process is gone within moments, unless its disk hangs.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);
/// Enough open files for any test. More is no use, and Erlang walks through all of them.
const FILES_MAX: u64 = 65_536;
/// A larger log is put aside when its server starts.
const LOG_BYTES_MAX: u64 = 20_000_000;

fn numbers() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn proc_file(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

fn goes_by_a_name_of(pid: u32, server: Server) -> bool {
    fs::read_to_string(proc_file(pid, "comm")).is_ok_and(|name| server.goes_by(name.trim_end()))
}

/// R, S, D, T (stopped), Z (dead, not yet collected); nothing for a process that is gone.
pub fn state_of(pid: u32) -> Option<char> {
    state_in(&fs::read_to_string(proc_file(pid, "stat")).ok()?)
}

/// The state stands behind the name, which stands in brackets and may hold brackets and spaces itself.
fn state_in(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

pub fn is_alive(pid: u32) -> bool {
    state_of(pid).is_some_and(|state| state != 'Z')
}

pub fn is_paused(pid: u32) -> bool {
    state_of(pid) == Some('T')
}

/// All processes of a server, children included.
pub fn pids_of(place: &Place, server: Server) -> Vec<u32> {
    let data = place.data(server);
    let ours = |pid: &u32| goes_by_a_name_of(*pid, server) && files::same(&proc_file(*pid, "cwd"), &data);
    numbers().filter(ours).filter(|pid| is_alive(*pid)).collect()
}

/// Processes that outlived their deleted data directory (`rm -rf .dev` while they ran).
pub fn orphans_of(place: &Place, server: Server) -> Vec<u32> {
    let deleted = |path: &Path| PathBuf::from(format!("{} (deleted)", path.display()));
    let mut gone = vec![deleted(&place.data(server))];
    // Deleting the link to PostgreSQL's other place leaves that place behind.
    if server == Server::Postgres && !place.data(server).exists() {
        gone.push(deleted(&place.postgres_elsewhere()));
        gone.push(place.postgres_elsewhere());
    }
    let ours = |pid: &u32| {
        goes_by_a_name_of(*pid, server) && fs::read_link(proc_file(*pid, "cwd")).is_ok_and(|cwd| gone.contains(&cwd))
    };
    numbers().filter(ours).collect()
}

/// The number in the server's pid file, whoever has it now.
pub fn noted_pid(place: &Place, server: Server) -> Option<u32> {
    fs::read_to_string(place.file(server, "pid")).ok()?.trim_end().parse().ok()
}

/// The main process, if it runs.
pub fn main_pid(place: &Place, server: Server) -> Option<u32> {
    let pid = noted_pid(place, server)?;
    (files::same(&proc_file(pid, "cwd"), &place.data(server)) && is_alive(pid)).then_some(pid)
}

pub fn runs(place: &Place, server: Server) -> bool {
    main_pid(place, server).is_some()
}

/// Tells whether that process is the one that listens on that port. An answer on the port alone may be somebody else's.
pub fn listens_on(pid: u32, port: u16) -> bool {
    let table = ports::socket_table();
    let sockets: Vec<PathBuf> =
        ports::listeners(&table, port).iter().map(|inode| PathBuf::from(format!("socket:[{inode}]"))).collect();
    if sockets.is_empty() {
        return false;
    }
    let open = fs::read_dir(proc_file(pid, "fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| sockets.contains(&target))
}

/// Sends a signal to processes; one that is gone already is no error. The standard library sends no signals, and every shell does.
pub fn signal(signal: &str, pids: &[u32]) {
    if !pids.is_empty() {
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"kill -s "$@""#, "kill", signal]).args(pids.iter().map(u32::to_string));
        call::succeeds(&mut shell);
    }
}

pub fn signal_all(place: &Place, server: Server, name: &str) {
    signal(name, &pids_of(place, server));
}

/// Waits until something is so; says whether it came to be within that time.
pub fn wait_until(limit: Duration, so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

pub fn wait_gone(place: &Place, server: Server, limit: Duration) -> bool {
    wait_until(limit, || pids_of(place, server).is_empty())
}

/// Kills whatever is left of a server.
pub fn kill_rest(place: &Place, server: Server) -> Done {
    signal("KILL", &orphans_of(place, server));
    signal_all(place, server, "KILL");
    if !wait_gone(place, server, KILL_PATIENCE) {
        let left = pids_of(place, server);
        return die(format!("{}: a process does not even react to SIGKILL: {left:?}", server.name()));
    }
    files::remove(&place.file(server, "pid"))
}

/// The end of a server's log, for `start` to come back to.
pub fn log_size(place: &Place, server: Server) -> u64 {
    files::size(&place.file(server, "log"))
}

pub fn rotate_log(place: &Place, server: Server) -> Done {
    if log_size(place, server) <= LOG_BYTES_MAX {
        return Ok(());
    }
    files::rename(&place.file(server, "log"), &place.file(server, "log.old"))
}

pub fn open_log(place: &Place, server: Server) -> Done<File> {
    let path = place.file(server, "log");
    OpenOptions::new().create(true).append(true).open(&path).or_die(format!("cannot write {}", path.display()))
}

/// Starts the main process of a server in its data directory, detached from this terminal, with its output in NAME.log and its
/// number in NAME.pid. A shell in between raises the limit of open files and ends at once, so that the server is nobody's child:
/// the system collects it when it dies, also while we live. In the background of a shell a process leads no group, so `setsid`
/// does not fork, and the number that the shell tells is the server's.
pub fn spawn(place: &Place, server: Server, program: &Command) -> Done {
    const SCRIPT: &str = r#"ulimit -Sn "$0" || true; setsid "$@" 1>&2 & echo $!"#;
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(SCRIPT)
        .arg(open_files(&limits).to_string())
        .arg(program.get_program())
        .args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(place.data(server)).stdin(Stdio::null()).stderr(open_log(place, server)?);
    let output = shell.output().or_die(call::cannot_run(&shell))?;
    files::write(&place.file(server, "pid"), &String::from_utf8_lossy(&output.stdout))
}

/// The hard limit of open files, or what is enough.
fn open_files(limits: &str) -> u64 {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let hard = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|number| number.parse().ok());
    hard.map_or(FILES_MAX, |hard: u64| hard.min(FILES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_behind_a_name_with_brackets() {
        assert_eq!(state_in("12 (redis-server) S 1 12"), Some('S'));
        assert_eq!(state_in("12 (a) Z b) T 1 12"), Some('T'));
        assert_eq!(state_in(""), None);
        assert!(is_alive(std::process::id()));
    }

    #[test]
    fn a_limit_of_open_files_is_never_above_the_hard_one() {
        let limits =
            |hard: &str| format!("Max processes 1 2 processes\nMax open files            1024   {hard}   files\n");
        assert_eq!(open_files(&limits("4096")), 4_096);
        assert_eq!(open_files(&limits("1048576")), FILES_MAX);
        assert_eq!(open_files(&limits("unlimited")), FILES_MAX);
        assert_eq!(open_files(""), FILES_MAX);
    }

    #[test]
    fn only_the_process_that_holds_the_socket_listens_on_a_port() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(listens_on(std::process::id(), port));
        assert!(!listens_on(0, port));
        drop(socket);
        assert!(!listens_on(std::process::id(), port));
    }
}
