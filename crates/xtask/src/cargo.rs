//! Programs that are built and then run: demo, bench, run, faults. The servers start while cargo compiles, for both take a while and
//! neither needs the other.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use crate::addresses;
use crate::call;
use crate::environment;
use crate::install;
use crate::place::Place;
use crate::say::{Done, OrDie};
use crate::server::Server;
use crate::servers;

/// cargo in the project's directory, wherever `./dev` was called.
pub fn cargo(place: &Place, words: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(words).current_dir(&place.root).env("CARGO_TARGET_DIR", &place.target);
    environment::forget(place, &mut cargo);
    cargo
}

/// Starts the servers while cargo compiles. A failed start ends the build: there is no use for it.
pub fn up_while(place: &mut Place, building: &mut Command) -> Done {
    let plan = servers::plan(place, false)?;
    let mut cargo = building.stdin(Stdio::null()).spawn().or_die(call::cannot_run(building))?;
    if let Err(stop) = servers::up(place, &plan) {
        let _ = cargo.kill();
        let _ = cargo.wait();
        return Err(stop);
    }
    call::judge(cargo.wait().or_die("cannot wait for cargo")?)
}

/// A built program in the project's directory, with the addresses of the servers.
fn program(place: &Place, profile: &str, name: &str) -> Command {
    let mut program = Command::new(place.target.join(profile).join(name));
    program.current_dir(&place.root).env("CARGO_TARGET_DIR", &place.target);
    environment::export(place, &mut program);
    program
}

/// The product and the tools, always together: the tools find the product beside their own program, and alone each would need
/// crates with other features, which cargo would compile a second time.
fn up_and_build(place: &mut Place, profile: &str) -> Done {
    let words = ["build", "--locked", "--package", "fis", "--package", "fis-bench", "--profile", profile];
    let mut building = cargo(place, &words);
    up_while(place, &mut building)
}

fn tool(place: &mut Place, profile: &str, name: &str, args: &[OsString]) -> Done {
    up_and_build(place, profile)?;
    let mut tool = program(place, profile, "fis-bench");
    tool.arg(name).args(args);
    call::become_program(tool)
}

/// The demo is built with a profile that compiles fast.
pub fn demo(place: &mut Place, args: &[OsString]) -> Done {
    tool(place, "demo", "demo", args)
}

/// The bench is built as a release, because its figures are told of what is shipped.
pub fn bench(place: &mut Place, args: &[OsString]) -> Done {
    tool(place, "release", "bench", args)
}

pub fn run(place: &mut Place, args: &[OsString]) -> Done {
    up_and_build(place, "release")?;
    let fis = |words: &[&str]| {
        let mut fis = program(place, "release", "fis");
        fis.args(words);
        fis
    };
    call::must(&mut fis(&["migrate"]))?;
    call::must(&mut fis(&["topology", "apply"]))?;
    let mut service = fis(&["run"]);
    service.args(args);
    if !place.given.is_external(Server::Postgres) {
        service.envs(addresses::service_database(&place.ports).map(|url| ("FIS_DATABASE_URL", url)));
    }
    call::become_program(service)
}

/// The fault suite starts and harms servers of its own.
pub fn faults(place: &mut Place, args: &[OsString]) -> Done {
    let missing = install::missing(place, &place.servers())?;
    install::install(place, &missing)?;
    let mut suite = cargo(place, &["test", "--locked", "--all-features", "--test", "storm", "--"]);
    if args.is_empty() {
        suite.args(["--schedules", "1"]);
    }
    suite.args(args);
    call::become_program(suite)
}
