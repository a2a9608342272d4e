//! `fis checkpoint`: the end of every chain, signed, to be kept where the database's administrators cannot reach it.

use std::process::ExitCode;

use crate::desk::Desk;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct CheckpointCommand {}

impl CheckpointCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let checkpoint = Desk::open(config).await?.checkpoint().await?;
        // In the order of the signed text: tenant, sequence, hash.
        println!("{}", serde_json::to_string_pretty(&checkpoint)?);
        Ok(ExitCode::SUCCESS)
    }
}
