//! `./dev`: everything that a developer and CI do with this project. The words behind `./dev` enter; `./dev help` is the manual.
//!
//! `say` talks, `call` runs other programs, `place` is the state directory with its lock, `servers` are the commands about servers,
//! `lifecycle` starts and stops them, `checks`, `cargo` and `fuzz` build and test. What `./dev` itself has to say goes to stderr.

mod addresses;
mod afterwards;
mod call;
mod cargo;
mod certificates;
mod checks;
mod environment;
mod files;
mod fuzz;
mod install;
mod lifecycle;
mod parts_list;
mod place;
mod ports;
mod postgres;
mod processes;
mod programs;
mod rabbitmq;
mod redis;
mod say;
mod server;
mod servers;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use place::Place;
use say::{Done, Stop};
use server::{Action, Server};

const USAGE: &str = "\
usage: ./dev COMMAND

  demo [ARGS]     start the servers, build, run `fis-bench demo`: 10,000 sample events end to end (--keep leaves fis running)
  test [ARGS]     everything CI checks: format, lints, documentation, all tests
                  with ARGS: only `cargo test ARGS`, no checks
  check           the part of `test` that needs no servers
  sbom            write the parts list of the product (CycloneDX) into the target directory; `check` does it too
  run [ARGS]      start the servers, build, migrate, declare the topology, run the service in the foreground
  bench [ARGS]    start the servers, build, run `fis-bench bench`
  faults [ARGS]   one random schedule of the fault suite, on servers of its own: --seed N, --minutes M, --only FAULT,
                  --mutants, --list …; `faults --help` shows all. `test` runs a fixed set of it
  fuzz [--minutes M]
                  all targets of the fuzzer for M minutes together (10), at the lowest priority; `test` runs them for one.
                  FUZZ_KEEP=1 writes inputs that did something new into tests/corpus, FUZZ_SEED=N repeats a generator

  up [--cluster]  install what is missing (Debian, Ubuntu), start private servers; harmless to repeat
                  --cluster: with three nodes of RabbitMQ, from then on
  down [--wipe]   stop them; --wipe also deletes their data
  status          one line per server
  env             the servers' addresses as KEY=VALUE lines
  server postgres|redis|rabbitmq|rabbitmq2|rabbitmq3 start|stop|crash|pause|resume
                  one server, or one node of a cluster; for fault tests
  rabbitmqctl ... the private broker's rabbitmqctl; of a cluster, that of the node that FIS_DEV_NODE names, else of one that runs
  rabbitmq4 DIR   install Debian 13 with its RabbitMQ 4 into DIR (root, debootstrap); FIS_DEV_RABBITMQ_ROOT=DIR then runs that one
  help            this text

The servers live in .dev/, or in the directory that FIS_DEV_DIR names: another directory is another, independent set.
Where FIS_AMQP_URL, FIS_REDIS_URL or FIS_DATABASE_URL is set, that server is used and no private one is started in its place.
fis and cargo run in the project's directory.
";

/// A command, understood.
#[derive(Debug, PartialEq, Eq)]
enum Task<'w> {
    Demo(&'w [OsString]),
    Test(&'w [OsString]),
    Check,
    Sbom,
    Run(&'w [OsString]),
    Bench(&'w [OsString]),
    Faults(&'w [OsString]),
    Fuzz { minutes: u32 },
    Up { cluster: bool },
    Down { wipe: bool },
    Status,
    Env,
    Server(Server, Action),
    Rabbitmqctl(&'w [OsString]),
    Rabbitmq4(&'w Path),
    Help,
    Afterwards(&'w [OsString]),
}

/// The first word is the project's directory; `dev` puts it there.
fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let done = match words.split_first() {
        Some((root, words)) => parse(words).and_then(|task| perform(PathBuf::from(root), task)),
        None => Err(Stop::WrongUsage("a command, please".to_owned())),
    };
    done.map_or_else(|stop| stop.tell(USAGE), |()| ExitCode::SUCCESS)
}

fn parse(words: &[OsString]) -> Done<Task<'_>> {
    let wrong = |sentence: &str| Err(Stop::WrongUsage(sentence.to_owned()));
    let Some((command, args)) = words.split_first() else { return wrong("a command, please") };
    let command = command.to_string_lossy();
    let texts: Vec<&str> = args.iter().map(|arg| arg.to_str().unwrap_or("\u{fffd}")).collect();
    let task = match (command.as_ref(), texts.as_slice()) {
        ("demo", _) => Task::Demo(args),
        ("test", _) => Task::Test(args),
        ("run", _) => Task::Run(args),
        ("bench", _) => Task::Bench(args),
        ("faults", _) => Task::Faults(args),
        ("fuzz", args) => match fuzz::minutes(args) {
            Some(minutes) => Task::Fuzz { minutes },
            None => return wrong("fuzz takes nothing or --minutes M"),
        },
        ("rabbitmqctl", _) => Task::Rabbitmqctl(args),
        (afterwards::WORD, _) => Task::Afterwards(args),
        ("check", []) => Task::Check,
        ("sbom", []) => Task::Sbom,
        ("status", []) => Task::Status,
        ("env", []) => Task::Env,
        ("check" | "sbom" | "status" | "env", _) => return wrong(&format!("{command} takes no arguments")),
        ("up", []) => Task::Up { cluster: false },
        ("up", ["--cluster"]) => Task::Up { cluster: true },
        ("up", _) => return wrong("up takes nothing or --cluster"),
        ("down", []) => Task::Down { wipe: false },
        ("down", ["--wipe"]) => Task::Down { wipe: true },
        ("down", _) => return wrong("down takes nothing or --wipe"),
        ("server", [server, action]) => match (Server::parse(server), Action::parse(action)) {
            (Some(server), Some(action)) => Task::Server(server, action),
            _ => return wrong("server takes a server and an action"),
        },
        ("server", _) => return wrong("server takes a server and an action"),
        ("rabbitmq4", [_]) => Task::Rabbitmq4(args.first().map_or(Path::new(""), Path::new)),
        ("rabbitmq4", _) => return wrong("rabbitmq4 takes a directory"),
        ("help" | "-h" | "--help", _) => Task::Help,
        _ => return wrong(&format!("unknown command: {command}")),
    };
    Ok(task)
}

fn perform(root: PathBuf, task: Task<'_>) -> Done {
    let mut place = Place::open(root)?;
    let place = &mut place;
    match task {
        Task::Demo(args) => cargo::demo(place, args),
        Task::Test(args) => checks::test(place, args),
        Task::Check => checks::check(place),
        Task::Sbom => parts_list::write(place),
        Task::Run(args) => cargo::run(place, args),
        Task::Bench(args) => cargo::bench(place, args),
        Task::Faults(args) => cargo::faults(place, args),
        Task::Fuzz { minutes } => fuzz::fuzz(place, minutes),
        Task::Up { cluster } => {
            let plan = servers::plan(place, cluster)?;
            servers::up(place, &plan)
        }
        Task::Down { wipe } => servers::down(place, wipe),
        Task::Status => {
            servers::status(place);
            Ok(())
        }
        Task::Env => servers::env(place),
        Task::Server(server, action) => servers::server(place, server, action),
        Task::Rabbitmqctl(args) => servers::rabbitmqctl(place, args),
        Task::Rabbitmq4(dir) => servers::rabbitmq4(place, dir),
        Task::Help => {
            say::answer(USAGE);
            Ok(())
        }
        Task::Afterwards(words) => servers::afterwards(place, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn complaint(text: &str) -> String {
        match parse(&words(text)) {
            Err(Stop::WrongUsage(sentence)) => sentence,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_command_of_the_manual_is_understood() {
        let named =
            USAGE.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|word| !word.is_empty());
        for command in named {
            let line = match command {
                "server" => "server redis crash",
                "rabbitmq4" => "rabbitmq4 /somewhere",
                other => other,
            };
            assert!(parse(&words(line)).is_ok(), "{line}");
        }
    }

    #[test]
    fn arguments_are_passed_on_as_they_are() {
        let line = words("test --test flow happy -- --nocapture");
        assert_eq!(parse(&line).unwrap(), Task::Test(&line[1..]));
        assert_eq!(parse(&words("fuzz --minutes 90")).unwrap(), Task::Fuzz { minutes: 90 });
        assert_eq!(parse(&words("up --cluster")).unwrap(), Task::Up { cluster: true });
        let server = Task::Server(Server::Rabbitmq2, Action::Pause);
        assert_eq!(parse(&words("server rabbitmq2 pause")).unwrap(), server);
    }

    #[test]
    fn a_wrong_word_is_told() {
        assert_eq!(complaint(""), "a command, please");
        assert_eq!(complaint("dance"), "unknown command: dance");
        assert_eq!(complaint("status now"), "status takes no arguments");
        assert_eq!(complaint("up --clusters"), "up takes nothing or --cluster");
        assert_eq!(complaint("down --wipe now"), "down takes nothing or --wipe");
        assert_eq!(complaint("server epmd crash"), "server takes a server and an action");
        assert_eq!(complaint("fuzz --hours 8"), "fuzz takes nothing or --minutes M");
        assert_eq!(complaint("server redis"), "server takes a server and an action");
        assert_eq!(complaint("rabbitmq4"), "rabbitmq4 takes a directory");
    }
}
