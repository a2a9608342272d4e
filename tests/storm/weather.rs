//! A schedule: which faults, in which order, for how long, alone or two at a time, from a seed; and how it is carried out.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;

use crate::faults::{self, FAULTS, Fault, Wound};
use crate::world::World;

/// How long posting may take to resume before the schedule goes on without waiting.
const RECOVERY_MAX: Duration = Duration::from_secs(40);
/// A fault that cannot be done or undone by then is the suite's own trouble.
const ACT_MAX: Duration = Duration::from_secs(240);
/// More steps than the longest schedule has time for.
const STEPS: usize = 200;

#[derive(Debug, Clone, Copy)]
pub struct Hit {
    pub fault: &'static Fault,
    pub lasts: Duration,
    /// Whatever else the fault has to choose.
    choice: u64,
}

#[derive(Debug, Clone)]
pub struct Step {
    /// Quiet before it.
    gap: Duration,
    pub hits: Vec<Hit>,
}

/// How long posting took to resume after a step's faults were healed; none where it was not seen.
#[derive(Debug, Clone)]
pub struct Recovery {
    pub faults: Vec<&'static Fault>,
    pub took: Option<Duration>,
}

impl Recovery {
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.faults.iter().map(|fault| fault.name).collect();
        names.join(" + ")
    }

    /// It took longer than each of its faults grants.
    pub fn is_slow(&self) -> bool {
        let bound = self.faults.iter().map(|fault| fault.part.bound()).max().unwrap_or_default();
        self.took.is_some_and(|took| took > bound)
    }
}

/// The steps of a seed. Without a choice of faults they are drawn from all of them.
pub fn forecast(seed: u64, only: &[&'static Fault], without: &[&str]) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed ^ 0x57_0422);
    let mut drawn: Vec<&'static Fault> = Vec::new();
    let mut steps = Vec::new();
    while steps.len() < STEPS {
        if drawn.is_empty() {
            drawn = if only.is_empty() { FAULTS.iter().collect() } else { only.to_vec() };
            drawn.retain(|fault| !without.contains(&fault.name));
            if only.is_empty() {
                rng.shuffle(&mut drawn);
            }
            drawn.reverse();
        }
        let Some(first) = drawn.pop() else { break };
        let mut faults = vec![first];
        // Two at a time, of different parts.
        let partner = drawn.last().copied().filter(|next| next.part != first.part && !next.solo && !first.solo);
        if let Some(next) = partner
            && rng.u8(..3) == 0
        {
            drawn.pop();
            faults.push(next);
        }
        let hits = faults.into_iter().map(|fault| Hit { fault, lasts: fault.lasts(&mut rng), choice: rng.u64(..) });
        let hits = hits.collect();
        steps.push(Step { gap: Duration::from_millis(rng.u64(300..2500)), hits });
    }
    steps
}

/// Carries out as many steps as there is time for; returns the recoveries and how many faults there were.
pub async fn pass(world: &World, steps: &[Step], seconds: u64, all: bool) -> Result<(Vec<Recovery>, usize)> {
    let mut recoveries = Vec::new();
    let mut count = 0;
    let mut second_books = false;
    for step in steps {
        let elapsed = world.begun.elapsed();
        if !all && elapsed >= Duration::from_secs(seconds) {
            break;
        }
        // The rate and the period that some wait for come while the storm is on.
        if !second_books && elapsed >= Duration::from_secs(seconds * 6 / 10) {
            second_books = world.apply_books(2).await.is_ok();
            note(world, if second_books { "books of version 2 applied" } else { "books of version 2 not applied" })
                .await;
        }
        tokio::time::sleep(step.gap).await;
        count += step.hits.len();
        let took = hit(world, step).await?;
        recoveries.push(Recovery { faults: step.hits.iter().map(|hit| hit.fault).collect(), took });
    }
    Ok((recoveries, count))
}

async fn hit(world: &World, step: &Step) -> Result<Option<Duration>> {
    let mut wounds: Vec<(Hit, Wound)> = Vec::new();
    for hit in &step.hits {
        let applying = tokio::time::timeout(ACT_MAX, faults::apply(world, hit.fault, hit.choice)).await;
        let wound = applying.map_err(Into::into).flatten().context(hit.fault.name)?;
        note(world, &format!("+ {} for {:.1} s", hit.fault.name, hit.lasts.as_secs_f64())).await;
        wounds.push((*hit, wound));
        if wounds.len() < step.hits.len() {
            tokio::time::sleep(hit.lasts / 2).await;
        }
    }
    for (hit, wound) in wounds {
        tokio::time::sleep(hit.lasts).await;
        let healing = tokio::time::timeout(ACT_MAX, faults::heal(world, hit.fault, wound)).await;
        healing.map_err(Into::into).flatten().with_context(|| format!("healing {}", hit.fault.name))?;
        note(world, &format!("- {}", hit.fault.name)).await;
    }
    let took = recovery(world).await;
    match took {
        Some(took) => note(world, &format!("  posting again after {:.1} s", took.as_secs_f64())).await,
        None => note(world, "  posting was not seen").await,
    }
    Ok(took)
}

/// The time until the journal grows.
async fn recovery(world: &World) -> Option<Duration> {
    let begun = Instant::now();
    let mut before = None;
    while begun.elapsed() < RECOVERY_MAX {
        if let Ok(now) = world.posted().await {
            if *before.get_or_insert(now) < now {
                return Some(begun.elapsed());
            }
            // A ledger that was restored begins lower.
            before = before.map(|before: i64| before.min(now));
        }
        if world.publisher.left() == 0 {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Some(begun.elapsed())
}

/// A line of the timeline.
pub async fn note(world: &World, what: &str) {
    let posted = world.posted().await.map_or_else(|_| "?".to_owned(), |posted| posted.to_string());
    let confirmed = world.publisher.confirmed.load(Ordering::SeqCst);
    let seconds = world.begun.elapsed().as_secs_f64();
    println!("{seconds:7.1} s  {what:<52} confirmed {confirmed:>6}  posted {posted:>6}");
}
