//! `fis status`: the screen. The desk asks and judges; here it is laid out, within 80 columns.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::dlq::money_text;
use super::text::{age_text, coloured, columns, hanging, plural};
use crate::desk::status::{self, InstanceStatus, ServerState, ServerStatus};
use crate::platform::config::Config;

/// The interval at which `--watch` looks again.
const WATCH: Duration = Duration::from_secs(2);
/// The screen is never wider.
const WIDTH_MAX: usize = 80;
/// The column at which the facts begin.
const INDENT: usize = 14;

#[derive(clap::Args)]
pub struct Status {
    /// Look again every two seconds
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    #[arg(long)]
    json: bool,
}

impl Status {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        loop {
            let status = Box::pin(status::status(config)).await?;
            let code = if status.degraded { ExitCode::FAILURE } else { ExitCode::SUCCESS };
            if self.json {
                super::print_json(&status)?;
                return Ok(code);
            }
            let text = screen(&status);
            if !(self.watch && std::io::stdout().is_terminal()) {
                super::print_text(&text)?;
                return Ok(code);
            }
            // Home, the text with the rest of each line cleared, then the rest of the screen: nothing flickers.
            print!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n"));
            std::io::stdout().flush()?;
            tokio::time::sleep(WATCH).await;
        }
    }
}

/// The whole screen: the verdict first, what to do last.
fn screen(status: &status::Status) -> String {
    let width = columns().min(WIDTH_MAX);
    let mut lines = vec![coloured(&broken(&status.verdict, 0, width), !status.degraded), String::new()];
    lines.extend(status.servers.iter().map(|server| server_line(server, width)));
    lines.push(String::new());
    lines.extend(instance_lines(status));
    lines.extend(queue_lines(status));
    lines.extend(table_lines(status, width));
    lines.push(fact("breaker", status.breaker.as_str()));
    lines.push(String::new());
    lines.extend(status.advice.lines().map(|line| broken(line, 0, width)));
    lines.join("\n") + "\n"
}

fn fact(name: &str, text: &str) -> String {
    format!("{name:<INDENT$}{text}")
}

/// A text within the width; a command in backticks stays in one piece, so that it can be copied.
fn broken(text: &str, indent: usize, width: usize) -> String {
    let mut is_command = false;
    let glued = |c: char| {
        is_command ^= c == '`';
        if is_command && c == ' ' { '\u{a0}' } else { c }
    };
    hanging(&text.chars().map(glued).collect::<String>(), indent, width).replace('\u{a0}', " ")
}

/// A fact that may need more than one line.
fn wrapped(name: &str, text: &str, width: usize) -> String {
    fact(name, &broken(text, INDENT, width))
}

fn server_line(server: &ServerStatus, width: usize) -> String {
    let state = match server.state {
        ServerState::Ok => "answers".to_owned(),
        ServerState::Silent | ServerState::Refuses | ServerState::NotSetUp => {
            let why = server.why.clone().unwrap_or_default();
            match server.since {
                Some(since) => format!("{why}, since {}", since.format("%Y-%m-%d %H:%M:%S UTC")),
                None => why,
            }
        }
    };
    wrapped(server.name, &format!("{}  {state}", server.address), width)
}

fn instance_lines(status: &status::Status) -> Vec<String> {
    let Some(instances) = &status.instances else { return vec![fact("instances", "unknown without PostgreSQL")] };
    if instances.is_empty() {
        return vec![fact("instances", "none")];
    }
    let names = std::iter::once("instances").chain(std::iter::repeat(""));
    names.zip(instances).map(|(name, instance)| fact(name, &instance_text(instance))).collect()
}

fn instance_text(instance: &InstanceStatus) -> String {
    let InstanceStatus { host, pid, version, silent_seconds, .. } = instance;
    let host: String = host.chars().take(30).collect();
    let does = match (instance.alive, instance.ready, instance.relays) {
        (false, ..) => return format!("{host} ({pid})  {version}  silent for {}", age_text(*silent_seconds)),
        (true, false, _) => "not ready",
        (true, true, true) => "relays",
        (true, true, false) => "stands by",
    };
    format!("{host} ({pid})  {version}  {does}  seen {} ago", age_text(*silent_seconds))
}

fn queue_lines(status: &status::Status) -> Vec<String> {
    let Some(queues) = &status.queues else { return vec![fact("queues", "unknown without RabbitMQ")] };
    let longest = queues.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(1);
    let mut lines = vec![fact("queues", &format!("{:longest$}  {:>9}  {:>9}", "", "ready", "unacked"))];
    for (name, depth) in queues {
        let unacked = depth.unacked.map_or_else(|| "?".to_owned(), |unacked| unacked.to_string());
        lines.push(fact("", &format!("{name:longest$}  {:>9}  {unacked:>9}", depth.ready)));
    }
    lines
}

fn table_lines(status: &status::Status, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(entries) = status.entries {
        lines.push(fact("entries", &entries.to_string()));
    }
    if let (Some(inbox), Some(held)) = (status.inbox, status.held) {
        let replays = match inbox.replays {
            0 => "no replay runs".to_owned(),
            1 => format!("1 replay runs, {} to go", plural(inbox.replay_letters, "letter")),
            many => format!("{many} replays run, {} to go", plural(inbox.replay_letters, "letter")),
        };
        lines.push(fact("inbox", &replays));
        lines.push(fact("held", &format!("{}, {} due", plural(held, "event"), inbox.held_due)));
    }
    if let Some(outbox) = status.outbox {
        let oldest = match outbox.pending {
            0 => String::new(),
            _ => format!(", oldest {}", age_text(outbox.oldest_seconds)),
        };
        lines.push(fact("outbox", &format!("{} pending{oldest}", outbox.pending)));
    }
    if let Some(letters) = &status.dead_letters {
        let oldest = letters.oldest_seconds.map(|oldest| format!(", oldest {}", age_text(oldest)));
        lines.push(fact("dead letters", &format!("{} open{}", letters.open, oldest.unwrap_or_default())));
        lines.extend(letters.by_reason.iter().map(|(reason, count)| fact("", &format!("{count:>9} {reason}"))));
        if letters.open > 0 {
            lines.push(wrapped("", &format!("together {}", money_text(&letters.money)), width));
        }
    }
    if let Some(tenants) = status.tenants {
        let text = match tenants {
            0 => "none applied: every event is rejected as `unknown_tenant`".to_owned(),
            some => format!("of {}", plural(some, "tenant")),
        };
        lines.push(fact("books", &text));
    }
    lines
}
