//! The life of a server: launched, ready, paused, stopped, crashed. Servers enter; they answer, or the end of their log is shown.
//! The caller holds the lock of the state directory.

use std::fs;
use std::time::{Duration, Instant};

use crate::certificates;
use crate::environment;
use crate::place::Place;
use crate::ports::{self, Ports};
use crate::processes::{self, kill_rest, main_pid, signal, signal_all};
use crate::say::{Done, Stop, dim, last_lines, red, say};
use crate::server::Server;
use crate::{postgres, rabbitmq, redis};

/// RabbitMQ on a busy two-core machine is the slow one.
const START_PATIENCE: Duration = Duration::from_secs(120);
const START_LOOK: Duration = Duration::from_millis(100);
const STOP_PATIENCE: Duration = Duration::from_secs(20);
/// PostgreSQL's immediate shutdown only waits for its children to notice.
const CRASH_PATIENCE: Duration = Duration::from_secs(5);
const LOG_LINES: usize = 30;

/// Makes the named servers run. epmd comes before the broker, which would otherwise bring its own. A node without data joins the
/// first one, which must be up; nodes that know each other come up together, in any order.
pub fn start_all(place: &mut Place, servers: &[Server]) -> Done {
    if servers.iter().any(|server| server.is_node()) {
        start_together(place, &[Server::Epmd])?;
    }
    let joins = |server: &Server| server.is_further_node() && !place.data(*server).join("data").is_dir();
    let (later, now): (Vec<Server>, Vec<Server>) = servers.iter().partition(|server| joins(server));
    start_together(place, &now)?;
    later.iter().try_for_each(|server| start_together(place, &[*server]))
}

fn start_together(place: &mut Place, servers: &[Server]) -> Done {
    prepare(place, servers)?;
    let failed = in_parallel(place, servers, bring_up);
    // Between our look and the server's start, somebody may have taken its port (another ./dev, say): once more.
    let taken = ports::listening_ports(&ports::socket_table());
    let unlucky = |server: &Server| server.ports().iter().any(|name| taken.contains(&place.ports.number(name)));
    if !failed.iter().all(unlucky) {
        return Err(Stop::Told(1));
    }
    prepare(place, &failed)?;
    if in_parallel(place, &failed, bring_up).is_empty() { Ok(()) } else { Err(Stop::Told(1)) }
}

/// Clears away what is left of those of the named servers that do not run, and gives them ports.
fn prepare(place: &mut Place, servers: &[Server]) -> Done {
    // Somebody else may have held the lock since we looked last.
    place.ports = Ports::load(&place.dir);
    certificates::make(place)?;
    let stopped: Vec<Server> = servers.iter().copied().filter(|server| !processes::runs(place, *server)).collect();
    for server in &stopped {
        kill_rest(place, *server)?;
    }
    if !stopped.is_empty() {
        assign_ports(place, &stopped)?;
    }
    environment::write_file(place)
}

pub fn assign_ports(place: &mut Place, stopped: &[Server]) -> Done {
    let taken = ports::listening_ports(&ports::socket_table());
    let hash = place.hash();
    for (server, port) in place.ports.assign(stopped, &taken, hash) {
        say(format!("{}: port {port} is taken by somebody else; choosing another", server.name()));
    }
    place.ports.save(&place.dir)
}

/// Does something for each of the named servers at the same time; those for which it failed leave, their reasons told.
fn in_parallel(place: &Place, servers: &[Server], act: impl Fn(&Place, Server) -> Done + Sync) -> Vec<Server> {
    std::thread::scope(|scope| {
        let act = &act;
        let jobs: Vec<_> = servers.iter().map(|server| (*server, scope.spawn(move || act(place, *server)))).collect();
        let mut failed = Vec::new();
        for (server, job) in jobs {
            match job.join() {
                Ok(Ok(())) => {}
                Ok(Err(stop)) => {
                    stop.tell("");
                    failed.push(server);
                }
                Err(_) => failed.push(server),
            }
        }
        failed
    })
}

fn bring_up(place: &Place, server: Server) -> Done {
    let ran = main_pid(place, server);
    if ran.is_none() {
        processes::rotate_log(place, server)?;
    }
    let logged = processes::log_size(place, server);
    let up = match ran {
        Some(pid) => revive(place, server, pid),
        None => launch(place, server).and_then(|()| await_ready(place, server)).and_then(|()| finish(place, server)),
    };
    if let Err(stop) = up {
        stop.tell("");
        return failed_start(place, server, logged);
    }
    match ran {
        _ if server == Server::Epmd => {}
        Some(_) => say(dim(&format!("{}: running, {}", server.name(), address(place, server)))),
        None => say(format!("{}: started, {}", server.name(), address(place, server))),
    }
    Ok(())
}

fn launch(place: &Place, server: Server) -> Done {
    match server {
        Server::Postgres => postgres::launch(place),
        Server::Redis => redis::launch(place),
        Server::Rabbitmq | Server::Rabbitmq2 | Server::Rabbitmq3 => rabbitmq::launch(place, server),
        Server::Epmd => rabbitmq::launch_epmd(place),
    }
}

fn answers(place: &Place, server: Server) -> bool {
    match server {
        Server::Postgres => postgres::answers(place),
        Server::Redis => redis::answers(place),
        Server::Rabbitmq | Server::Rabbitmq2 | Server::Rabbitmq3 => rabbitmq::answers(place, server),
        Server::Epmd => rabbitmq::epmd_answers(place),
    }
}

fn finish(place: &Place, server: Server) -> Done {
    if server == Server::Postgres { postgres::finish(place) } else { Ok(()) }
}

/// A server that runs may be paused, or still be starting.
fn revive(place: &Place, server: Server, pid: u32) -> Done {
    if processes::is_paused(pid) {
        signal_all(place, server, "CONT");
    }
    await_ready(place, server)
}

/// Waits until the server answers. Fails at once when its process ends.
fn await_ready(place: &Place, server: Server) -> Done {
    let deadline = Instant::now() + START_PATIENCE;
    while Instant::now() < deadline {
        match main_pid(place, server) {
            Some(pid) if processes::listens_on(pid, place.ports.main(server)) && answers(place, server) => {
                return Ok(());
            }
            None if !is_arriving(place, server) => break,
            Some(_) | None => std::thread::sleep(START_LOOK),
        }
    }
    Err(Stop::Told(1))
}

/// On its way into another root a process is for a moment not in our directory, by which we know it.
fn is_arriving(place: &Place, server: Server) -> bool {
    let travels = place.other_root.is_some() && !matches!(server, Server::Postgres | Server::Redis);
    travels && processes::noted_pid(place, server).is_some_and(processes::is_alive)
}

fn failed_start(place: &Place, server: Server, logged: u64) -> Done {
    let log = place.file(server, "log");
    say(red(&format!("{} did not start. The end of {}:", server.name(), log.display())));
    let text = fs::read(&log).unwrap_or_default();
    let new = usize::try_from(logged).ok().and_then(|logged| text.get(logged..)).unwrap_or_default();
    say(last_lines(&String::from_utf8_lossy(new), LOG_LINES));
    kill_rest(place, server)?;
    Err(Stop::Told(1))
}

/// The words by which people are told where a server is.
pub fn address(place: &Place, server: Server) -> String {
    let main = format!("127.0.0.1:{}", place.ports.main(server));
    if !server.is_node() {
        return main;
    }
    let management = place.ports.number(&format!("management{}", server.number()));
    format!("{main}, management page http://127.0.0.1:{management}")
}

/// Stops servers, and tells of those that ran.
pub fn stop_all(place: &Place, servers: &[Server]) -> Done {
    let failed = in_parallel(place, servers, |place, server| {
        let ran = processes::runs(place, server);
        stop(place, server)?;
        if ran {
            say(format!("{}: stopped", server.name()));
        }
        Ok(())
    });
    rabbitmq::release(place)?;
    if failed.is_empty() { Ok(()) } else { Err(Stop::Told(1)) }
}

/// Stops one server the way it likes best. A paused one must run again to hear the signal.
pub fn stop(place: &Place, server: Server) -> Done {
    if let Some(pid) = main_pid(place, server) {
        // PostgreSQL's "fast": it does not wait for clients.
        signal(if server == Server::Postgres { "INT" } else { "TERM" }, &[pid]);
        signal_all(place, server, "CONT");
        if !processes::wait_until(STOP_PATIENCE, || !processes::is_alive(pid)) {
            say(format!("{}: did not stop within {} s; killed", server.name(), STOP_PATIENCE.as_secs()));
        }
    }
    // What is left: a child, or a server that does not listen.
    kill_rest(place, server)
}

/// PostgreSQL gets its own kind of crash, "immediate": no checkpoint, recovery at the next start.
pub fn crash(place: &Place, server: Server) -> Done {
    if let (Server::Postgres, Some(pid)) = (server, main_pid(place, server)) {
        signal("QUIT", &[pid]);
        signal_all(place, server, "CONT");
        processes::wait_gone(place, server, CRASH_PATIENCE);
    }
    kill_rest(place, server)
}
