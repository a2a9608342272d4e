//! `fis verify`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use super::text::{coloured, grouped, numbers};
use super::{TenantArg, plural, printable};
use crate::desk::Desk;
use crate::desk::checkpoint::NamedCheckpoint;
use crate::desk::verify::{LedgerAudit, LogAudit};
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Verify {
    #[command(flatten)]
    tenant: TenantArg,
    /// Start at this sequence; earlier entries are trusted, balances are not checked
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    from: Option<i64>,
    /// Compare the ledger with a signed checkpoint; this finds a rewritten or cut chain even if it is consistent in itself
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// The public key of the checkpoint's signer [default: that of the configured key]
    #[arg(long, value_name = "HEX", requires = "checkpoint")]
    public_key: Option<String>,
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let desk = Desk::open(config).await?;
        let request = LedgerAudit {
            tenant: self.tenant.only(&desk).await?,
            from: self.from,
            checkpoint: self.checkpoint.as_deref().map(|file| read(file, self.public_key.clone())).transpose()?,
        };
        let bar = indicatif::ProgressBar::new_spinner().with_message("entries");
        let audited = desk.verify(&request, |checked| bar.set_position(checked)).await?;
        bar.finish_and_clear();
        if self.json {
            super::print_json(&audited)?;
        } else {
            let mut table = super::table(&["tenant", "entries", "hash", "verdict"]);
            for audit in &audited.tenants {
                let verdict = audit.fault.clone().unwrap_or_else(|| "verified".to_owned());
                table.add_row([
                    audit.tenant_id.clone(),
                    grouped(&audit.entries.to_string()),
                    audit.head.chars().take(16).collect(),
                    verdict,
                ]);
            }
            numbers(&mut table, 1..2);
            println!("{table}");
            for broken in audited.guards.iter().chain(&audited.stranded) {
                println!("{}", coloured(&printable(broken), false));
            }
            if let Some(log) = &audited.log {
                tell(log);
            }
            for broken in &audited.checkpoint {
                println!("{}", coloured(&broken.to_string(), false));
            }
            if request.checkpoint.is_some() && audited.checkpoint.is_empty() {
                println!("{}", coloured("The ledger keeps what the checkpoint says.", true));
            }
        }
        Ok(if audited.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn tell(log: &LogAudit) {
    let LogAudit { blocks, rows, unsealed, letters, faults } = log;
    for fault in faults {
        println!("{}", coloured(&printable(fault), false));
    }
    let unsealed = match unsealed {
        0 => String::new(),
        rows => format!(", {} not sealed yet", plural(*rows, "more row")),
    };
    let (rows, blocks, letters) = (plural(*rows, "row"), plural(*blocks, "block"), plural(*letters, "dead letter"));
    println!("operators' log: {rows} in {blocks}{unsealed}; {letters} beside it");
}

fn read(file: &Path, public_key: Option<String>) -> anyhow::Result<NamedCheckpoint> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let checkpoint = serde_json::from_str(&text).with_context(|| format!("{} is no checkpoint", file.display()))?;
    Ok(NamedCheckpoint { name: file.display().to_string(), checkpoint, public_key })
}
