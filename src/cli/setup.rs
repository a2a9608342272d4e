//! `fis setup`: an empty database and an empty virtual host made ready, and what is still missing.

use std::process::ExitCode;

use super::NOT_CONFIRMED;
use super::text::confirmed;
use crate::desk::setup::{self, SetupTargets};
use crate::desk::topology::{Applied, Outcome};
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Setup {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Setup {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let SetupTargets { postgres, broker, vhost } = setup::targets(config)?;
        println!("tables in {postgres}");
        println!("exchanges and queues in {vhost} of {broker}");
        let nobody = "nobody is at the terminal to confirm it: give --yes";
        if !self.yes && !confirmed("Make what is missing?", nobody, "nothing was done")? {
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
        let done = setup::setup(config).await;
        let mut is_whole = true;
        match &done.migration {
            Ok(migration) if migration.before == migration.after => {
                println!("database  is at version {} already", migration.after);
            }
            Ok(migration) => println!("database  migrated from version {} to {}", migration.before, migration.after),
            Err(error) => {
                is_whole = false;
                println!("database  FAILED: {error}");
                println!(
                    "          the role that owns the tables (ops/roles.sql: fis_owner) may migrate, others may not"
                );
            }
        }
        match &done.topology {
            Ok(applied) => is_whole &= told(applied),
            Err(error) => {
                is_whole = false;
                println!("broker    FAILED: {error}");
            }
        }
        match done.tenants {
            Some(0) => println!("books     none are applied yet: fis books apply FILE"),
            Some(tenants) => println!("books     of {}", super::plural(tenants, "tenant")),
            None => println!("books     unknown"),
        }
        println!(
            "{}",
            if is_whole { "Start the service with `fis run`." } else { "Mend what failed and run it again." }
        );
        Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Counts what was made; true where nothing differs.
fn told(applied: &[Applied]) -> bool {
    let count = |wanted: fn(&Outcome) -> bool| applied.iter().filter(|one| wanted(&one.outcome)).count();
    let made = count(|outcome| matches!(outcome, Outcome::Created));
    let present = count(|outcome| matches!(outcome, Outcome::Present));
    let differs: Vec<&str> = applied
        .iter()
        .filter(|one| matches!(one.outcome, Outcome::Differs { .. } | Outcome::Kept))
        .map(|one| one.object.as_str())
        .collect();
    println!("broker    {made} exchanges and queues made, {present} were there already");
    for object in &differs {
        println!("broker    FAILED: {object} differs; `fis topology check` tells how to mend it");
    }
    differs.is_empty()
}
