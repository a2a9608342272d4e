//! `./dev fuzz`: all targets of the fuzzer one after the other for as long as is asked for, at the lowest priority. Minutes enter; what each target did leaves: inputs,
//! seed, processor time, findings. The targets themselves are tests (`tests/support/fuzz.rs`), which run for a minute on every run.

use std::process::Command;

use crate::afterwards::Afterwards;
use crate::call;
use crate::cargo::{cargo, up_while};
use crate::environment;
use crate::files;
use crate::place::Place;
use crate::processes;
use crate::say::{Done, OrDie, bold, say};
use crate::server::Server;

/// Minutes, where nobody says.
const MINUTES: u32 = 10;
/// The tests that are targets. Debug builds check every sum for overflow, so the fuzzer runs in them.
const TESTS: [&str; 7] = ["test", "--locked", "--all-features", "--test", "model", "--test", "flow"];

/// The line of one target in the report.
#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    target: String,
    inputs: u64,
    shapes: u64,
    seed: u64,
    cpu_millis: u64,
    slowest_millis: u64,
    findings: u64,
}

impl Line {
    fn parse(text: &str) -> Option<Self> {
        let (target, numbers) = text.split_once(' ')?;
        let numbers: Vec<u64> = numbers.split(' ').map_while(|number| number.parse().ok()).collect();
        let [inputs, shapes, seed, cpu_millis, slowest_millis, findings] = *numbers.as_slice() else { return None };
        Some(Self { target: target.to_owned(), inputs, shapes, seed, cpu_millis, slowest_millis, findings })
    }
}

/// The minutes that are asked for.
pub fn minutes(args: &[&str]) -> Option<u32> {
    match args {
        [] => Some(MINUTES),
        ["--minutes", minutes] => minutes.parse().ok().filter(|minutes| *minutes > 0),
        _ => None,
    }
}

pub fn fuzz(place: &mut Place, minutes: u32) -> Done {
    let stopped = place.private_servers().into_iter().filter(|server| !processes::runs(place, *server));
    let stopped: Vec<&str> = stopped.map(Server::name).collect();
    let _stopped_again = if stopped.is_empty() { None } else { Some(Afterwards::watch(place, &stopped)?) };
    let mut building = cargo(place, &TESTS);
    up_while(place, building.arg("--no-run"))?;

    let report = place.dir.join("fuzz-report");
    files::write(&report, "")?;
    let mut tests = cargo(place, &TESTS);
    tests.args(["--no-fail-fast", "--", "fuzz::", "--test-threads", "1", "--nocapture"]);
    tests.env("FUZZ_MINUTES", minutes.to_string()).env("FUZZ_REPORT", &report);
    environment::export(place, &mut tests);
    say(bold(&format!("== fuzz, {minutes} minutes")));
    let ended = call::must(&mut lowest_priority(&tests));
    let report = std::fs::read_to_string(&report).or_die("cannot read the report")?;
    for line in told(&report) {
        say(line);
    }
    ended
}

/// The command, behind everybody else who wants the processor.
fn lowest_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    nice
}

/// A line per target, and all together.
fn told(report: &str) -> Vec<String> {
    let lines: Vec<Line> = report.lines().filter_map(Line::parse).collect();
    let mut told: Vec<String> = lines
        .iter()
        .map(|line| {
            let Line { target, inputs, shapes, seed, cpu_millis, slowest_millis, findings } = line;
            format!(
                "{target:7} {inputs:>10} inputs  {shapes:>6} shapes  {:>7} s of processor time  slowest {slowest_millis:>5} ms  {findings} findings  seed {seed}",
                cpu_millis / 1000
            )
        })
        .collect();
    let sum = |of: fn(&Line) -> u64| lines.iter().map(of).sum::<u64>();
    let (inputs, seconds, findings) =
        (sum(|line| line.inputs), sum(|line| line.cpu_millis) / 1000, sum(|line| line.findings));
    told.push(format!("all     {inputs:>10} inputs, {seconds} s of processor time, {findings} findings"));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_taken_by_name() {
        assert_eq!(minutes(&[]), Some(MINUTES));
        assert_eq!(minutes(&["--minutes", "90"]), Some(90));
        for wrong in [&["--minutes"][..], &["--minutes", "0"], &["--minutes", "x"], &["90"]] {
            assert_eq!(minutes(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn what_the_targets_did_is_added_up() {
        let told = told("wire 100 7 42 1500 20 0\nmap 10 3 43 2500 90 1\nhalf a line\n");
        assert_eq!(told.len(), 3);
        assert!(told[0].starts_with("wire ") && told[0].contains("100 inputs") && told[0].ends_with("seed 42"));
        assert_eq!(told[2], "all            110 inputs, 4 s of processor time, 1 findings");
    }

    #[test]
    fn a_command_keeps_its_words_and_its_environment_at_the_lowest_priority() {
        let mut command = Command::new("cargo");
        command.args(["test", "--locked"]).env("A", "1").env_remove("B").current_dir("/tmp");
        let nice = lowest_priority(&command);
        let words: Vec<&std::ffi::OsStr> = nice.get_args().collect();
        assert_eq!(words, ["-n", "19", "cargo", "test", "--locked"]);
        assert_eq!(nice.get_envs().count(), 2);
        assert_eq!(nice.get_current_dir(), command.get_current_dir());
    }
}
