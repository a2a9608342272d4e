//! `fis feed verify`.

use std::process::ExitCode;

use super::super::text::numbers;
use super::super::{TenantArg, plural, print_json, printable, table};
use super::offset;
use crate::desk::Desk;
use crate::desk::feed::{FaultPlace, FeedProof, Offset, VerifyFeed, verify};
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct FeedVerify {
    /// Read this queue instead of the stream. fis gives every message back, but a quorum queue counts each delivery; the queue
    /// must have no other consumer meanwhile
    #[arg(long, value_name = "QUEUE", conflicts_with = "from")]
    queue: Option<String>,
    /// Where in the stream to begin: first, last, an offset, or a time such as 2026-02-25T10:00:00Z
    #[arg(long, default_value = "first", value_parser = offset)]
    from: Offset,
    #[command(flatten)]
    tenant: TenantArg,
    /// Also compare with the ledger; the feed must reach the last entry that was announced
    #[arg(long)]
    against_ledger: bool,
    #[arg(long)]
    json: bool,
}

impl FeedVerify {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let ledger = if self.against_ledger { Some(Desk::open(config).await?) } else { None };
        let tenant = match &ledger {
            Some(desk) => self.tenant.only(desk).await?,
            None => self.tenant.only_named()?,
        };
        let request = VerifyFeed { queue: self.queue, from: self.from, tenant };
        let bar = indicatif::ProgressBar::new(0);
        let mut progress = |at: u64, end: u64| {
            bar.set_length(end);
            bar.set_position(at);
        };
        let proof = verify(config, &request, ledger.as_ref(), &mut progress).await?;
        bar.finish_and_clear();
        if self.json {
            print_json(&proof)?;
        } else {
            print(&proof);
        }
        Ok(if proof.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn print(proof: &FeedProof) {
    let mut table = table(&["tenant", "proven from", "to", "repeated", "from before", "last hash"]);
    for tenant in &proof.tenants {
        table.add_row([
            tenant.tenant_id.clone(),
            tenant.first.to_string(),
            tenant.last.to_string(),
            tenant.repeats.to_string(),
            tenant.earlier.to_string(),
            tenant.hash.chars().take(16).collect(),
        ]);
    }
    numbers(&mut table, 1..5);
    println!("{table}");
    if let Some(fault) = &proof.fault {
        let (place, at) = match fault.at {
            FaultPlace::Offset(at) => ("offset", at),
            FaultPlace::Message(at) => ("message", at),
        };
        let tenant = fault.tenant_id.as_deref().map_or("?".to_owned(), printable);
        let sequence = fault.sequence.map_or("?".to_owned(), |sequence| sequence.to_string());
        println!("{place} {at}, tenant {tenant}, sequence {sequence}: the message {}", printable_all(&fault.fault));
    }
    for debt in &proof.ledger {
        println!("{}", printable(&debt.to_string()));
    }
    if proof.fault.is_none() {
        println!(
            "read {} of {}: no gap, in order, every hash right",
            plural(i64::try_from(proof.messages).unwrap_or(i64::MAX), "message"),
            printable(&proof.source)
        );
    }
}

/// A fault is shown whole, however long: two hashes do not fit into what a list shows.
fn printable_all(text: &str) -> String {
    text.split(' ').map(printable).collect::<Vec<_>>().join(" ")
}
