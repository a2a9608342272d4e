//! `fis revert`.

use std::process::ExitCode;

use anyhow::Context;

use super::{acting, parse_tenant};
use crate::desk::reversal::RevertEntry;
use crate::desk::{Desk, DeskError};
use crate::domain::operator::{OperatorError, WHY_BYTES_MAX};
use crate::platform::config::Config;

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
        let tenant = parse_tenant(&self.tenant)?;
        let seq = self.entry.strip_prefix(&format!("{tenant}/")).unwrap_or(&self.entry);
        let seq: i64 =
            seq.parse().with_context(|| format!("`{}` is no entry of {tenant}, such as {tenant}/1042", self.entry))?;
        let operator = acting(None, &self.why).map_err(|error| match error {
            OperatorError::LongReason => anyhow::anyhow!("--why is one line of at most {WHY_BYTES_MAX} bytes"),
            OperatorError::Nobody | OperatorError::LongName => error.into(),
        })?;
        let request = RevertEntry::new(operator, tenant, seq).map_err(|error| match error {
            DeskError::Member { member, why } => anyhow::anyhow!("--{member} {why}"),
            error => error.into(),
        })?;
        let reversal = Desk::open(config).await?.revert(&request).await?;
        if self.json {
            super::print_json(&reversal)?;
        } else {
            println!("reversed {} by {} (hash {})", reversal.reverses, reversal.entry_id, reversal.hash);
        }
        Ok(ExitCode::SUCCESS)
    }
}
