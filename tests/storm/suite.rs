//! The runs: one schedule after the other on one set of servers, the first violation ends it, and a summary closes it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::args::{Args, FIXED};
use crate::check::{Breach, story};
use crate::end;
use crate::faults::{FAULTS, Fault, impossible, named, wal};
use crate::script::script;
use crate::servers::{Servers, dev};
use crate::summary::{Totals, summary};
use crate::weather::{Recovery, forecast, pass};
use crate::world::{World, disk_of, unmount};

/// A mutant that is not caught by then is not caught.
const MUTANT_PATIENCE: Duration = Duration::from_secs(600);
/// These need the database's files as they are; a small disk for its tables is in their way.
const NOT_ON_A_SMALL_DISK: [&str; 3] = ["postgres_failover_sync", "postgres_failover_async", "postgres_restore"];

/// What one schedule is made of.
struct Plan<'a> {
    seed: u64,
    seconds: u64,
    rate: usize,
    only: Vec<&'static Fault>,
    /// Every step, however long it takes.
    all: bool,
    servers: &'a Servers,
}

impl Plan<'_> {
    /// The options of the same schedule, with the same events.
    fn again(&self, mutant: Option<&str>) -> String {
        if self.all {
            return format!("--fixed --seed {}", self.seed);
        }
        let mut words = format!("--seed {} --seconds {} --rate {}", self.seed, self.seconds, self.rate);
        let only: Vec<&str> = self.only.iter().map(|fault| fault.name).collect();
        if !only.is_empty() {
            words += &format!(" --only {}", only.join(","));
        }
        words + &mutant.map(|mutant| format!(" --mutant {mutant}")).unwrap_or_default()
    }
}

pub async fn run(args: Args) -> bool {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("storm-{}", std::process::id()));
    let servers = dir.join("servers");
    let _user = match stop_behind_us(&dir, &servers) {
        Ok(user) => user,
        Err(error) => {
            println!("cannot use {}: {error:#}", dir.display());
            return false;
        }
    };
    let worked = tokio::select! {
        worked = on_servers(&args, &dir, &servers) => worked,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    let kept = !matches!(worked, Ok(true));
    if let Err(error) = &worked {
        println!("the storm could not be carried out: {error:#}");
    }
    if kept {
        let _ = dev(&servers, &["down"]).await;
        println!(
            "data and logs are in {}; FIS_DEV_DIR={0}/servers ./dev up starts the servers as they were left",
            dir.display()
        );
    } else if let Err(error) = wipe(&dir).await {
        println!("cannot clear {}: {error:#}", dir.display());
    }
    !kept
}

async fn wipe(dir: &Path) -> Result<()> {
    let servers = dir.join("servers");
    dev(&servers, &["down", "--wipe"]).await?;
    unmount(&disk_of(&servers))?;
    unmount(&wal::disk_of(&servers))?;
    Ok(std::fs::remove_dir_all(dir)?)
}

async fn on_servers(args: &Args, dir: &Path, place: &Path) -> Result<bool> {
    println!("seed {}", args.fixed.first().unwrap_or(&args.seed));
    let servers = Servers::start(place).await.context("starting the servers")?;
    if args.mutants.is_empty() { clean(args, dir, &servers).await } else { mutants(args, dir, &servers).await }
}

/// Has the servers stopped when this process is gone, however it goes.
fn stop_behind_us(dir: &Path, servers: &Path) -> Result<File> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join("user");
    let user = File::create(&path)?;
    user.lock_shared()?;
    let mut watcher = Command::new("setsid");
    watcher.arg("flock").arg("-x").arg(&path).args([concat!(env!("CARGO_MANIFEST_DIR"), "/dev"), "down"]);
    watcher.env("FIS_DEV_DIR", servers).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    watcher.spawn()?;
    Ok(user)
}

async fn clean(args: &Args, dir: &Path, servers: &Servers) -> Result<bool> {
    let begun = Instant::now();
    let mut totals = Totals::default();
    let until = args.minutes.map(|minutes| Duration::from_secs(minutes * 60));
    let mut failed = 0;
    for number in 0.. {
        let more = match (args.fixed.len() as u64, until) {
            (0, Some(until)) => begun.elapsed() < until,
            (0, None) => number < args.schedules,
            (fixed, _) => number < fixed,
        };
        if !more {
            break;
        }
        let plan = match args.fixed.get(usize::try_from(number).unwrap()) {
            Some(seed) => {
                // Dealt out like cards, so that all of them together are every fault once.
                let index = FIXED.iter().position(|one| one == seed).unwrap();
                let only = FAULTS.iter().skip(index).step_by(FIXED.len()).collect();
                Plan { seed: *seed, seconds: 90, rate: 30, only, all: true, servers }
            }
            None => {
                let only = args.only.clone();
                Plan { seed: args.seed + number, seconds: args.seconds, rate: args.rate, only, all: false, servers }
            }
        };
        if schedule(&plan, dir, &mut totals).await?.is_some() {
            failed = 1;
            break;
        }
    }
    summary(&totals, begun.elapsed());
    println!("seeds {:?}", totals.seeds);
    println!("{} passed, {failed} failed", totals.schedules);
    Ok(failed == 0)
}

async fn mutants(args: &Args, dir: &Path, servers: &Servers) -> Result<bool> {
    let mut missed = Vec::new();
    for mutant in &args.mutants {
        let begun = Instant::now();
        let mut caught = None;
        for number in 0.. {
            if begun.elapsed() > MUTANT_PATIENCE || caught.is_some() {
                break;
            }
            println!("mutant {mutant}");
            let only = if args.only.is_empty() { only_place(mutant) } else { args.only.clone() };
            let seed = args.seed + number;
            let plan = Plan { seed, seconds: args.seconds, rate: args.rate, only, all: false, servers };
            caught = schedule_of(&plan, dir, &mut Totals::default(), Some(mutant)).await?;
        }
        match caught {
            Some(breach) => {
                println!("mutant {mutant}: caught after {} s by: {}", begun.elapsed().as_secs(), breach.what);
            }
            None => missed.push(mutant.as_str()),
        }
    }
    for mutant in &missed {
        println!("mutant {mutant}: NOT caught");
    }
    println!("{} passed, {} failed", args.mutants.len() - missed.len(), missed.len());
    Ok(missed.is_empty())
}

/// The one fault in which a mutant can be seen at all; none: in most of them.
fn only_place(mutant: &str) -> Vec<&'static Fault> {
    let name = if mutant == "return_ignored" { "rabbitmq_feed_unbound" } else { "" };
    named(name).into_iter().collect()
}

async fn schedule(plan: &Plan<'_>, dir: &Path, totals: &mut Totals) -> Result<Option<Breach>> {
    schedule_of(plan, dir, totals, None).await
}

/// One schedule from its beginning to its verdict; the first violation, with its story told.
async fn schedule_of(plan: &Plan<'_>, dir: &Path, totals: &mut Totals, mutant: Option<&str>) -> Result<Option<Breach>> {
    let seed = plan.seed;
    let mut without = impossible();
    let (steps, small) = forecast_on_disk(plan, &mut without);
    let count = usize::try_from(plan.seconds * 13 / 10).unwrap() * plan.rate;
    let script = script(seed, count);
    let own = dir.join(format!("schedule-{seed}"));
    let _ = std::fs::remove_dir_all(&own);
    let (messages, cases, hostile) = (script.messages.len(), script.cases.len(), script.hostile);
    let told = format!("{messages} messages, {cases} cases, {hostile} hostile");
    let mut world = World::make(plan.servers, own.clone(), seed, script, plan.rate, small, mutant).await?;
    println!("== seed {seed}: {told}, {} instances", world.instances.all().len());
    world.begin();
    println!("    0.0 s  at {}, by the clock of the logs", chrono::Utc::now().format("%H:%M:%S%.3f"));
    let admin = tokio::spawn(Arc::clone(&world.operator).run(seed));
    let forger = tokio::spawn(Arc::clone(&world.forger).run(seed));
    let passed = pass(&world, &steps, plan.seconds, plan.all).await;
    admin.abort();
    forger.abort();
    let (recoveries, faults) = passed?;
    let (breaches, snapshot) = end::verdict(&world).await?;
    totals.schedules += 1;
    totals.events += world.publisher.confirmed.load(Ordering::SeqCst);
    totals.entries += snapshot.entries.len();
    totals.faults += faults;
    totals.surprises += world.instances.surprises.load(Ordering::SeqCst);
    totals.seeds.push(seed);
    let slow = recoveries.iter().any(Recovery::is_slow);
    totals.recoveries.extend(recoveries);
    let Some(first) = breaches.first().cloned() else {
        println!(
            "== seed {seed}: clean, {} entries, {} dead letters, {} held, {faults} faults, {:.0} s",
            snapshot.entries.len(),
            snapshot.letters.len(),
            snapshot.held.len(),
            world.begun.elapsed().as_secs_f64()
        );
        drop(world);
        if slow {
            keep_logs(&own, seed)?;
        }
        let _ = std::fs::remove_dir_all(&own);
        return Ok(None);
    };
    totals.schedules -= 1;
    println!("== seed {seed}: {} VIOLATIONS; the first:", breaches.len());
    for breach in breaches.iter().take(if mutant.is_some() { 1 } else { 12 }) {
        println!("   invariant {}: {}", breach.invariant, breach.what);
    }
    if let Some((tenant, event)) = &first.event {
        println!("{}", story::tell(&world, tenant, event).await.unwrap_or_else(|error| error.to_string()));
    }
    println!("rerun with: ./dev faults {}", plan.again(mutant));
    Ok(Some(first))
}

/// What fis said while it was slow to come back outlives the run.
fn keep_logs(own: &Path, seed: u64) -> Result<()> {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("slow-{seed}"));
    std::fs::create_dir_all(&kept)?;
    for file in std::fs::read_dir(own)? {
        let file = file?;
        if file.path().extension().is_some_and(|extension| extension == "log") {
            std::fs::copy(file.path(), kept.join(file.file_name()))?;
        }
    }
    println!("the logs of the slow recovery are in {}", kept.display());
    Ok(())
}

/// The steps, and whether the tables go to a small disk. What cannot be together with one is left out then.
fn forecast_on_disk(plan: &Plan<'_>, without: &mut Vec<&'static str>) -> (Vec<crate::weather::Step>, bool) {
    let has = |names: &[&str]| plan.only.iter().any(|fault| names.contains(&fault.name));
    let mut small = !without.contains(&"postgres_disk_full")
        && if plan.only.is_empty() { plan.seed.is_multiple_of(3) } else { has(&["postgres_disk_full"]) };
    if small && has(&NOT_ON_A_SMALL_DISK) {
        small = false;
    }
    without.extend(if small { NOT_ON_A_SMALL_DISK.as_slice() } else { &["postgres_disk_full"] });
    let mut steps = forecast(plan.seed, &plan.only, without);
    if plan.all {
        // Once through the hand that was dealt.
        let mut hits = 0;
        let hand = plan.only.iter().filter(|fault| !without.contains(&fault.name)).count();
        let end = steps.iter().position(|step| {
            hits += step.hits.len();
            hits >= hand
        });
        steps.truncate(end.map_or(steps.len(), |end| end + 1));
    }
    (steps, small)
}
