//! The command line. Called as a test target is (`cargo test`), it runs the fixed set.

use crate::faults::{FAULTS, Fault, named};

pub const USAGE: &str = "\
usage: ./dev faults [OPTIONS]

  --seed N        the first schedule's seed; each schedule behind it has the next one (default: a random one)
  --minutes M     schedules until that many minutes have passed
  --schedules K   that many schedules (default 1)
  --seconds S     how long each schedule's storm lasts (default 45)
  --only FAULTS   these faults alone, separated by commas, again and again
  --rate R        events per second (default 50)
  --mutant NAME   with this bug switched on: passes when the oracle notices
  --mutants       each of them
  --list          the faults
  --fixed         what CI runs, which is also what `cargo test` does; with --seed N that one of its schedules
";

/// The seeds that CI runs; together they go through every fault.
pub const FIXED: [u64; 5] = [7001, 7002, 7003, 7004, 7005];

/// Deliberate bugs that the feature `mutants` can switch on.
pub const MUTANTS: [&str; 14] = [
    "ack_before_commit",
    "processing_is_duplicate",
    "relay_by_id_cursor",
    "mark_before_confirm",
    "return_ignored",
    "unique_dropped",
    "head_not_locked",
    "hold_acked_before_commit",
    "inbox_removed_early",
    "lease_ignored",
    "forged_key_believed",
    "content_type_ignored",
    "hold_known_by_id",
    "forged_death_believed",
];

#[derive(Debug)]
pub struct Args {
    pub seed: u64,
    pub minutes: Option<u64>,
    pub schedules: u64,
    pub seconds: u64,
    pub rate: usize,
    pub only: Vec<&'static Fault>,
    pub mutants: Vec<String>,
    /// Schedules of the fixed set; none of them: random ones.
    pub fixed: Vec<u64>,
}

/// None where there is nothing to do.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
    let mut args = Args {
        seed: fastrand::u64(..1_000_000_000),
        minutes: None,
        schedules: 1,
        seconds: 45,
        rate: 50,
        only: Vec::new(),
        mutants: Vec::new(),
        fixed: Vec::new(),
    };
    let (mut fixed, mut seed) = (None, None);
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
        match word.as_str() {
            "--seed" => seed = Some(number(value()?)?),
            "--minutes" => args.minutes = Some(number(value()?)?),
            "--schedules" => args.schedules = number(value()?)?,
            "--seconds" => args.seconds = number(value()?)?.max(1),
            "--rate" => args.rate = usize::try_from(number(value()?)?.clamp(1, 10_000)).unwrap_or(50),
            "--only" => {
                let names = value()?;
                let faults = names
                    .split(',')
                    .map(|name| named(name).ok_or_else(|| format!("there is no fault `{name}`; see --list")));
                args.only = faults.collect::<Result<_, _>>()?;
            }
            "--mutant" => args.mutants.push(value()?),
            "--mutants" => args.mutants.extend(MUTANTS.map(ToOwned::to_owned)),
            "--list" => {
                list();
                return Ok(None);
            }
            "--fixed" => {
                fixed = Some(true);
                continue;
            }
            // What cargo and its friends say to any test.
            "--nocapture" | "--quiet" | "-q" | "--include-ignored" | "--show-output" | "--exact" => continue,
            "--test-threads" | "--format" | "--color" | "--skip" => {
                value()?;
                continue;
            }
            "--help" | "-h" => {
                println!("{USAGE}");
                return Ok(None);
            }
            other if other.starts_with("--test-threads=") || other.starts_with("--color=") => continue,
            other if other.starts_with('-') => return Err(format!("unknown option {other}")),
            // A filter of `cargo test NAME`: the storm is one test, called so.
            filter if "storm".contains(filter) => continue,
            filter => {
                println!("0 passed, 0 failed: `{filter}` is not the storm");
                return Ok(None);
            }
        }
        fixed.get_or_insert(false);
    }
    args.seed = seed.unwrap_or(args.seed);
    if fixed != Some(false) {
        args.fixed = FIXED.into_iter().filter(|one| seed.is_none_or(|seed| seed == *one)).collect();
        if args.fixed.is_empty() {
            return Err(format!("the fixed set has the seeds {FIXED:?}"));
        }
    }
    Ok(Some(args))
}

fn list() {
    for Fault { name, part, what, heals, .. } in FAULTS {
        println!("{name:<27} {:<10} {what}; heals: {heals}", format!("{part:?}").to_lowercase());
    }
}
