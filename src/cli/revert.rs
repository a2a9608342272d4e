//! `fis revert`.

use std::process::ExitCode;

use anyhow::Context;

use crate::domain::ids::TenantId;
use crate::journal::revert;
use crate::platform::config::Config;

/// A reason is a sentence, not a file; it becomes part of the entry's description.
const WHY_BYTES_MAX: usize = 500;

#[derive(clap::Args)]
pub struct Revert {
    #[arg(long)]
    tenant: String,
    /// The entry: `acme/1042`, or its sequence, `1042`
    entry: String,
    /// The reason; it stands in the reversal's description
    #[arg(long)]
    why: String,
    #[arg(long)]
    json: bool,
}

impl Revert {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let tenant = TenantId::parse(&self.tenant).map_err(|error| anyhow::anyhow!("the tenant {error}"))?;
        let seq = self.entry.strip_prefix(&format!("{tenant}/")).unwrap_or(&self.entry);
        let seq: i64 =
            seq.parse().with_context(|| format!("`{}` is no entry of {tenant}, such as {tenant}/1042", self.entry))?;
        let why = self.why.trim();
        anyhow::ensure!(!why.is_empty(), "--why must say something");
        anyhow::ensure!(
            why.len() <= WHY_BYTES_MAX && !why.contains(char::is_control),
            "--why is one line of at most {WHY_BYTES_MAX} bytes"
        );
        let postgres = super::database(config).await?;
        let receipt = revert(&postgres.pool, &tenant, seq, &super::operator(), why).await?;
        if self.json {
            super::print_json(
                &serde_json::json!({ "entryId": receipt.entry_id, "sequence": receipt.seq, "hash": receipt.hash, "reverses": format!("{tenant}/{seq}") }),
            )?;
        } else {
            println!("reversed {tenant}/{seq} by {} (hash {})", receipt.entry_id, receipt.hash);
        }
        Ok(ExitCode::SUCCESS)
    }
}
