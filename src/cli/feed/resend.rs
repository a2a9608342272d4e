//! `fis feed resend`: sends a range again as the relay did.

use std::process::ExitCode;

use super::super::{acting, print_json, printable, tenant};
use crate::desk::feed::{self, ReaderQueue, ResendCause, ResendStopped};
use crate::desk::{Desk, DeskError};
use crate::domain::ids::TenantId;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Resend {
    #[arg(long, value_parser = tenant)]
    tenant: TenantId,
    /// The first sequence
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    from: i64,
    /// The last sequence
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(i64).range(1..))]
    to: i64,
    /// Only to this queue, instead of to everybody who reads fis.domain.exchange
    #[arg(long, value_name = "QUEUE", value_parser = queue)]
    queue: Option<ReaderQueue>,
    #[arg(long)]
    json: bool,
}

fn queue(text: &str) -> Result<ReaderQueue, String> {
    ReaderQueue::parse(text).map_err(|error| error.to_string())
}

impl Resend {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let Self { tenant, from, to, queue, json } = self;
        if from > to {
            eprintln!("--from {from} lies behind --to {to}");
            return Ok(ExitCode::from(2));
        }
        let desk = Desk::open(config).await?;
        let request = feed::Resend { operator: acting(None, "")?, tenant, from, to, queue };
        let bar = indicatif::ProgressBar::new(u64::try_from(to - from + 1).unwrap_or(0));
        let resent = desk.resend(&request, &mut |confirmed| bar.set_position(confirmed)).await;
        bar.finish_and_clear();
        let resent = resent.map_err(|error| match error {
            DeskError::Stopped(stopped) => told(&stopped, from),
            error => error.into(),
        })?;
        if json {
            print_json(&resent)?;
        } else {
            let (count, tenant, place) = (resent.confirmed, &resent.tenant_id, printable(resent.place()));
            println!("sent {count} events of `{tenant}` again to {place}, all confirmed");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A resend that stopped, with what to do next.
fn told(stopped: &ResendStopped, from: i64) -> anyhow::Error {
    let sent = match stopped.confirmed_to {
        None => "nothing is confirmed".to_owned(),
        Some(last) => format!("sequence {from} to {last} is confirmed; go on with --from {}", last + 1),
    };
    match (&stopped.cause, &stopped.queue) {
        (ResendCause::Away(error), _) => anyhow::anyhow!("{sent}: {error}"),
        (ResendCause::Returned(reason), Some(queue)) => {
            anyhow::anyhow!("an event came back: {reason}; is there a queue `{queue}`? {sent}")
        }
        (ResendCause::Returned(reason), None) => {
            anyhow::anyhow!("an event came back: {reason}; run `fis topology check`; {sent}")
        }
        (ResendCause::Refused, _) => anyhow::anyhow!("the broker refused an event: a queue is full; {sent}"),
    }
}
