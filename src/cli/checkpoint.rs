//! `fis checkpoint`: the end of every chain, signed, to be kept where the database's administrators cannot reach it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::domain::checkpoint::{Checkpoint, signed_text};
use crate::platform::config::Config;
use crate::platform::postgres::Postgres;
use crate::platform::signing::Signer;
use crate::platform::time;
use crate::store::audit::hash_at;
use crate::store::heads;

#[derive(clap::Args)]
pub struct CheckpointCommand {}

impl CheckpointCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let signer = Signer::new(&config.audit.signing_key)?;
        let postgres = super::database(config).await?;
        let heads = heads::all(&postgres.pool).await?;
        let at = time::now();
        let signature = signer.sign(&signed_text(at, &heads));
        super::print_json(&Checkpoint { at, heads, public_key: signer.public_key(), signature })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Holds the ledger to a checkpoint: what it says must still be so. Returns what is not.
pub async fn hold_to(config: &Config, postgres: &Postgres, file: &Path) -> anyhow::Result<Vec<String>> {
    let signer = Signer::new(&config.audit.signing_key)?;
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let checkpoint: Checkpoint =
        serde_json::from_str(&text).with_context(|| format!("{} is no checkpoint", file.display()))?;
    anyhow::ensure!(
        signer.made(&signed_text(checkpoint.at, &checkpoint.heads), &checkpoint.signature),
        "{} is not signed with the configured key, or was altered",
        file.display()
    );
    let mut faults = Vec::new();
    for head in &checkpoint.heads {
        let hash = hash_at(&postgres.pool, &head.tenant_id, head.sequence).await?;
        if hash.as_deref() != Some(&head.hash) {
            let found = if hash.is_some() { "has another hash" } else { "is gone" };
            faults.push(format!(
                "{}: sequence {}, signed on {}, {found}",
                head.tenant_id,
                head.sequence,
                checkpoint.at.format("%Y-%m-%d %H:%M:%S UTC")
            ));
        }
    }
    Ok(faults)
}
