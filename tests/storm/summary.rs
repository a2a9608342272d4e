//! What a run came to: its schedules, and how long posting took to resume after each fault.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::weather::Recovery;

#[derive(Default)]
pub struct Totals {
    pub schedules: u64,
    pub events: usize,
    pub entries: usize,
    pub faults: usize,
    pub surprises: usize,
    pub seeds: Vec<u64>,
    pub recoveries: Vec<Recovery>,
}

pub fn summary(totals: &Totals, took: Duration) {
    // Of two that were healed together nobody knows which one was waited for.
    let mut by_fault: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for recovery in &totals.recoveries {
        let name = if let [fault] = recovery.faults[..] { fault.name } else { "two at a time" };
        by_fault.entry(name).or_default().extend(recovery.took);
    }
    println!("\n{:<27} {:>4} {:>8} {:>8}", "posting again after", "n", "median", "worst");
    for (name, times) in &mut by_fault {
        times.sort();
        let show =
            |time: Option<&Duration>| time.map_or("–".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()));
        println!("{name:<27} {:>4} {:>8} {:>8}", times.len(), show(times.get(times.len() / 2)), show(times.last()));
    }
    for recovery in &totals.recoveries {
        if let Some(took) = recovery.took.filter(|_| recovery.is_slow()) {
            println!("slow recovery: {:.1} s after {}", took.as_secs_f64(), recovery.name());
        }
    }
    println!(
        "\n{} schedules clean, {} events confirmed, {} entries, {} faults, {} unexpected ends of fis, {:.1} minutes",
        totals.schedules,
        totals.events,
        totals.entries,
        totals.faults,
        totals.surprises,
        took.as_secs_f64() / 60.0
    );
}
