//! `fis feed resend`: sends a range again as the relay did.

use std::process::ExitCode;

use super::super::{TenantArg, Who, WrongUsage, plural, print_json, printable};
use crate::desk::feed::{self, ReaderQueue, ResendCause, ResendStopped};
use crate::desk::{Desk, DeskError};
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Resend {
    #[command(flatten)]
    tenant: TenantArg,
    /// The first sequence
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    from: i64,
    /// The last sequence
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(i64).range(1..))]
    to: i64,
    /// Send only to this queue, instead of to everybody who reads fis.domain.exchange
    #[arg(long, value_name = "QUEUE", value_parser = queue)]
    queue: Option<ReaderQueue>,
    /// Why, for the record
    #[arg(long, default_value = "")]
    why: String,
    #[command(flatten)]
    who: Who,
    #[arg(long)]
    json: bool,
}

fn queue(text: &str) -> Result<ReaderQueue, String> {
    ReaderQueue::parse(text).map_err(|error| error.to_string())
}

impl Resend {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let Self { tenant, from, to, queue, why, who, json } = self;
        let operator = who.acting(&why)?;
        if from > to {
            return Err(WrongUsage(format!("--from {from} is greater than --to {to}")).into());
        }
        let desk = Desk::open(config).await?;
        let request = feed::Resend { operator, tenant: tenant.one(&desk).await?, from, to, queue };
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
            let count = plural(i64::try_from(resent.confirmed).unwrap_or(i64::MAX), "event");
            let (tenant, place) = (&resent.tenant_id, printable(resent.place()));
            println!("sent {count} of `{tenant}` again to {place}, confirmed");
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
