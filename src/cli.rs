//! The command line: one short file per command family. Text for people, `--json` for scripts on every reading command.

mod bench;
mod books;
mod demo;
mod dlq;
mod preview;
mod publish;
mod revert;
mod run;
mod status;
mod topology;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::platform::config::Config;
use crate::platform::postgres::Postgres;
use crate::platform::telemetry;

/// The file that is read where none is named.
const USUAL_FILE: &str = "fis.toml";

/// Takes domain events off RabbitMQ, books them as double-entry journal entries, and announces what it booked.
#[derive(Parser)]
#[command(name = "fis", version, about, max_term_width = 100)]
pub struct Cli {
    /// Configuration file [default: $FIS_CONFIG, else fis.toml where there is one]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Take events, post them, relay what was posted
    Run(run::Run),
    /// Bring the database to this program's version
    Migrate,
    /// Declare, compare or draw the broker's topology
    #[command(subcommand)]
    Topology(topology::TopologyCommand),
    /// Check, apply or show a tenant's books
    #[command(subcommand)]
    Books(books::BooksCommand),
    /// What would become of an event, without booking anything
    Preview(preview::Preview),
    /// Reverse an entry by hand
    Revert(revert::Revert),
    /// Publish newline-delimited JSON events, persistent and confirmed
    Publish(publish::Publish),
    /// What is queued, held, dead-lettered and still to be relayed
    Status(status::Status),
    /// Look at dead letters
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    /// Recompute every hash and every balance of the ledger
    Verify(verify::Verify),
    /// How fast a backlog becomes a ledger, beside the limit of the same machine
    Bench(bench::Bench),
    /// Ten thousand sample events through the whole service
    Demo(demo::Demo),
}

impl Cli {
    /// # Errors
    /// The command failed; the error says why, and what to do.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let config = self.config()?;
        let command_name_is_run = matches!(self.command, Command::Run(_));
        if command_name_is_run {
            telemetry::start(&config.log).map_err(anyhow::Error::msg)?;
        }
        match self.command {
            Command::Run(run) => run.run(config).await,
            Command::Migrate => migrate(&config).await,
            Command::Topology(command) => command.run(&config).await,
            Command::Books(command) => command.run(&config).await,
            Command::Preview(preview) => preview.run(&config).await,
            Command::Revert(revert) => revert.run(&config).await,
            Command::Publish(publish) => publish.run(&config).await,
            Command::Status(status) => status.run(&config).await,
            Command::Dlq(command) => command.run(&config).await,
            Command::Verify(verify) => verify.run(&config).await,
            Command::Bench(bench) => bench.run(&config).await,
            Command::Demo(demo) => demo.run(&config).await,
        }
    }

    fn config(&self) -> anyhow::Result<Config> {
        let named = self.config.clone().or_else(|| std::env::var_os("FIS_CONFIG").map(PathBuf::from));
        let usual = || Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists());
        let file = named.or_else(usual);
        let environment =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Config::load(file.as_deref(), environment).context("the configuration is wrong")
    }
}

async fn migrate(config: &Config) -> anyhow::Result<ExitCode> {
    let postgres = Postgres::new(&config.database)?;
    let (before, after) = postgres.migrate().await?;
    if before == after {
        println!("the database is at version {after} already");
    } else {
        println!("migrated the database from version {before} to {after}");
    }
    Ok(ExitCode::SUCCESS)
}

/// A database for a command that reads; refuses one of another version.
async fn database(config: &Config) -> anyhow::Result<Postgres> {
    let postgres = Postgres::new(&config.database)?;
    postgres.check_version().await?;
    Ok(postgres)
}

fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED).set_header(header);
    table
}

fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Who is at the keyboard, for what is recorded.
fn operator() -> String {
    std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned())
}

/// What came from outside never drives the terminal: control characters and direction overrides are shown as codes.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars().take(120) {
        match c {
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(c.escape_unicode());
            }
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_from_outside_never_drives_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\nc\u{202e}d"), "a\\u{1b}[31mb\\nc\\u{202e}d");
    }
}
