//! Work that has to be done when this process is gone, however it goes: at its end, by Ctrl-C, or killed. A watcher (this program
//! once more, in a process group of its own, which Ctrl-C does not reach) waits until the pipe from us closes, and then does it.
//! At the normal end we wait for the watcher, so that there is one way for all of them.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::call;
use crate::install;
use crate::lifecycle;
use crate::place::Place;
use crate::say::{Done, OrDie, Stop};
use crate::server::Server;

/// The word by which the watcher is called; no command for people.
pub const WORD: &str = "afterwards";
const RELEASE_SERVICES: &str = "release-services";

/// The pipe to a watcher. It is close-on-exec, so no child of ours keeps it open.
#[derive(Debug)]
pub struct Afterwards {
    watcher: Option<Child>,
}

impl Afterwards {
    /// Servers that did not run before do not run afterwards.
    pub fn stop(place: &Place, servers: &[Server]) -> Done<Self> {
        if servers.is_empty() {
            return Ok(Self { watcher: None });
        }
        Self::watch(place, servers.iter().map(|server| server.name()))
    }

    /// The machine's services may be started again.
    pub fn release_services(place: &Place) -> Done<Self> {
        Self::watch(place, [RELEASE_SERVICES].into_iter())
    }

    fn watch(place: &Place, words: impl Iterator<Item = &'static str>) -> Done<Self> {
        // The link leads to our program also where a newer one has replaced it.
        let mut command = Command::new("/proc/self/exe");
        command.arg(&place.root).arg(WORD).args(words).env("FIS_DEV_DIR", &place.dir);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let watcher = command.spawn().or_die(call::cannot_run(&command))?;
        Ok(Self { watcher: Some(watcher) })
    }

    /// Has it done, and waits.
    pub fn now(self) {
        drop(self);
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        if let Some(watcher) = &mut self.watcher {
            drop(watcher.stdin.take());
            let _ = watcher.wait();
        }
    }
}

/// The watcher's own life.
pub fn wait_and_do(place: &Place, words: &[OsString]) -> Done {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    if words.iter().any(|word| word == RELEASE_SERVICES) {
        return install::release_services();
    }
    let servers: Option<Vec<Server>> = words.iter().map(|word| Server::parse(word.to_str()?)).collect();
    let servers = servers.ok_or_else(|| Stop::WrongUsage(format!("unknown command: {WORD}")))?;
    let _lock = place.lock()?;
    lifecycle::stop_all(place, &servers)
}
