//! The feed, read as a finance consumer would, and proven: nothing missing, in order, every hash right. The stream or a queue enters, the
//! proof or the first fault leaves. Nothing is taken from a queue; one whose messages could be lost by reading is not read.

use tokio::time::timeout;

use super::against::{Announced, FeedDebt};
use super::walk::Walk;
use super::{Offset, STREAM, message};
use crate::desk::{Desk, DeskError, Server};
use crate::domain::feed::{FaultAt, Proof};
use crate::domain::ids::TenantId;
use crate::platform::amqp::{Connection, Consumer, Delivery};
use crate::platform::config::Config;

/// A queue is read without taking anything from it, so all of it is on its way to us at once.
const QUEUE_MESSAGES_MAX: u16 = 65_000;
/// The number of times given back at which reading a message's queue once more could lose the message: a quorum queue of RabbitMQ 4
/// drops a message after twenty times.
const GIVEN_BACK_MAX: i64 = 10;
/// The number of messages of a queue after which `progress` hears something.
const PROGRESS_EVERY: u64 = 1000;

/// The feed to prove.
#[derive(Debug, Clone)]
pub struct VerifyFeed {
    /// This queue instead of the stream; read as a whole.
    pub queue: Option<String>,
    /// The place in the stream to begin at.
    pub from: Offset,
    /// Only this tenant.
    pub tenant: Option<TenantId>,
}

/// The proof, up to the first fault.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FeedProof {
    pub source: String,
    pub messages: u64,
    /// Messages that are no entries, or of other tenants than the one asked for.
    pub others: u64,
    pub tenants: Vec<ProvenTenant>,
    pub fault: Option<FeedFault>,
    /// The debts to the ledger, where it was compared.
    pub ledger: Vec<FeedDebt>,
}

/// The proven part of one tenant's chain.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvenTenant {
    pub tenant_id: String,
    pub first: i64,
    pub last: i64,
    pub hash: String,
    pub repeats: u64,
    pub earlier: u64,
}

/// The first fault of the feed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedFault {
    #[serde(flatten)]
    pub at: FaultPlace,
    pub tenant_id: Option<String>,
    pub sequence: Option<i64>,
    /// The fault; the text continues "the message …".
    pub fault: String,
}

/// The place of a faulty message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FaultPlace {
    /// Its offset in the stream.
    Offset(u64),
    /// Its number in the queue, from 1.
    Message(u64),
}

impl FeedProof {
    #[must_use]
    pub fn holds(&self) -> bool {
        self.fault.is_none() && self.ledger.is_empty()
    }
}

/// Proves the feed, and beside `ledger` that it reaches everything that was announced. `progress` hears the place and the end.
///
/// # Errors
/// The broker or the database is away, or the queue cannot be read without harm.
pub async fn verify(
    config: &Config,
    request: &VerifyFeed,
    ledger: Option<&Desk>,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<FeedProof, DeskError> {
    // Before the feed: what is posted while we read is nobody's debt.
    let announced = match ledger {
        Some(desk) => Some(Announced::read(desk).await?),
        None => None,
    };
    let connection = Connection::open(&config.amqp, "fis feed verify").await?;
    let mut reading = Reading { proof: Proof::of(request.tenant.clone()), messages: 0, fault: None };
    let read = match &request.queue {
        Some(queue) => reading.read_queue(&connection, queue, progress).await,
        None => reading.read_stream(&connection, request.from, progress).await,
    };
    connection.close().await;
    read?;
    let ledger = match &announced {
        Some(announced) if reading.fault.is_none() => announced.compare(&reading.proof).await?,
        _ => Vec::new(),
    };
    Ok(reading.told(request, ledger))
}

/// A feed on its way through the proof.
struct Reading {
    proof: Proof,
    messages: u64,
    /// The first fault, with the offset or the place of its message.
    fault: Option<(u64, FaultAt)>,
}

impl Reading {
    fn told(self, request: &VerifyFeed, ledger: Vec<FeedDebt>) -> FeedProof {
        let tenants = self.proof.tenants().map(|(tenant, proof)| ProvenTenant {
            tenant_id: tenant.to_string(),
            first: proof.first,
            last: proof.last,
            hash: proof.hash.clone(),
            repeats: proof.repeats,
            earlier: proof.earlier,
        });
        let place = if request.queue.is_some() { FaultPlace::Message } else { FaultPlace::Offset };
        let fault = self.fault.map(|(at, fault)| FeedFault {
            at: place(at),
            tenant_id: fault.tenant_id,
            sequence: fault.sequence,
            fault: fault.fault.to_string(),
        });
        FeedProof {
            source: request.queue.clone().unwrap_or_else(|| STREAM.to_owned()),
            messages: self.messages,
            others: self.proof.others,
            tenants: tenants.collect(),
            fault,
            ledger,
        }
    }

    async fn read_stream(
        &mut self,
        connection: &Connection,
        from: Offset,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<(), DeskError> {
        let Some(mut walk) = Walk::to_the_end(connection, from).await? else { return Ok(()) };
        let end = walk.end.unwrap_or(0);
        while let Some((offset, delivery)) = walk.next().await? {
            if self.messages == 0 {
                // A stream begins with the beginning of the ledger, unless its beginning was dropped.
                self.proof.from_the_beginning = offset == 0;
            }
            progress(offset, end);
            if !self.take(offset, &delivery) {
                break;
            }
        }
        Ok(())
    }

    async fn read_queue(
        &mut self,
        connection: &Connection,
        queue: &str,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<(), DeskError> {
        let refused = |why: String| Err(DeskError::Refused { why });
        let (ready, consumers) = (connection.ready_count(queue).await?, connection.consumer_count(queue).await?);
        if consumers > 0 {
            return refused(format!(
                "{queue} has {consumers} consumers, which would take their share: stop them, or read the stream"
            ));
        }
        if ready > u32::from(QUEUE_MESSAGES_MAX) {
            return refused(format!(
                "{queue} has {ready} messages, and at most {QUEUE_MESSAGES_MAX} can be read without taking them: read the stream"
            ));
        }
        if ready == 0 {
            return Ok(());
        }
        let mut consumer = Consumer::open(connection, queue, QUEUE_MESSAGES_MAX).await?;
        for place in 1..=u64::from(ready) {
            let delivery = match timeout(connection.timeout(), consumer.next()).await {
                Ok(delivery) => delivery?,
                Err(silence) => {
                    let why = format!(
                        "the broker is silent before message {place} of {ready}; {queue} may have another consumer now: {silence}"
                    );
                    return Err(DeskError::Away { server: Server::Broker, why });
                }
            };
            let count = delivery.delivery_count();
            if count >= GIVEN_BACK_MAX {
                return refused(format!(
                    "message {place} of {queue} was given back {count} times; reading it again and again may lose it"
                ));
            }
            if place % PROGRESS_EVERY == 0 {
                progress(place, u64::from(ready));
            }
            if !self.take(place, &delivery) {
                break;
            }
        }
        // Nothing was acknowledged: with the connection's end every message goes back to its place.
        Ok(())
    }

    /// False: a fault was found.
    fn take(&mut self, place: u64, delivery: &Delivery) -> bool {
        self.messages += 1;
        match self.proof.take(&message(delivery)) {
            Ok(_) => true,
            Err(fault) => {
                self.fault = Some((place, fault));
                false
            }
        }
    }
}
