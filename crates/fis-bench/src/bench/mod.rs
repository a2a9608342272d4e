//! `fis-bench bench`: the figures of the service on these servers, beside the limits measured in the same run. Timings are noisy and
//! machines differ, so what counts is the ratio. Each part works in a database and a virtual host of its own, empty at its
//! start and removed at its end.

mod bare_limits;
mod bare_posting;
mod dead_letters;
mod drain;
mod held;
mod latency;
mod long_runs;
mod machine;
mod neighbour;
mod orders;
mod peers;
mod plot;
mod relay;
mod report;
mod resources;
mod results;
mod rule_costs;
mod sandbox;
mod sheet;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use fis::platform::config::Config;

use drain::{Backlog, Drained};
use machine::Machine;
use orders::Order;
use report::Report;
use results::{Results, grouped};
use sandbox::{BOOKS, Sandbox};

/// The rates at which latency is measured, by their names in the results.
const LATENCY_NAMES: [&str; 3] = ["100", "1000", HALF];
/// Half of what the full loop does.
const HALF: &str = "half";
/// The events that tell what half of the full loop is, where the loop itself is not measured.
const CAPACITY_EVENTS: usize = 20_000;
/// The most held events that wait beside a drain and are released at once.
const HELD_MAX: usize = 1_000_000;
/// The outbox's backlog is so many times the other parts' events: 200,000 rows by default.
const RELAY_TIMES: usize = 4;

#[derive(clap::Args)]
pub struct Bench {
    /// Events per round and part
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1_000..=5_000_000))]
    events: u32,
    /// Rounds; the medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// Only these parts [default: all but the long ones]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<Part>,
    /// Also drain into a ledger that holds this many entries already (minutes)
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "2000000", value_parser = clap::value_parser!(u32).range(1_000..=50_000_000))]
    ledger: Option<u32>,
    /// Also drain a backlog of this many events of 1 KB, and show the memory (minutes)
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000000", value_parser = clap::value_parser!(u32).range(1_000..=5_000_000))]
    backlog: Option<u32>,
    /// Also send this many events through the outbox, and show the size of its table (minutes)
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "5000000", value_parser = clap::value_parser!(u32).range(1_000..=50_000_000))]
    outbox_events: Option<u32>,
    /// Also park, list, group and replay this many dead letters (minutes)
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "232000", value_parser = clap::value_parser!(u32).range(1_000..=5_000_000))]
    letters: Option<u32>,
    /// Also measure a tenant beside another one's backlog of this many events (minutes)
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000000", value_parser = clap::value_parser!(u32).range(1_000..=5_000_000))]
    neighbour: Option<u32>,
    /// What other ledgers reach, beside these figures
    #[arg(long)]
    peers: bool,
    #[arg(long)]
    json: bool,
    /// Keep JSON, Markdown and a plot in this folder [default: bench/results where it exists]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The bare loops, and the naive listener
    Limits,
    /// A backlog becomes a ledger
    Drain,
    /// The same backlog again, twice
    Duplicates,
    /// Publisher, intake and relay together
    Loop,
    /// A backlog, two instances
    Instances,
    /// An outbox's backlog
    Relay,
    /// At 100, 1,000 and half of the full loop's events per second
    Latency,
    /// Decoding and mapping on one core
    Rules,
    /// As with --ledger
    FullLedger,
    /// As with --backlog
    Memory,
    /// As with --outbox-events
    Outbox,
    /// As with --letters
    Dlq,
    /// As with --neighbour, but a backlog of 200,000
    Neighbour,
}

impl Part {
    const USUAL: [Self; 8] = [
        Self::Limits,
        Self::Drain,
        Self::Duplicates,
        Self::Loop,
        Self::Instances,
        Self::Relay,
        Self::Latency,
        Self::Rules,
    ];
}

impl Bench {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let mut results = Results::default();
        let machine = in_sandbox(config, async |sandbox| Machine::describe(sandbox).await).await?;
        if machine.build != "release" {
            eprintln!("this is a {} build: its figures say nothing", machine.build);
        }
        let rounds = if Part::USUAL.into_iter().any(|part| self.has(part)) { self.rounds } else { 0 };
        for round in 1..=rounds {
            eprintln!("round {round} of {}", self.rounds);
            self.round(config, &mut results).await?;
        }
        self.long_parts(config, &mut results).await?;
        let costs = match self.has(Part::Rules) {
            true => Some(rule_costs::costs(BOOKS, &Order { run: "bench", number: 1 }.message().body)?),
            false => None,
        };
        let events = usize::try_from(self.events)?;
        let report = Report { machine, results, costs, events, rounds: self.rounds, peers: self.peers };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report.json())?);
        } else {
            report.print();
        }
        report.keep(self.out.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }

    fn has(&self, part: Part) -> bool {
        if self.only.is_empty() { Part::USUAL.contains(&part) } else { self.only.contains(&part) }
    }

    /// The limit and what is measured beside it take turns, so that a noisy minute hits both.
    async fn round(&self, config: &Config, results: &mut Results) -> anyhow::Result<()> {
        let events = usize::try_from(self.events)?;
        let beside_posting = [Part::Drain, Part::Duplicates, Part::Loop, Part::Instances];
        if self.has(Part::Limits) {
            in_sandbox(config, async |sandbox| bare_limits::all(sandbox, events, results).await).await?;
            tell(results, &["posting", "copy", "publish", "consume", "naive"]);
        } else if beside_posting.into_iter().any(|part| self.has(part)) {
            in_sandbox(config, async |sandbox| bare_limits::posting(sandbox, events, results).await).await?;
            tell(results, &["posting"]);
        }
        if self.has(Part::Drain) || self.has(Part::Duplicates) || self.has(Part::Instances) {
            in_sandbox(config, async |sandbox| {
                let alone = Backlog { relay_waits: true, ..Backlog::of(events) };
                let drained = drain::backlog(sandbox, alone).await?;
                results.add("drain", drained.drain);
                results.add("drain_publish", drained.publish);
                keep_times("intake", &drained, results);
                let beside = Backlog { first: events, ..Backlog::of(events) };
                keep(&drain::backlog(sandbox, beside).await?, results);
                tell(results, &["drain", "drain_beside", "drain_relay"]);
                if self.has(Part::Duplicates) {
                    drain::duplicates(sandbox, events, results).await?;
                    tell(results, &["duplicates"]);
                }
                Ok(())
            })
            .await?;
        }
        if self.has(Part::Loop) {
            results.add("loop", in_sandbox(config, async |sandbox| drain::full_loop(sandbox, events).await).await?);
            tell(results, &["loop"]);
        }
        if self.has(Part::Instances) {
            let two = in_sandbox(config, async |sandbox| {
                drain::backlog(sandbox, Backlog { instances: 2, ..Backlog::of(events) }).await
            })
            .await?;
            results.add("two_instances", two.drain);
            tell(results, &["two_instances"]);
        }
        if self.has(Part::Relay) {
            in_sandbox(config, async |sandbox| relay::measure(sandbox, events * RELAY_TIMES, results).await).await?;
            tell(results, &["relay", "relay_limit", "relay_limit_unordered"]);
            results.add_if(
                "loop_parts",
                results.in_turn(&["publish", "consume", "posting_messages", "relay_limit_unordered"]),
            );
        }
        if self.has(Part::Latency) {
            self.latency(config, results).await?;
        }
        Ok(())
    }

    async fn latency(&self, config: &Config, results: &mut Results) -> anyhow::Result<()> {
        let events = usize::try_from(self.events)?;
        let capacity = match results.median("loop") {
            Some(rate) => rate,
            None => {
                in_sandbox(config, async |sandbox| drain::full_loop(sandbox, events.min(CAPACITY_EVENTS)).await).await?
            }
        };
        let half = usize::try_from(capacity / 2)?.max(1);
        let rates: Vec<(&str, usize)> = LATENCY_NAMES.into_iter().zip([100, 1000, half]).collect();
        in_sandbox(config, async |sandbox| latency::measure(sandbox, &rates, events, results).await).await?;
        tell(results, &["latency_100_commit_p99", "latency_1000_commit_p99", "latency_half_commit_p99"]);
        Ok(())
    }

    async fn long_parts(&self, config: &Config, results: &mut Results) -> anyhow::Result<()> {
        let events = usize::try_from(self.events)?;
        let size = |part: Part, asked: Option<u32>, usual: u32| asked.or(self.only.contains(&part).then_some(usual));
        if let Some(entries) = size(Part::FullLedger, self.ledger, 2_000_000) {
            long_runs::full_ledger(config, usize::try_from(entries)?, events, self.rounds, results).await?;
            tell(results, &["empty_ledger", "full_ledger"]);
        }
        if let Some(backlog) = size(Part::Memory, self.backlog, 1_000_000) {
            long_runs::memory(config, usize::try_from(backlog)?, results).await?;
            tell(results, &["backlog_drain", "memory_backlog_kib"]);
        }
        if let Some(through) = size(Part::Outbox, self.outbox_events, 5_000_000) {
            long_runs::outbox(config, usize::try_from(through)?, results).await?;
            tell(results, &["outbox_largest_kib"]);
        }
        if let Some(letters) = size(Part::Dlq, self.letters, 232_000) {
            let letters = usize::try_from(letters)?;
            in_sandbox(config, async |sandbox| dead_letters::measure(sandbox, letters, events, results).await).await?;
            let held = letters.min(HELD_MAX);
            in_sandbox(config, async |sandbox| held::measure(sandbox, held, events, results).await).await?;
            tell(results, &["dlq_drain", "dlq_parking", "dlq_replay", "dlq_replay_relay", "dlq_replay_rest"]);
            tell(results, &["held_drain_before", "held_drain", "held_release"]);
            tell(
                results,
                &["dlq_list_us", "dlq_groups_us", "dlq_filter_us", "dlq_live_alone_p99", "dlq_live_beside_p99"],
            );
        }
        if let Some(backlog) = size(Part::Neighbour, self.neighbour, 200_000) {
            neighbour::measure(config, usize::try_from(backlog)?, results).await?;
            tell(results, &["neighbour_own_drain", "neighbour_alone_p99", "neighbour_own_p99", "neighbour_own_max"]);
            tell(results, &["neighbour_shared_drain", "neighbour_shared_p99", "neighbour_shared_max"]);
        }
        Ok(())
    }
}

/// Makes a sandbox, works in it, and removes it whatever became of the work. An interrupted work is dropped, its service with it.
async fn in_sandbox<T>(config: &Config, work: impl AsyncFnOnce(&Sandbox) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let sandbox = Box::pin(Sandbox::make(config)).await?;
    let done = interruptible(Box::pin(work(&sandbox))).await;
    Box::pin(sandbox.remove()).await;
    done
}

/// Ctrl-C drops the work. Never around another `in_sandbox`, whose sandbox would be left behind.
async fn interruptible<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    }
}

fn keep(drained: &Drained, results: &mut Results) {
    results.add("drain_beside", drained.drain);
    results.add("drain_relay", drained.relay);
    results.add("memory_kib", drained.memory_kib);
    keep_times("cpu", drained, results);
    for (name, bytes) in &drained.spent.bytes {
        results.add(*name, *bytes);
    }
}

/// Processor time, under names that begin like this.
fn keep_times(prefix: &str, drained: &Drained, results: &mut Results) {
    let spent = &drained.spent;
    for (name, time) in
        [("fis", spent.fis), ("postgres", spent.postgres), ("rabbitmq", spent.rabbitmq), ("redis", spent.redis)]
    {
        results.add_if(&format!("{prefix}_{name}"), time);
    }
}

/// Prints the latest figures, so that a long run is seen to get on.
fn tell(results: &Results, names: &[&str]) {
    let figures = names.iter().filter_map(|name| Some(format!("{name} {}", grouped(results.last(name)?))));
    eprintln!("  {}", figures.collect::<Vec<_>>().join(", "));
}

fn rate(events: usize, time: Duration) -> u64 {
    let milliseconds = time.as_millis().max(1);
    u64::try_from(events as u128 * 1000 / milliseconds).unwrap_or(u64::MAX)
}
