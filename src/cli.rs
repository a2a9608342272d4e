//! The command line: one short file per command family. Text for people, `--json` for scripts on every reading command.

mod batch;
mod books;
mod checkpoint;
mod dlq;
mod export;
mod feed;
mod held;
mod journal;
mod preview;
mod publish;
mod receipt;
mod revert;
mod run;
mod status;
mod tie_out;
mod topology;
mod trial_balance;
mod verify;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use chrono::NaiveDate;
use clap::{Parser, Subcommand};
use sqlx::PgConnection;

use crate::domain::books::Books;
use crate::domain::ids::TenantId;
use crate::journal::books::in_force;
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
    /// What became of one event
    Receipt(receipt::Receipt),
    /// List held events, or call them back early
    #[command(subcommand)]
    Held(held::HeldCommand),
    /// How far a publisher's batch is
    #[command(subcommand)]
    Batch(batch::BatchCommand),
    /// Look at dead letters, replay, mend or discard them
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    /// Entries with their lines, newest last
    Journal(journal::Journal),
    /// Debit, credit and balance of every account
    TrialBalance(trial_balance::Trial),
    /// Whether everything that was received on a day is posted, held, parked or otherwise accounted for
    TieOut(tie_out::Tie),
    /// The journal as a file for a spreadsheet, beancount or hledger
    Export(export::Export),
    /// Watch, prove or send again what fis has announced
    #[command(subcommand)]
    Feed(feed::FeedCommand),
    /// Recompute every hash and every balance of the ledger
    Verify(verify::Verify),
    /// The end of every chain, signed, to be kept elsewhere
    Checkpoint(checkpoint::CheckpointCommand),
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
            Command::Receipt(receipt) => receipt.run(&config).await,
            Command::Held(command) => command.run(&config).await,
            Command::Batch(command) => command.run(&config).await,
            Command::Dlq(command) => command.run(&config).await,
            Command::Journal(journal) => journal.run(&config).await,
            Command::TrialBalance(trial) => trial.run(&config).await,
            Command::TieOut(tie) => tie.run(&config).await,
            Command::Export(export) => export.run(&config).await,
            Command::Feed(command) => command.run(&config).await,
            Command::Verify(verify) => verify.run(&config).await,
            Command::Checkpoint(checkpoint) => checkpoint.run(&config).await,
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

/// A tenant's name as an argument.
fn tenant(text: &str) -> Result<TenantId, String> {
    TenantId::parse(text).map_err(|error| error.to_string())
}

/// A date in its one spelling, as in the books.
fn day(text: &str) -> Result<NaiveDate, String> {
    let date = text.parse::<NaiveDate>().ok().filter(|date| date.to_string() == text);
    date.ok_or_else(|| "a date is written 2026-02-25".to_owned())
}

/// The books in force of a tenant that must exist.
async fn books_of(db: &mut PgConnection, tenant: &TenantId) -> anyhow::Result<Books> {
    in_force(db, tenant).await?.ok_or_else(|| anyhow::anyhow!("there is no tenant `{tenant}`"))
}

/// Writes a long text. A reader that has seen enough (`| head`) is no failure.
fn print_text(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Characters of one value that a list shows.
const SHOWN_MAX: usize = 120;

/// What came from outside never drives the terminal: control characters and direction overrides are shown as codes.
fn printable(text: &str) -> String {
    printable_within(text, SHOWN_MAX)
}

/// The same with a limit of its own.
fn printable_within(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len());
    for (place, c) in text.chars().enumerate() {
        if place == most {
            shown.push('…');
            break;
        }
        match c {
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(c.escape_unicode());
            }
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
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

fn plural(count: i64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Who is at the keyboard, for what is recorded.
fn operator() -> String {
    std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_from_outside_never_drives_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\nc\u{202e}d"), "a\\u{1b}[31mb\\nc\\u{202e}d");
    }

    #[test]
    fn what_is_cut_short_shows_that_it_is() {
        assert_eq!(printable(&"x".repeat(SHOWN_MAX)).chars().count(), SHOWN_MAX);
        assert!(printable(&"x".repeat(SHOWN_MAX + 1)).ends_with("x…"));
    }

    #[test]
    fn a_date_has_one_spelling() {
        assert!(day("2026-02-25").is_ok());
        for text in ["2026-2-25", " 2026-02-25", "2026-02-30", "25.02.2026", ""] {
            assert!(day(text).is_err(), "{text}");
        }
    }
}
