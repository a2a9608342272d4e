//! `fis batch show`: how far a publisher's batch is, as PostgreSQL has counted it. `fis batch close`: it will never be complete by itself.

use std::process::ExitCode;

use super::text;
use super::{TenantArg, Who, WrongUsage, printable};
use crate::desk::batches::{BatchReport, CloseBatch};
use crate::desk::{Desk, DeskError};
use crate::domain::ids::EventId;
use crate::platform::config::Config;

#[derive(clap::Subcommand)]
pub enum BatchCommand {
    /// Show how many members are posted, rejected and ignored so far
    Show {
        #[command(flatten)]
        tenant: TenantArg,
        /// The batch's id
        #[arg(value_parser = super::event)]
        id: EventId,
        #[arg(long)]
        json: bool,
    },
    /// Announce a batch that never completes by itself, with the members that are posted, rejected or ignored
    Close {
        #[command(flatten)]
        tenant: TenantArg,
        /// The batch's id
        #[arg(value_parser = super::event)]
        id: EventId,
        /// Why, for the record
        #[arg(long)]
        why: String,
        #[command(flatten)]
        who: Who,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[arg(long)]
        json: bool,
    },
}

impl BatchCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let desk = Desk::open(config).await?;
        let (batch, json) = match self {
            Self::Show { tenant, id, json } => (desk.batch(&tenant.one(&desk).await?, &id).await, json),
            Self::Close { tenant, id, why, who, yes, json } => {
                let (operator, tenant) = (who.acting(&why)?, tenant.one(&desk).await?);
                let before = desk.batch(&tenant, &id).await;
                if let Ok(before) = &before
                    && !yes
                    && !confirmed(before)?
                {
                    return Ok(ExitCode::from(2));
                }
                let closed = match before {
                    Ok(_) => desk.close_batch(&CloseBatch { tenant, id, confirmed: true, operator }).await,
                    missing => missing,
                };
                (closed, json)
            }
        };
        let batch = match batch {
            Err(DeskError::Member { member, why }) => return Err(WrongUsage(format!("--{member} {why}")).into()),
            Err(DeskError::NotFound { name, .. }) => {
                anyhow::bail!("no member of batch `{}` has come", printable(&name))
            }
            batch => batch?,
        };
        if json {
            super::print_json(&batch)?;
            return Ok(ExitCode::SUCCESS);
        }
        println!("{}", progress(&batch));
        println!("posted    {}", batch.posted);
        println!("rejected  {}", batch.rejected);
        println!("ignored   {}", batch.ignored);
        Ok(ExitCode::SUCCESS)
    }
}

fn progress(batch: &BatchReport) -> String {
    let total = batch.total.map_or("an unknown number".to_owned(), |total| total.to_string());
    let (shown, tenant, status) = (printable(&batch.batch_id), &batch.tenant_id, batch.status.as_str());
    format!("batch {shown} of {tenant}: {status}, {} of {total} done", batch.done)
}

fn confirmed(batch: &BatchReport) -> anyhow::Result<bool> {
    eprintln!("{}", progress(batch));
    text::confirmed(
        "Tell its publisher that this is all of it?",
        "nothing was closed: nobody sits at a terminal to confirm; --yes closes it",
        "nothing was closed",
    )
}
