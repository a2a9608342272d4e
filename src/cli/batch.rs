//! `fis batch show`: how far a publisher's batch is, as PostgreSQL has counted it.

use std::process::ExitCode;

use super::printable;
use crate::desk::{Desk, DeskError};
use crate::domain::ids::{EventId, TenantId};
use crate::platform::config::Config;

#[derive(clap::Subcommand)]
pub enum BatchCommand {
    /// Members posted, rejected and ignored so far
    Show {
        #[arg(long, value_parser = super::tenant)]
        tenant: TenantId,
        /// The batch's id
        #[arg(value_parser = super::event)]
        id: EventId,
        #[arg(long)]
        json: bool,
    },
}

impl BatchCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let Self::Show { tenant, id, json } = self;
        let shown = printable(id.as_str());
        let batch = match Desk::open(config).await?.batch(&tenant, &id).await {
            Err(DeskError::NotFound { .. }) => anyhow::bail!("no member of batch `{shown}` of {tenant} has come"),
            batch => batch?,
        };
        if json {
            super::print_json(&batch)?;
            return Ok(ExitCode::SUCCESS);
        }
        let total = batch.total.map_or("an unknown number".to_owned(), |total| total.to_string());
        println!("batch {shown} of {tenant}: {}, {} of {total} done", batch.status.as_str(), batch.done);
        println!("posted    {}", batch.posted);
        println!("rejected  {}", batch.rejected);
        println!("ignored   {}", batch.ignored);
        Ok(ExitCode::SUCCESS)
    }
}
