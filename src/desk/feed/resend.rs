//! A range of the journal, sent again as the relay did. A range and a place enter, confirms leave. A reader recognises what it has by
//! `message_id` and `sequence`; the bytes are the same. An announcement never goes to a queue that fis itself takes events from.

use sqlx::PgConnection;

use super::super::log_act;
use super::super::tenants::no_tenant;
use super::stopped::{ResendCause, ResendStopped};
use crate::desk::{Desk, DeskError};
use crate::domain::ids::TenantId;
use crate::domain::letter::LetterAct;
use crate::domain::names::{DEAD_LETTER_QUEUE, DOMAIN_EXCHANGE, TENANT_QUEUES};
use crate::domain::operator::Operator;
use crate::intake::Lane;
use crate::outbox::{TenantKeys, journal_message};
use crate::platform::amqp::{Connection, OutMessage, PublishOutcome, Publisher};
use crate::store::heads::last_seq;
use crate::store::journal::pages::read_span;
use crate::store::operator_log;

/// The bytes of one window: the broker confirms it well within the timeout.
const WINDOW_BYTES_MAX: usize = 8 * 1024 * 1024;
/// AMQP writes the length of a queue's name in one byte.
const NAME_BYTES_MAX: usize = 255;

/// The queue of a reader. An announcement in a lane would be taken for an event to book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderQueue(String);

impl ReaderQueue {
    /// # Errors
    /// The name is no queue's name, or a queue that fis takes events from.
    pub fn parse(name: &str) -> Result<Self, DeskError> {
        let invalid = |why: String| Err(DeskError::Invalid { why });
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return invalid(format!("a queue's name has 1 to {NAME_BYTES_MAX} bytes"));
        }
        let mut ours = Lane::CONSUMED.into_iter().filter_map(Lane::queue).chain([DEAD_LETTER_QUEUE]);
        if ours.any(|own| own == name) || name.starts_with(TENANT_QUEUES) {
            return invalid(format!("{name} is where fis takes events from, not where readers are"));
        }
        Ok(Self(name.to_owned()))
    }
}

/// The wish to send a range again.
#[derive(Debug, Clone)]
pub struct Resend {
    pub operator: Operator,
    pub tenant: TenantId,
    /// The first sequence.
    pub from: i64,
    /// The last sequence.
    pub to: i64,
    /// Only to this queue, instead of to everybody who reads the feed.
    pub queue: Option<ReaderQueue>,
}

/// A range that was sent again, all of it confirmed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resent {
    pub tenant_id: String,
    pub from: i64,
    pub to: i64,
    pub queue: Option<String>,
    pub confirmed: u64,
}

impl Resent {
    /// The queue or the exchange that it was sent to.
    #[must_use]
    pub fn place(&self) -> &str {
        self.queue.as_deref().unwrap_or(DOMAIN_EXCHANGE)
    }
}

impl Desk {
    /// Sends a range again. `progress` hears how many events are confirmed.
    ///
    /// # Errors
    /// The range is not in the ledger, the broker does not take it (`Stopped`: a part may have been sent), or a server is away.
    pub async fn resend(&self, request: &Resend, progress: &mut (dyn FnMut(u64) + Send)) -> Result<Resent, DeskError> {
        let Resend { operator, tenant, from, to, queue } = request;
        if *from < 1 || from > to {
            return Err(DeskError::Invalid { why: format!("there is no range from sequence {from} to {to}") });
        }
        let mut db = self.postgres.pool.acquire().await?;
        let Some(head) = last_seq(&mut db, tenant).await? else {
            return Err(no_tenant(&mut db, tenant.as_str()).await?);
        };
        if *to > head {
            let why = format!("the ledger of `{tenant}` ends at sequence {head}; nothing was sent");
            return Err(DeskError::Refused { why });
        }
        let connection = Connection::open_to_publish(&self.config.amqp, "fis feed resend").await?;
        let keys = TenantKeys(self.config.outbox.tenant_keys);
        let place = queue.as_ref().map_or(DOMAIN_EXCHANGE, |queue| queue.0.as_str());
        let done = format!("sends sequence {from} to {to} of {tenant} again to {place}");
        // Before the first one leaves: what is sent in part is on record, too.
        operator_log::record(&mut db, LetterAct::Resend, operator, &done).await?;
        log_act(operator, &done);
        let sent = request.send_all(&connection, &mut db, keys, progress).await;
        connection.close().await;
        sent?;
        Ok(Resent {
            tenant_id: tenant.to_string(),
            from: *from,
            to: *to,
            queue: queue.as_ref().map(|queue| queue.0.clone()),
            confirmed: u64::try_from(to - from + 1).unwrap_or(0),
        })
    }
}

impl Resend {
    async fn send_all(
        &self,
        connection: &Connection,
        db: &mut PgConnection,
        keys: TenantKeys,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), DeskError> {
        let Self { tenant, from, to, .. } = self;
        let mut publisher = Publisher::open(connection).await?;
        let mut last = from - 1;
        while last < *to {
            let entries = read_span(db, tenant, last, *to, (None, None)).await?;
            let messages: Vec<OutMessage> =
                entries.iter().map(|entry| self.addressed(journal_message(entry, keys))).collect();
            let whole = entries.iter().zip(last + 1..).all(|(entry, sequence)| entry.seq == sequence);
            if !whole || messages.is_empty() {
                let why = format!("the ledger lacks an entry behind sequence {last}; run `fis verify`");
                return Err(DeskError::Refused { why });
            }
            for window in windows(&messages) {
                self.send(&mut publisher, window, last).await?;
                last += i64::try_from(window.len()).unwrap_or(0);
                progress(u64::try_from(last - from + 1).unwrap_or(0));
            }
        }
        Ok(())
    }

    fn addressed(&self, message: OutMessage) -> OutMessage {
        match &self.queue {
            // The default exchange knows every queue by its name, and would look for one that is named by the second key.
            Some(queue) => {
                OutMessage { exchange: String::new(), routing_key: queue.0.clone(), hidden_key: None, ..message }
            }
            None => message,
        }
    }

    async fn send(&self, publisher: &mut Publisher, window: &[OutMessage], last: i64) -> Result<(), DeskError> {
        let stopped = |cause: ResendCause| {
            let confirmed_to = Some(last).filter(|last| *last >= self.from);
            let queue = self.queue.as_ref().map(|queue| queue.0.clone());
            DeskError::Stopped(ResendStopped { confirmed_to, queue, cause })
        };
        let outcomes = publisher.publish(window).await.map_err(|error| stopped(ResendCause::Away(error)))?;
        for outcome in outcomes {
            match outcome {
                PublishOutcome::Confirmed => {}
                PublishOutcome::Returned(reason) => return Err(stopped(ResendCause::Returned(reason))),
                PublishOutcome::Refused => return Err(stopped(ResendCause::Refused)),
            }
        }
        Ok(())
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
