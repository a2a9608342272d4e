//! Everything that CI checks. The project enters; a line per step, cargo's own words and the time of each step leave. The first
//! step that fails ends it, and servers that did not run before the tests do not run after them.

use std::ffi::OsString;
use std::process::Command;
use std::time::Instant;

use crate::afterwards::Afterwards;
use crate::call;
use crate::cargo::{cargo, up_while};
use crate::environment;
use crate::install;
use crate::parts_list;
use crate::place::Place;
use crate::processes;
use crate::say::{Done, Stop, bold, red, say};
use crate::server::Server;
use crate::servers;

/// The steps that are behind us, with their times.
#[derive(Default)]
struct Steps(Vec<String>);

impl Steps {
    fn step(&mut self, name: &str, work: impl FnOnce() -> Done) -> Done {
        say(bold(&format!("== {name}")));
        let begun = Instant::now();
        if let Err(stop) = work() {
            stop.tell("");
            say(red(&format!("== {name} failed")));
            return Err(Stop::Told(1));
        }
        self.0.push(format!("{name} {:.1} s", begun.elapsed().as_secs_f64()));
        Ok(())
    }

    fn passed(&self) {
        say(format!("{} {}", bold("passed:"), self.0.join(", ")));
    }
}

pub fn check(place: &Place) -> Done {
    let mut steps = Steps::default();
    checks(place, &mut steps)?;
    steps.passed();
    Ok(())
}

fn checks(place: &Place, steps: &mut Steps) -> Done {
    let lints = ["clippy", "--workspace", "--locked", "--all-targets", "--all-features", "--", "-D", "warnings"];
    let pages = ["doc", "--workspace", "--no-deps", "--document-private-items", "--all-features", "--locked"];
    steps.step("format", || call::must(&mut cargo(place, &["fmt", "--all", "--check"])))?;
    steps.step("lints", || call::must(&mut cargo(place, &lints)))?;
    steps.step("licenses", || licenses(place))?;
    steps.step("advisories", || advisories(place))?;
    steps.step("parts list", || parts_list::write(place))?;
    steps.step("documentation", || call::must(cargo(place, &pages).env("RUSTDOCFLAGS", "-Dwarnings")))
}

fn licenses(place: &Place) -> Done {
    if call::succeeds(&mut cargo(place, &["deny", "--version"])) {
        return call::must(&mut cargo(place, &["deny", "check", "bans", "licenses", "sources"]));
    }
    say("cargo-deny is not installed: skipped");
    Ok(())
}

/// Known weaknesses of what is compiled in. Their database is fetched, so a machine without the network cannot tell.
fn advisories(place: &Place) -> Done {
    if !call::succeeds(&mut cargo(place, &["deny", "--version"])) {
        say("cargo-deny is not installed: skipped");
    } else if !call::succeeds(&mut cargo(place, &["deny", "fetch", "db"])) {
        say("the database of advisories cannot be fetched from here: skipped");
    } else {
        return call::must(&mut cargo(place, &["deny", "check", "advisories"]));
    }
    Ok(())
}

/// Without arguments all checks and the tests of all packages; with arguments only `cargo test ARGS`.
pub fn test(place: &mut Place, args: &[OsString]) -> Done {
    let mut steps = Steps::default();
    if args.is_empty() {
        checks(place, &mut steps)?;
        readers(place)?;
    }
    let stopped = place.private_servers().into_iter().filter(|server| !processes::runs(place, *server));
    let stopped: Vec<&str> = stopped.map(Server::name).collect();
    let _stopped_again = if stopped.is_empty() { None } else { Some(Afterwards::watch(place, &stopped)?) };
    if takes_no_run(args) {
        let mut building = cargo_test(place, &["--no-run"], args);
        steps.step("servers and build", || up_while(place, &mut building))?;
    } else {
        steps.step("servers", || {
            let plan = servers::plan(place, false)?;
            servers::up(place, &plan)
        })?;
    }
    let mut tests = cargo_test(place, &[], args);
    environment::export(place, &mut tests);
    steps.step("tests", || call::must(&mut tests))?;
    steps.passed();
    Ok(())
}

fn cargo_test(place: &Place, words: &[&str], args: &[OsString]) -> Command {
    let mut command = cargo(place, &["test", "--locked", "--all-features"]);
    if args.is_empty() {
        command.arg("--workspace");
    }
    command.args(words).args(args);
    command
}

/// Tells whether `--no-run` can stand before these arguments. cargo refuses it beside `--doc` and beside itself.
fn takes_no_run(args: &[OsString]) -> bool {
    let own = args.iter().take_while(|arg| *arg != "--");
    !own.into_iter().any(|arg| ["--doc", "--no-run", "--help", "-h"].iter().any(|word| arg == word))
}

/// The programs that read our exports, for the tests that ask them. Without one its test is skipped, and says so.
fn readers(place: &Place) -> Done {
    if call::find("hledger").is_some() {
        return Ok(());
    }
    if call::find("apt-get").is_some() && install::can_be_root() {
        say("Installing from the distribution: hledger (it reads the exports in a test)");
        if install::apt_install(place, &["hledger"], &place.dir.join("install-readers.log")).is_ok() {
            return Ok(());
        }
    }
    say("hledger is missing; the test that asks it will be skipped");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_compiles_ahead_only_where_it_takes_the_word() {
        let takes = |words: &str| takes_no_run(&words.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        assert!(takes("") && takes("--test flow happy") && takes("--test flow -- --doc"));
        assert!(!takes("--doc") && !takes("--test flow --no-run") && !takes("--help"));
    }
}
