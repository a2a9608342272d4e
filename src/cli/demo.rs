//! placeholder while the rest is being compiled
use crate::platform::config::Config;
use std::process::ExitCode;
#[derive(clap::Args)]
pub struct Demo {}
impl Demo {
    pub async fn run(self, _config: &Config) -> anyhow::Result<ExitCode> {
        Ok(ExitCode::SUCCESS)
    }
}
