//! `fis verify`.

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
        let broken = audits.iter().filter(|audit| audit.fault.is_some()).count();
        if self.json {
            super::print_json(&serde_json::json!({ "tenants": audits, "broken": broken }))?;
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
        }
        Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
