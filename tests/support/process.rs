//! The built `fis`: commands that end, and services that run until they are told to stop, killed, or dropped.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use super::wait::{SOON, wait_within};
use super::world::World;

pub const FIS: &str = env!("CARGO_BIN_EXE_fis");
/// What the contract grants a service for stopping, and a moment for the process itself to end.
pub const STOP: Duration = Duration::from_secs(11);

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    pub fn all(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }

    /// Asserts the exit code and that both streams together contain every word.
    #[track_caller]
    pub fn expect(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.all().contains(word), "`{word}` is not in {self:?}");
        }
        self
    }
}

/// A `fis` process in the background.
pub struct Run {
    child: Child,
    pub addr: String,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl World {
    /// Runs `fis` to its end in this world.
    pub async fn fis(&self, args: &[&str]) -> Said {
        self.fis_with(args, &[]).await
    }

    /// Runs `fis` in this world's directory with no variable of fis: what it knows, it has from a file.
    pub async fn bare_fis(&self, args: &[&str]) -> Said {
        let mut command = self.command(args, &[]);
        for (name, _) in self.environment() {
            command.env_remove(name);
        }
        ended(command, args).await
    }

    pub async fn fis_with(&self, args: &[&str], environment: &[(&str, &str)]) -> Said {
        ended(self.command(args, environment), args).await
    }

    fn command(&self, args: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(FIS);
        command.args(args).current_dir(&self.dir).stdin(Stdio::null());
        // Only this world's settings: a variable of the tester's must not leak into it.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FIS_")) {
            command.env_remove(name);
        }
        command.env("FIS_HTTP_ADDR", format!("127.0.0.1:{}", free_port()));
        command.envs(self.environment()).envs(environment.iter().copied());
        command
    }

    /// Starts `fis run` and waits until it is ready.
    pub async fn run(&self) -> Run {
        self.run_with(&[]).await
    }

    pub async fn run_with(&self, environment: &[(&str, &str)]) -> Run {
        let mut run = self.spawn(environment);
        run.ready().await;
        run
    }

    /// Starts `fis run` and waits for nothing.
    pub fn spawn(&self, environment: &[(&str, &str)]) -> Run {
        self.start(&["run"], environment)
    }

    /// Starts any command and waits for nothing.
    pub fn start(&self, args: &[&str], environment: &[(&str, &str)]) -> Run {
        let addr = format!("127.0.0.1:{}", free_port());
        let log = self.dir.join(format!("run-{}.log", addr.rsplit(':').next().unwrap()));
        let file = File::create(&log).unwrap();
        let mut command = self.command(args, &[("FIS_HTTP_ADDR", &addr)]);
        command.envs(environment.iter().copied());
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Run { child: command.spawn().unwrap(), addr, log, ended: None }
    }
}

/// A command's end.
async fn ended(command: Command, args: &[&str]) -> Said {
    let mut command = tokio::process::Command::from(command);
    // A command that does not end is killed with its future, or the runtime would wait for it for ever.
    let ended = command.kill_on_drop(true).output();
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
    let output = ended.unwrap_or_else(|_| panic!("fis {args:?} does not end")).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// A port nobody listens on, below the range from which the kernel serves outgoing connections.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    if NEXT.load(Ordering::Relaxed) == 0 {
        NEXT.store(10_000 + fastrand::u16(..8_000), Ordering::Relaxed);
    }
    loop {
        let port = 10_000 + NEXT.fetch_add(1, Ordering::Relaxed) % 10_000;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Run {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Status and body of a GET; 0 where nobody answers.
    pub async fn get(&self, path: &str) -> (u16, String) {
        fis::platform::http::get(&self.addr, path).await.unwrap_or_else(|error| (0, error))
    }

    pub async fn ready(&mut self) {
        let deadline = Instant::now() + SOON;
        loop {
            let answer = self.get("/readyz").await;
            if answer.0 == 200 {
                return;
            }
            assert!(self.is_running(), "fis run ended before it was ready: {:?}", self.ended);
            assert!(Instant::now() < deadline, "fis run is not ready: {answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap();
        }
        self.ended.is_none()
    }

    /// Waits for the process to end by itself.
    pub async fn exited(&mut self, within: Duration) -> ExitStatus {
        wait_within("the end of fis run", within, async || {
            self.is_running();
            self.ended.ok_or_else(|| "it still runs".to_owned())
        })
        .await
    }

    pub fn signal(&self, name: &str) {
        // The process is ours and not yet collected, so its number cannot belong to anybody else.
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status().unwrap();
        assert!(sent.success(), "cannot send {name}");
    }

    /// SIGTERM; asserts that the process ends in time with exit code 0.
    pub async fn terminate(&mut self) {
        self.signal("TERM");
        let status = self.exited(STOP).await;
        assert_eq!(status.code(), Some(0), "after SIGTERM: {status:?}");
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.ended = self.child.wait().ok();
    }

    /// True where the process died at a crash point.
    pub fn aborted(&self) -> bool {
        const SIGABRT: i32 = 6;
        self.ended.is_some_and(|status| status.signal() == Some(SIGABRT))
    }

    /// The most memory that was ever resident, in MiB, as the kernel counts it.
    pub fn memory_peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")).unwrap();
        peak.parse::<u64>().unwrap() / 1024
    }

    /// User and system time spent so far, in clock ticks, and resident memory in pages, as the kernel counts them.
    pub fn usage(&self) -> (u64, u64) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // Behind the last parenthesis: the command's name may contain anything.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let field = |number: usize| fields[number - 3].parse::<u64>().unwrap();
        (field(14) + field(15), field(24))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(60)..];
            eprintln!("--- fis run on {} ({:?}) said, last {} lines:", self.addr, self.ended, tail.len());
            for line in tail {
                eprintln!("{line}");
            }
        }
    }
}
