//! The command line: one short file per command family. It parses and prints; the desk does and answers. Text for people, `--json`
//! for scripts on every reading command.

mod batch;
mod books;
mod checkpoint;
mod config;
mod dlq;
mod exit;
mod export;
mod feed;
mod held;
mod journal;
mod lines;
mod manual;
mod preview;
mod publish;
mod receipt;
mod revert;
mod run;
mod setup;
mod status;
mod tenants;
mod text;
mod tie_out;
mod topology;
mod trial_balance;
mod values;
mod verify;
mod who;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{FromArgMatches, Parser, Subcommand};

use crate::desk::migration;
use crate::platform::config::{Config, strangers};
use crate::platform::telemetry;
use crate::service::ServiceError;
use exit::WrongUsage;
use tenants::TenantArg;
use text::{json_text, plural, print_json, print_text, printable, printable_within, table};
use values::{day, event, parse_tenant, tenant};
use who::Who;

pub use exit::failure;

/// The exit code where somebody has to confirm, and nobody is there: wrong usage.
const NOT_CONFIRMED: u8 = exit::WRONG_USAGE;

/// The file that is read where none is named.
const USUAL_FILE: &str = "fis.toml";

/// Takes domain events off RabbitMQ, books them as double-entry journal entries, and announces what it booked.
#[derive(Parser)]
#[command(name = "fis", version, about)]
pub struct Cli {
    /// Configuration file [default: $FIS_CONFIG, else fis.toml if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Take events, post them and announce the entries
    Run(run::Run),
    /// Prepare the database and the broker, and say what is missing
    Setup(setup::Setup),
    /// Show the settings, or check them
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Bring the database to this program's version
    Migrate,
    /// Declare, compare or draw the broker's topology
    #[command(subcommand)]
    Topology(topology::TopologyCommand),
    /// Check, apply or show a tenant's books
    #[command(subcommand)]
    Books(books::BooksCommand),
    /// Show what would become of an event; nothing is booked
    Preview(preview::Preview),
    /// Reverse an entry by hand
    Revert(revert::Revert),
    /// Publish newline-delimited JSON events, persistent and confirmed
    Publish(publish::Publish),
    /// Show whether all is well, what waits, and what to do
    Status(status::Status),
    /// List the tenants and the state of each ledger
    Tenants(tenants::Tenants),
    /// Show what became of one event
    Receipt(receipt::Receipt),
    /// List held events, or call them back early
    #[command(subcommand)]
    Held(held::HeldCommand),
    /// Show how far a publisher's batch is, or close it
    #[command(subcommand)]
    Batch(batch::BatchCommand),
    /// Look at dead letters, replay, mend or discard them
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    /// List entries with their lines, newest last
    Journal(journal::Journal),
    /// Show debit, credit and balance of every account
    TrialBalance(trial_balance::Trial),
    /// Check that all events of a day are accounted for
    TieOut(tie_out::Tie),
    /// Write the journal for a spreadsheet, beancount or hledger
    Export(export::Export),
    /// Watch, prove or send again what fis has announced
    #[command(subcommand)]
    Feed(feed::FeedCommand),
    /// Recompute every hash and every balance of the ledger
    Verify(verify::Verify),
    /// Print the end of every chain, signed, to be kept elsewhere
    Checkpoint(checkpoint::CheckpointCommand),
    /// Print the completions of a shell
    Completions(manual::Completions),
    /// Write the man pages
    Man(manual::Man),
}

impl Cli {
    /// Reads the command line; a wrong one, or a question for help, is answered at once.
    #[must_use]
    pub fn read() -> Self {
        let read = manual::command().try_get_matches().and_then(|mut matches| Self::from_arg_matches_mut(&mut matches));
        read.unwrap_or_else(|error| exit::wrong_line(&error))
    }

    /// # Errors
    /// The command failed; the error says why, and what to do.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match &self.command {
            Command::Completions(completions) => return completions.run(),
            Command::Man(man) => return man.run(),
            _ => {}
        }
        let config = self.config()?;
        let strangers = strangers(environment().map(|(name, _)| name));
        if matches!(self.command, Command::Run(_)) {
            telemetry::start(&config.log).map_err(|reason| ServiceError::Setting { name: "log.filter", reason })?;
            strangers.iter().for_each(|warning| tracing::warn!("{warning}"));
        } else {
            strangers.iter().for_each(|warning| eprintln!("fis: {warning}"));
        }
        match self.command {
            Command::Run(run) => run.run(config).await,
            Command::Setup(setup) => setup.run(&config).await,
            Command::Config(command) => command.run(&config),
            Command::Migrate => migrate(&config).await,
            Command::Topology(command) => command.run(&config).await,
            Command::Books(command) => command.run(&config).await,
            Command::Preview(preview) => preview.run(&config).await,
            Command::Revert(revert) => revert.run(&config).await,
            Command::Publish(publish) => publish.run(&config).await,
            Command::Status(status) => status.run(&config).await,
            Command::Tenants(tenants) => tenants.run(&config).await,
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
            Command::Completions(_) | Command::Man(_) => Ok(ExitCode::SUCCESS),
        }
    }

    fn config(&self) -> anyhow::Result<Config> {
        let named = self.config.clone().or_else(|| std::env::var_os("FIS_CONFIG").map(PathBuf::from));
        let usual = || Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists());
        let file = named.or_else(usual);
        Config::load(file.as_deref(), environment()).context("the configuration is wrong")
    }
}

fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

async fn migrate(config: &Config) -> anyhow::Result<ExitCode> {
    let migration::Migration { before, after } = migration::migrate(config).await?;
    if before == after {
        println!("the database is at version {after} already");
    } else {
        println!("migrated the database from version {before} to {after}");
    }
    Ok(ExitCode::SUCCESS)
}
