//! The judgement over a status: what the servers, instances and tables tell enters; one sentence that says how it is, one that says what to do, and
//! whether something is wrong leave.

use chrono::{DateTime, Utc};

use super::{Breaker, InstanceStatus, ServerState, ServerStatus, Status};

/// An instance that is younger may still be starting.
const START_SECONDS: i64 = 10;
/// The age from which announcements should have left long ago.
const OUTBOX_OLD_SECONDS: i64 = 60;

/// Fills verdict, advice and `degraded`. The first trouble that explains the others is told. `here` is whether the service at `http.addr` is ready, where
/// one answers: its row may be a heartbeat old.
pub(super) fn judge(status: &mut Status, here: Option<bool>) {
    let judged = of_servers(status, here)
        .or_else(|| of_instances(status, here))
        .or_else(|| of_relay(status))
        .map(|(verdict, advice)| (true, verdict, advice));
    let (degraded, verdict, advice) = judged.unwrap_or_else(|| of_work(status));
    (status.degraded, status.verdict, status.advice) = (degraded, verdict, advice);
}

type Told = (String, String);

fn of_servers(status: &Status, here: Option<bool>) -> Option<Told> {
    let ill: Vec<&ServerStatus> = status.servers.iter().filter(|server| server.state != ServerState::Ok).collect();
    let first = ill.first()?;
    let names: Vec<&str> = ill.iter().map(|server| server.name).collect();
    let verdict = match (first.state, names.as_slice()) {
        _ if ill.iter().all(|server| server.state == ServerState::NotSetUp) => {
            format!("fis is not set up: {}.", why(first))
        }
        (ServerState::Refuses, [name]) => format!("{name} does not let fis in."),
        (_, [name]) => format!("{name} does not answer."),
        (_, [rest @ .., last]) => format!("{} and {last} cannot be used.", rest.join(", ")),
        (_, []) => return None,
    };
    let mut advice: Vec<String> = ill.iter().map(|server| advice_for(status, server)).collect();
    advice.dedup();
    let is_waiting = ill.iter().all(|server| server.state == ServerState::Silent);
    match has_instance(status, here) {
        Some(false) => advice.push("No fis service is running: start it with `fis run`.".to_owned()),
        Some(true) | None if is_waiting => advice.push("Nothing else to do.".to_owned()),
        Some(true) | None => {}
    }
    // One trouble is one paragraph.
    Some((verdict, advice.join(if ill.len() == 1 { " " } else { "\n" })))
}

fn advice_for(status: &Status, server: &ServerStatus) -> String {
    let (name, address) = (server.name, &server.address);
    let since = server.since.map(|since| format!(" since {}", clock(since, status.at))).unwrap_or_default();
    match server.state {
        ServerState::NotSetUp => "Run `fis setup`.".to_owned(),
        ServerState::Refuses => format!("{name} {address} {}. Mend the setting or the server.", why(server)),
        ServerState::Ok | ServerState::Silent => {
            let safe = nothing_lost(status, name);
            format!("{name} {address} does not answer{since}. {safe} Start {name}.")
        }
    }
}

/// Tells whether a service runs; None where nobody can tell.
fn has_instance(status: &Status, here: Option<bool>) -> Option<bool> {
    let is_alive = |instances: &Vec<InstanceStatus>| instances.iter().any(|instance| instance.alive);
    if here.is_some() { Some(true) } else { status.instances.as_ref().map(is_alive) }
}

/// The events that wait, in the words of whoever fears for them.
fn nothing_lost(status: &Status, name: &str) -> String {
    match name {
        "PostgreSQL" => match waiting(status) {
            Some(count) => format!("Nothing is lost: {} in the broker.", wait(count, "event")),
            None => "Nothing is lost: events wait in the broker.".to_owned(),
        },
        "RabbitMQ" => match status.outbox {
            Some(outbox) => format!(
                "Nothing is lost: publishers get no confirm, and {} in the outbox.",
                wait(outbox.pending, "announcement")
            ),
            None => "Nothing is lost: publishers get no confirm.".to_owned(),
        },
        _ => "Nothing is lost: PostgreSQL finds duplicates without it.".to_owned(),
    }
}

fn of_instances(status: &Status, here: Option<bool>) -> Option<Told> {
    let instances = status.instances.as_deref().unwrap_or_default();
    let alive: Vec<&InstanceStatus> = instances.iter().filter(|instance| instance.alive).collect();
    if alive.is_empty() && here.is_none() {
        let safe = waiting(status).map(|count| format!(" Nothing is lost: {} in the broker.", wait(count, "event")));
        let advice = format!("Start the service with `fis run`.{}", safe.unwrap_or_default());
        return Some(("Nobody takes events: no fis is running.".to_owned(), advice));
    }
    let is_starting = |instance: &&InstanceStatus| instance.running_seconds < START_SECONDS;
    if here.is_none() && status.breaker != Breaker::Open && alive.iter().all(is_starting) {
        return None;
    }
    let is_any_ready = here == Some(true) || alive.iter().any(|instance| instance.ready);
    if status.breaker == Breaker::Open || !is_any_ready {
        let advice = "Look at `/readyz` and at the log of the service: they name the part that is missing.";
        return Some(("fis runs, but it is not ready.".to_owned(), advice.to_owned()));
    }
    None
}

fn of_relay(status: &Status) -> Option<Told> {
    let outbox = status.outbox.filter(|outbox| outbox.oldest_seconds >= OUTBOX_OLD_SECONDS)?;
    let relays = status.instances.as_deref().unwrap_or_default().iter().any(|one| one.alive && one.relays);
    let pending = wait(outbox.pending, "announcement");
    Some(if relays {
        let advice = "Look at `/readyz` of the instance that relays: it names the reason.";
        (format!("The relay is behind: {pending}, the oldest for {} s.", outbox.oldest_seconds), advice.to_owned())
    } else {
        let advice = "Look at the queue fis.relay.owner: `rabbitmqctl list_queues name durable owner_pid`.";
        (format!("No instance relays: {pending}, the oldest for {} s.", outbox.oldest_seconds), advice.to_owned())
    })
}

/// Nothing is broken; there may be work for a person.
fn of_work(status: &Status) -> (bool, String, String) {
    if status.tenants == Some(0) {
        let verdict = "No books are applied: every event is rejected as `unknown_tenant`.";
        return (false, verdict.to_owned(), "Apply books with `fis books apply FILE`.".to_owned());
    }
    match status.dead_letters.as_ref().map_or(0, |letters| letters.open) {
        0 => (false, "All well.".to_owned(), "Nothing to do.".to_owned()),
        open => {
            let verdict = format!("fis works; {} for a person.", wait(open, "dead letter"));
            (false, verdict, "Look at them with `fis dlq groups`.".to_owned())
        }
    }
}

/// The events in the lanes' queues, as far as RabbitMQ tells.
fn waiting(status: &Status) -> Option<i64> {
    let queues = status.queues.as_ref()?;
    let lanes = queues.iter().filter(|(name, _)| name != crate::domain::names::DEAD_LETTER_QUEUE);
    let sum: u64 = lanes.map(|(_, depth)| depth.ready + depth.unacked.unwrap_or(0)).sum();
    i64::try_from(sum).ok()
}

fn why(server: &ServerStatus) -> &str {
    server.why.as_deref().unwrap_or("has a trouble without a name")
}

/// `1 event waits`, `3 events wait`.
fn wait(count: i64, noun: &str) -> String {
    if count == 1 { format!("1 {noun} waits") } else { format!("{count} {noun}s wait") }
}

/// The time of a day, with the day where it is not today's.
fn clock(then: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let form = if then.date_naive() == now.date_naive() { "%H:%M UTC" } else { "%Y-%m-%d %H:%M UTC" };
    then.format(form).to_string()
}
