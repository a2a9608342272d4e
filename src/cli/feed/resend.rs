//! `fis feed resend`: reads a range from the journal and sends it as the relay did. A reader recognises what it has by
//! `message_id` and `sequence`; the bytes are the same.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;

use super::super::{print_json, tenant};
use crate::domain::ids::TenantId;
use crate::intake::Lane;
use crate::outbox::journal_message;
use crate::parking::DEAD_LETTER_QUEUE;
use crate::platform::amqp::{Connection, OutMessage, PublishOutcome, Publisher};
use crate::platform::config::Config;
use crate::store::heads::last_seq;
use crate::store::journal::pages::read_span;

/// What one window holds: the broker confirms it well within the timeout.
const WINDOW_BYTES_MAX: usize = 8 * 1024 * 1024;

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
    queue: Option<String>,
    #[arg(long)]
    json: bool,
}

/// A queue of a reader. An announcement in a lane would be taken for an event to book.
fn queue(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 255 {
        return Err("a queue's name has 1 to 255 bytes".to_owned());
    }
    let ours = Lane::ALL.iter().map(|lane| lane.queue()).chain([DEAD_LETTER_QUEUE]);
    match ours.into_iter().find(|own| *own == text) {
        Some(own) => Err(format!("{own} is where fis takes events from, not where readers are")),
        None => Ok(text.to_owned()),
    }
}

impl Resend {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        if self.from > self.to {
            eprintln!("--from {} lies behind --to {}", self.from, self.to);
            return Ok(ExitCode::from(2));
        }
        let postgres = super::super::database(config).await?;
        let mut db = postgres.pool.acquire().await?;
        let head = last_seq(&mut db, &self.tenant).await?;
        let head = head.with_context(|| format!("there is no tenant `{}`", self.tenant))?;
        anyhow::ensure!(self.to <= head, "the ledger of `{}` ends at sequence {head}; nothing was sent", self.tenant);
        let connection = Connection::open_to_publish(&config.amqp, "fis feed resend").await?;
        let mut publisher = Publisher::open(&connection).await?;
        let total = u64::try_from(self.to - self.from + 1).unwrap_or(0);
        let bar = if std::io::stderr().is_terminal() {
            indicatif::ProgressBar::new(total)
        } else {
            indicatif::ProgressBar::hidden()
        };
        let mut last = self.from - 1;
        while last < self.to {
            let entries = read_span(&mut db, &self.tenant, last, self.to, (None, None)).await?;
            let messages: Vec<OutMessage> =
                entries.iter().map(|entry| self.addressed(journal_message(entry))).collect();
            let whole = entries.iter().zip(last + 1..).all(|(entry, sequence)| entry.seq == sequence);
            anyhow::ensure!(
                whole && !messages.is_empty(),
                "the ledger lacks an entry behind sequence {last}; run `fis verify`"
            );
            for window in windows(&messages) {
                self.send(&mut publisher, window, last).await?;
                last += i64::try_from(window.len()).unwrap_or(0);
                bar.set_position(u64::try_from(last - self.from + 1).unwrap_or(0));
            }
        }
        bar.finish_and_clear();
        connection.close().await;
        self.tell(total)
    }

    fn addressed(&self, message: OutMessage) -> OutMessage {
        match &self.queue {
            // The default exchange knows every queue by its name.
            Some(queue) => OutMessage { exchange: String::new(), routing_key: queue.clone(), ..message },
            None => message,
        }
    }

    async fn send(&self, publisher: &mut Publisher, window: &[OutMessage], last: i64) -> anyhow::Result<()> {
        let sent = || match last {
            last if last < self.from => "nothing is confirmed".to_owned(),
            last => format!("sequence {} to {last} is confirmed; go on with --from {}", self.from, last + 1),
        };
        let outcomes = publisher.publish(window).await.with_context(sent)?;
        for outcome in outcomes {
            match outcome {
                PublishOutcome::Confirmed => {}
                PublishOutcome::Returned(reason) => {
                    anyhow::bail!("an event came back: {reason}; {}", self.advice(&sent()))
                }
                PublishOutcome::Refused => anyhow::bail!("the broker refused an event: a queue is full; {}", sent()),
            }
        }
        Ok(())
    }

    fn advice(&self, sent: &str) -> String {
        match &self.queue {
            Some(queue) => format!("is there a queue `{queue}`? {sent}"),
            None => format!("run `fis topology check`; {sent}"),
        }
    }

    fn tell(&self, total: u64) -> anyhow::Result<ExitCode> {
        if self.json {
            print_json(&json!({
                "tenantId": self.tenant.as_str(), "from": self.from, "to": self.to, "queue": self.queue, "confirmed": total,
            }))?;
        } else {
            let place = self.queue.as_deref().unwrap_or(crate::domain::outbound::DOMAIN_EXCHANGE);
            println!(
                "sent {total} events of `{}` again to {}, all confirmed",
                self.tenant,
                super::super::printable(place)
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Consecutive messages, at most so many bytes at a time, but at least one.
fn windows(messages: &[OutMessage]) -> Vec<&[OutMessage]> {
    let mut bytes = 0;
    let together = |_: &OutMessage, next: &OutMessage| {
        bytes += next.body.len();
        let fits = bytes <= WINDOW_BYTES_MAX;
        if !fits {
            bytes = 0;
        }
        fits
    };
    messages.chunk_by(together).collect()
}
