//! `fis verify`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::domain::ids::TenantId;
use crate::journal::audit;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Verify {
    /// Only this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// From this sequence on: what lies before it is believed, balances are not compared
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    from: Option<i64>,
    /// Hold the ledger to a checkpoint that was signed before: a rewritten or cut chain is found even if it is right in itself
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = super::database(config).await?;
        let tenant = self
            .tenant
            .as_deref()
            .map(TenantId::parse)
            .transpose()
            .map_err(|error| anyhow::anyhow!("the tenant {error}"))?;
        let scope = audit::Scope { tenant, from: self.from };
        let progress = indicatif::ProgressBar::new_spinner().with_message("entries");
        let audits = audit::verify(&postgres.pool, &scope, |checked| progress.set_position(checked)).await?;
        progress.finish_and_clear();
        anyhow::ensure!(scope.tenant.is_none() || !audits.is_empty(), "there is no such tenant");
        let broken_promises = match &self.checkpoint {
            Some(file) => super::checkpoint::hold_to(config, &postgres, file).await?,
            None => Vec::new(),
        };
        let broken = audits.iter().filter(|audit| audit.fault.is_some()).count();
        if self.json {
            super::print_json(
                &serde_json::json!({ "tenants": audits, "broken": broken, "checkpoint": broken_promises }),
            )?;
        } else {
            let mut table = super::table(&["tenant", "entries", "head", "verdict"]);
            for audit in &audits {
                let verdict = audit.fault.clone().unwrap_or_else(|| "verified".to_owned());
                table.add_row([
                    audit.tenant_id.clone(),
                    audit.entries.to_string(),
                    audit.head.chars().take(16).collect(),
                    verdict,
                ]);
            }
            println!("{table}");
            for fault in &broken_promises {
                println!("{fault}");
            }
            if self.checkpoint.is_some() && broken_promises.is_empty() {
                println!("the ledger keeps what the checkpoint says");
            }
        }
        Ok(if broken == 0 && broken_promises.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
