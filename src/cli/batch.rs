//! `fis batch show`: how far a publisher's batch is, as PostgreSQL has counted it.

use std::process::ExitCode;

use serde_json::json;

use super::printable;
use crate::domain::ids::{EventId, TenantId};
use crate::platform::config::Config;
use crate::store::batches::find_batch;

#[derive(clap::Subcommand)]
pub enum BatchCommand {
    /// Members posted, rejected and ignored so far
    Show {
        #[arg(long, value_parser = super::tenant)]
        tenant: TenantId,
        /// The batch's id
        #[arg(value_parser = super::held::event)]
        id: EventId,
        #[arg(long)]
        json: bool,
    },
}

impl BatchCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let Self::Show { tenant, id, json } = self;
        let postgres = super::database(config).await?;
        let Some(batch) = find_batch(&mut *postgres.pool.acquire().await?, &tenant, &id).await? else {
            anyhow::bail!("no member of batch `{}` of {tenant} has come", printable(id.as_str()));
        };
        let progress = &batch.progress;
        let status = if progress.completed { "COMPLETED" } else { "RUNNING" };
        if json {
            super::print_json(&json!({
                "tenantId": tenant.as_str(),
                "batchId": id.as_str(),
                "status": status,
                "total": progress.total(),
                "done": progress.done(),
                "posted": progress.posted,
                "rejected": progress.rejected,
                "ignored": progress.ignored,
                "firstSeenAt": batch.first_seen_at,
                "updatedAt": batch.updated_at,
                "completedAt": batch.completed_at,
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let total = progress.total().map_or("an unknown number".to_owned(), |total| total.to_string());
        println!("batch {} of {tenant}: {status}, {} of {total} done", printable(id.as_str()), progress.done());
        println!("posted    {}", progress.posted);
        println!("rejected  {}", progress.rejected);
        println!("ignored   {}", progress.ignored);
        Ok(ExitCode::SUCCESS)
    }
}
