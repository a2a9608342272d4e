//! `fis config show|check`: every setting with its value and its origin, secrets masked; and whether all of them can be used.

use std::process::ExitCode;

use super::text::{columns, hanging};
use crate::desk::setup;
use crate::platform::config::{Config, Listed};
use crate::service;

#[derive(clap::Subcommand)]
pub enum ConfigCommand {
    /// List every setting with its value and its source; passwords are masked
    Show {
        #[arg(long)]
        json: bool,
    },
    /// Check that every setting can be used; needs no server
    Check,
}

impl ConfigCommand {
    pub fn run(&self, config: &Config) -> anyhow::Result<ExitCode> {
        match self {
            Self::Show { json: true } => super::print_json(&config.listing())?,
            Self::Show { json: false } => {
                for Listed { name, value, origin } in config.listing() {
                    println!("{}", hanging(&format!("{name} = {value}  ({origin})"), 4, columns()));
                }
            }
            Self::Check => {
                service::check_settings(config)?;
                setup::targets(config)?;
                println!("the settings can be used; {}", config.sources);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
