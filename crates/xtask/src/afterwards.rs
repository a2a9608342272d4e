//! Work that has to be done when this process is gone, however it goes: at its end, by Ctrl-C, or killed. A watcher (this program
//! once more, in a process group of its own, which Ctrl-C does not reach) waits until the pipe from us closes, and then does it.
//! At the normal end we wait for the watcher, so that there is one way for all of them.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::call;
use crate::place::Place;
use crate::say::{Done, OrDie};

/// The word by which the watcher is called; no command for people.
pub const WORD: &str = "afterwards";

/// The pipe to a watcher. It is close-on-exec, so no child of ours keeps it open.
#[derive(Debug)]
pub struct Afterwards {
    watcher: Child,
}

impl Afterwards {
    /// Starts a watcher with words for what it has to do.
    pub fn watch(place: &Place, words: &[&str]) -> Done<Self> {
        // The link leads to our program also where a newer one has replaced it.
        let mut command = Command::new("/proc/self/exe");
        command.arg(&place.root).arg(WORD).args(words).env("FIS_DEV_DIR", &place.dir);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let watcher = command.spawn().or_die(call::cannot_run(&command))?;
        Ok(Self { watcher })
    }

    /// Has it done, and waits.
    pub fn now(self) {
        drop(self);
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

/// The watcher's wait: until the process that started it is gone, or lets it go.
pub fn wait() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
