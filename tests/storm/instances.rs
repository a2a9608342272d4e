//! The instances of `fis run` under test, and the one who starts them again when they end, as a supervisor in production does.

use std::fs::OpenOptions;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

pub const FIS: &str = env!("CARGO_BIN_EXE_fis");
/// What the contract grants for stopping, and time for a busy machine.
const STOP: Duration = Duration::from_secs(30);
/// As a supervisor's RestartSec.
const RESTART: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Place {
    child: Option<Child>,
    wanted: bool,
    /// More settings, for as long as the fault lasts that wants them.
    extra: Vec<(&'static str, String)>,
    ended_at: Option<Instant>,
}

pub struct Instances {
    dir: PathBuf,
    environment: Vec<(String, String)>,
    places: Vec<Mutex<Place>>,
    /// How often one ended without being told to.
    pub surprises: AtomicUsize,
}

impl Instances {
    pub fn new(dir: PathBuf, count: usize, environment: Vec<(String, String)>) -> Arc<Self> {
        let places = (0..count).map(|_| Mutex::default()).collect();
        Arc::new(Self { dir, environment, places, surprises: AtomicUsize::new(0) })
    }

    /// The numbers of all of them.
    pub fn all(&self) -> Range<usize> {
        0..self.places.len()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(FIS);
        command.args(args).current_dir(&self.dir).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FIS_")) {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command of fis to its end.
    pub async fn fis(&self, args: &[&str]) -> Result<String> {
        self.fis_with(args, &[]).await
    }

    pub async fn fis_with(&self, args: &[&str], extra: &[(&str, &str)]) -> Result<String> {
        let mut command = tokio::process::Command::from(self.command(args));
        command.envs(extra.iter().copied());
        command.env("FIS_HTTP_ADDR", "127.0.0.1:0").kill_on_drop(true);
        let output =
            tokio::time::timeout(Duration::from_secs(60), command.output()).await.context("fis does not end")??;
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "fis {args:?}: {said}");
        Ok(said)
    }

    pub fn start(&self, number: usize) {
        self.start_with(number, Vec::new());
    }

    pub fn start_with(&self, number: usize, extra: Vec<(&'static str, String)>) {
        let mut place = self.places[number].lock().unwrap();
        place.wanted = true;
        place.extra = extra;
        if place.child.is_none() {
            place.child = self.spawn(number, &place.extra).ok();
        }
    }

    fn spawn(&self, number: usize, extra: &[(&str, String)]) -> Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(self.log(number))?;
        let mut command = self.command(&["run"]);
        command.env("FIS_HTTP_ADDR", "127.0.0.1:0").stdout(log.try_clone()?).stderr(log);
        command.envs(extra.iter().map(|(name, value)| (name, value)));
        Ok(command.spawn()?)
    }

    pub fn log(&self, number: usize) -> PathBuf {
        self.dir.join(format!("fis-{number}.log"))
    }

    pub fn kill(&self, number: usize) {
        let mut place = self.places[number].lock().unwrap();
        place.wanted = false;
        if let Some(mut child) = place.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a signal; false where the process is gone.
    pub fn signal(&self, number: usize, name: &str) -> bool {
        let place = self.places[number].lock().unwrap();
        let Some(child) = &place.child else { return false };
        // The process is ours and not yet collected, so its number cannot belong to anybody else.
        Command::new("kill").args(["-s", name, &child.id().to_string()]).status().is_ok_and(|status| status.success())
    }

    /// SIGTERM, and waits for the end.
    pub async fn terminate(&self, number: usize) -> Result<Option<ExitStatus>> {
        self.places[number].lock().unwrap().wanted = false;
        self.signal(number, "TERM");
        let Some(mut child) = self.places[number].lock().unwrap().child.take() else { return Ok(None) };
        let deadline = Instant::now() + STOP;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                anyhow::bail!("fis {number} did not stop within {STOP:?} of SIGTERM");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts again whatever ended by itself, until it is dropped.
    pub async fn supervise(self: Arc<Self>) {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            for number in self.all() {
                let mut place = self.places[number].lock().unwrap();
                let ended = place.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
                if let Some(status) = ended {
                    place.child = None;
                    place.ended_at = Some(Instant::now());
                    if place.extra.is_empty() && place.wanted {
                        self.surprises.fetch_add(1, Ordering::SeqCst);
                        eprintln!("           fis {number} ended by itself: {status}");
                    }
                }
                let due = place.ended_at.is_none_or(|at| at.elapsed() > RESTART);
                if place.wanted && place.child.is_none() && due {
                    place.child = self.spawn(number, &place.extra).ok();
                }
            }
        }
    }
}

impl Drop for Instances {
    fn drop(&mut self) {
        for number in self.all() {
            self.kill(number);
        }
    }
}
