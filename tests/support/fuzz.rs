//! Fuzzing, briefly on every run and for long with `./dev fuzz`: a target's name and its corpus enter; inputs leave one after the other, made anew or from
//! those that did something new, until the target's share of the time is over. What must never happen: an input that panics or hangs ends
//! without being written down.
//!
//! There is no instrumentation. An input is new by the *shape* of its outcome, which each target tells: which reasons, at which places, how much work. New ones
//! are mutated further, and with `FUZZ_KEEP=1` they are made small and written into the corpus, which every later run replays first.
//!
//! | variable | means |
//! |---|---|
//! | `FUZZ_MINUTES` | minutes for all targets together; one where nobody says |
//! | `FUZZ_SEED` | the seed of the generators; a random one where nobody says. It is printed |
//! | `FUZZ_KEEP` | `1`: new inputs are written into the corpus |
//! | `FUZZ_REPORT` | a file that gets a line from each target, for `./dev fuzz` |

use std::collections::HashSet;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use sha2::{Digest as _, Sha256};

/// The shares of all targets together.
const SHARES: u64 = 12;
/// Inputs that are kept of one target: enough for its shapes, few enough to be replayed on every run.
const KEPT_MAX: usize = 80;
const KEPT_BYTES_MAX: usize = 8 * 1024;
/// Inputs that later ones are made from.
const POOL_MAX: usize = 2_000;
const POOL_BYTES_MAX: usize = 64 * 1024;
/// The attempts to make an input smaller.
const SHRINK_MAX: usize = 300;

#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// Its part of the time, of [`SHARES`].
    pub share: u64,
    /// Folders of the project whose files it begins with. New inputs go into the first.
    pub folders: &'static [&'static str],
    /// The processor time that no input may take, far above what the slowest takes in an unoptimised build: a bound for hangs, not for speed.
    pub cpu_max: Duration,
}

/// A run of one target.
pub struct Fuzz {
    target: Target,
    pub random: Rng,
    seed: u64,
    /// The corpus, and behind it what was new in this run.
    pub pool: Vec<Vec<u8>>,
    shapes: HashSet<String>,
    inputs: u64,
    new: u64,
    /// The processor time that it all took.
    pub cpu: Duration,
    slowest: Duration,
    end: Instant,
}

impl Fuzz {
    #[must_use]
    pub fn begin(target: Target) -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = number("FUZZ_SEED").unwrap_or_else(|| fastrand::u64(..));
        let seconds = number("FUZZ_MINUTES").unwrap_or(1) * 60 * target.share / SHARES;
        Self {
            target,
            random: Rng::with_seed(seed),
            seed,
            pool: corpus(target.folders),
            shapes: HashSet::new(),
            inputs: 0,
            new: 0,
            cpu: Duration::ZERO,
            slowest: Duration::ZERO,
            end: Instant::now() + Duration::from_secs(seconds),
        }
    }

    #[must_use]
    pub fn has_time(&self) -> bool {
        Instant::now() < self.end
    }

    /// Counts an input; true where its shape was never seen.
    pub fn count(&mut self, input: &[u8], shape: String, cpu: Duration) -> bool {
        self.inputs += 1;
        self.slowest = self.slowest.max(cpu);
        let is_new = self.shapes.insert(shape);
        if is_new {
            self.new += 1;
            if self.pool.len() < POOL_MAX && input.len() <= POOL_BYTES_MAX {
                self.pool.push(input.to_vec());
            }
        }
        is_new
    }

    /// Writes a new input into the corpus, where that is asked for.
    pub fn keep(&self, input: &[u8]) {
        let folder = project_file(self.target.folders[0]);
        let there = std::fs::read_dir(&folder).unwrap().count();
        if is_keeping() && input.len() <= KEPT_BYTES_MAX && there < KEPT_MAX {
            std::fs::write(folder.join(name_of(input)), input).unwrap();
        }
    }

    /// Tells what was done.
    pub fn report(&self, findings: usize) {
        let Self { target, seed, inputs, new, cpu, slowest, .. } = self;
        println!(
            "fuzz {}: {inputs} inputs, {new} shapes, FUZZ_SEED={seed}, {:.1} s of processor time, slowest {} ms, {findings} findings",
            target.name,
            cpu.as_secs_f32(),
            slowest.as_millis()
        );
        report_line(target.name, [*inputs, *new, *seed, millis(*cpu), millis(*slowest), findings as u64]);
    }

    /// Writes down what breaks a promise, tells it, and ends the test.
    pub fn found<'i>(&self, inputs: impl IntoIterator<Item = &'i [u8]>, what: &str) -> ! {
        let files: Vec<PathBuf> = inputs.into_iter().map(|input| write_finding(self.target.name, input)).collect();
        self.report(1);
        let some = &files[..files.len().min(3)];
        panic!("fuzz {}: {what}; {} inputs are written down: {some:?} …", self.target.name, files.len());
    }
}

/// Runs a target that is a function: the corpus first, then what `make` makes, until its time is over. `run` returns the shape of the outcome.
pub fn fuzz(
    target: Target,
    make: impl Fn(&mut Rng, &[Vec<u8>]) -> Vec<u8>,
    run: impl Fn(&[u8]) -> String + Send + Sync,
) {
    let mut fuzz = Fuzz::begin(target);
    let watch = Watch::new(target);
    let replayed = fuzz.pool.clone();
    let mut replayed = replayed.into_iter();
    let first = cpu_time(&watch.thread);
    loop {
        let input = match replayed.next() {
            Some(input) => input,
            None if fuzz.has_time() => make(&mut fuzz.random, &fuzz.pool),
            None => break,
        };
        let begun = watch.begin(&input);
        let ended = catch_unwind(AssertUnwindSafe(|| run(&input)));
        let cpu = watch.end().saturating_sub(begun);
        match ended {
            Err(_) => fuzz.found([&input[..]], "panicked"),
            Ok(_) if cpu > target.cpu_max => fuzz.found([&input[..]], &format!("took {cpu:?} of processor time")),
            Ok(shape) => {
                let is_replayed = replayed.len() > 0;
                let is_new = fuzz.count(&input, shape.clone(), cpu);
                if is_new && !is_replayed && is_keeping() && input.len() <= POOL_BYTES_MAX {
                    fuzz.keep(&shrink(input, |smaller| run(smaller) == shape));
                }
            }
        }
    }
    fuzz.cpu = cpu_time(&watch.thread).saturating_sub(first);
    fuzz.report(0);
}

/// The processor time at which an input began, and the input.
type Now = (Duration, Vec<u8>);

/// Ends the process when an input takes longer than it may: a loop without end would never come back to be judged.
struct Watch {
    /// The thread that is watched.
    thread: PathBuf,
    now: Arc<Mutex<Option<Now>>>,
    _until_dropped: Sender<()>,
}

impl Watch {
    fn new(target: Target) -> Self {
        let thread = Path::new("/proc").join(std::fs::read_link("/proc/thread-self").unwrap()).join("schedstat");
        let (until_dropped, dropped) = channel();
        let now: Arc<Mutex<Option<Now>>> = Arc::default();
        let (watched, shared) = (thread.clone(), Arc::clone(&now));
        std::thread::spawn(move || {
            while dropped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let now = shared.lock().unwrap();
                let Some((begun, input)) = &*now else { continue };
                if cpu_time(&watched).saturating_sub(*begun) > 2 * target.cpu_max {
                    let file = write_finding(target.name, input);
                    eprintln!("fuzz {}: hangs; the input is {}", target.name, file.display());
                    report_line(target.name, [0, 0, 0, 0, 0, 1]);
                    std::process::abort();
                }
            }
        });
        Self { thread, now, _until_dropped: until_dropped }
    }

    fn begin(&self, input: &[u8]) -> Duration {
        let begun = cpu_time(&self.thread);
        *self.now.lock().unwrap() = Some((begun, input.to_vec()));
        begun
    }

    fn end(&self) -> Duration {
        *self.now.lock().unwrap() = None;
        cpu_time(&self.thread)
    }
}

/// The time that a thread has been on a processor, as the kernel counts it.
fn cpu_time(thread: &Path) -> Duration {
    let text = std::fs::read_to_string(thread).unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0))
}

fn is_keeping() -> bool {
    std::env::var("FUZZ_KEEP").is_ok_and(|keep| keep == "1")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}

fn report_line(name: &str, numbers: [u64; 6]) {
    if let Some(file) = std::env::var_os("FUZZ_REPORT") {
        let numbers = numbers.map(|number| number.to_string()).join(" ");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
        writeln!(file, "{name} {numbers}").unwrap();
    }
}

fn project_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn name_of(input: &[u8]) -> String {
    hex::encode(&Sha256::digest(input)[..8])
}

fn write_finding(target: &str, input: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("findings");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{target}-{}", name_of(input)));
    std::fs::write(&file, input).unwrap();
    file
}

/// The files of these folders of the project, in the order of their names.
fn corpus(folders: &[&str]) -> Vec<Vec<u8>> {
    let files = |folder: &&str| std::fs::read_dir(project_file(folder)).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = folders.iter().flat_map(files).collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// The input without whatever can be left out of it.
fn shrink(mut input: Vec<u8>, is_same: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut attempts, mut piece) = (0, input.len().div_ceil(2));
    while piece > 0 && attempts < SHRINK_MAX {
        let mut at = 0;
        while at < input.len() && attempts < SHRINK_MAX {
            let mut smaller = input.clone();
            smaller.drain(at..(at + piece).min(input.len()));
            attempts += 1;
            if is_same(&smaller) { input = smaller } else { at += piece }
        }
        piece /= 2;
    }
    input
}

/// A text without its numbers, and without what it quotes: what two outcomes of one kind have in common.
#[must_use]
pub fn outline(text: &str) -> String {
    let mut outline = String::new();
    for (place, part) in text.split('`').enumerate() {
        if place % 2 == 1 {
            outline.push_str("``");
            continue;
        }
        for c in part.chars().filter(|c| c.is_ascii_alphanumeric() || " ,:".contains(*c)) {
            if !c.is_ascii_digit() {
                outline.push(c);
            } else if !outline.ends_with('0') {
                outline.push('0');
            }
        }
    }
    outline.chars().take(100).collect()
}

/// About how much, for shapes.
#[must_use]
pub fn about(count: u64) -> u32 {
    (u64::BITS - count.leading_zeros()).div_ceil(2)
}

/// Turns, leaves out, repeats and puts in some bytes of one of the pool, with pieces that inputs of this kind are made of.
pub fn mutate(random: &mut Rng, pool: &[Vec<u8>], pieces: &[&[u8]], bytes_max: usize) -> Vec<u8> {
    let mut input = pool[random.usize(..pool.len())].clone();
    for _ in 0..random.usize(1..8) {
        let at = random.usize(..=input.len());
        match random.u8(..6) {
            0 if !pieces.is_empty() => {
                drop(input.splice(at..at, pieces[random.usize(..pieces.len())].iter().copied()));
            }
            1 if !input.is_empty() => {
                let last = input.len() - 1;
                input[at.min(last)] = random.u8(..);
            }
            2 => input.truncate(at),
            3 => {
                let end = random.usize(at..=input.len().min(at + 1 + input.len() / 4));
                input.drain(at..end);
            }
            4 => {
                let end = random.usize(at..=input.len().min(at + 40));
                let piece = input[at..end].repeat(random.usize(1..6));
                input.splice(at..at, piece);
            }
            _ => {
                let other = &pool[random.usize(..pool.len())];
                let from = random.usize(..=other.len());
                let to = random.usize(from..=other.len());
                input.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    input.truncate(bytes_max);
    input
}
