//! Publishing with confirms. Messages enter in sendings, one outcome for each message leaves, sending by sending. `Confirmed`
//! means that the broker has it on disk in a queue; anything else means that it must be sent again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use lapin::Confirmation;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use tokio::time::Instant;

use super::message::{OutMessage, short};
use super::{AmqpError, Connection, within};
use crate::faults::mutants::{self, mutant};

/// The outcome of a published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishOutcome {
    Confirmed,
    /// No queue is bound for its routing key.
    Returned(String),
    /// The broker could not take it: a full queue, a lost majority.
    Refused,
}

/// One channel in confirm mode. One task publishes on it: lapin hands confirms of concurrent publishers to the wrong one.
pub struct Publisher {
    channel: Arc<lapin::Channel>,
    timeout: Duration,
    sent: VecDeque<Sending>,
    /// Message ids that came back, with the reason.
    returned: HashMap<String, String>,
}

/// Messages that were handed over together.
struct Sending {
    message_ids: Vec<String>,
    confirms: Vec<Confirm>,
    /// All confirms before this one are known.
    known: usize,
    since: Instant,
}

enum Confirm {
    Awaited(BoxFuture<'static, lapin::Result<Confirmation>>),
    Known(PublishOutcome),
}

impl Publisher {
    /// # Errors
    /// The broker is away.
    pub async fn open(connection: &Connection) -> Result<Self, AmqpError> {
        let channel = connection.channel().await?;
        connection.within("ask for confirms", channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(Self { channel, timeout: connection.timeout(), sent: VecDeque::new(), returned: HashMap::new() })
    }

    /// Publishes the messages in order, persistent and mandatory, and waits for all of their confirms. Dropping the future
    /// leaves the outcome unknown: the publisher must be dropped too.
    ///
    /// # Errors
    /// The channel is lost or silent; the outcome of every message is unknown and all must be sent again.
    pub async fn publish(&mut self, window: &[OutMessage]) -> Result<Vec<PublishOutcome>, AmqpError> {
        self.send(window.to_vec());
        let timeout = self.timeout;
        within(timeout, "confirm", async { Ok(self.confirmed().await) }).await?
    }

    /// Hands messages to the connection, in order, and does not wait: what became of them is asked of [`Self::confirmed`].
    pub fn send(&mut self, messages: Vec<OutMessage>) {
        let mut message_ids = Vec::with_capacity(messages.len());
        let mut confirms = Vec::with_capacity(messages.len());
        for message in messages {
            message_ids.push(message.message_id.clone());
            let mut confirm = confirmed(Arc::clone(&self.channel), message).boxed();
            // The first poll registers the confirm and queues the frames (lapin's `basic_publish` does both before it waits
            // for the socket), so the order of these polls is the order on the wire; and the connection writes many messages
            // at once, where awaiting each would be a write and two switches of threads for every one.
            let first = confirm.poll_unpin(&mut Context::from_waker(Waker::noop()));
            confirms.push(match first {
                Poll::Ready(early) => Confirm::Awaited(futures::future::ready(early).boxed()),
                Poll::Pending => Confirm::Awaited(confirm),
            });
        }
        self.sent.push_back(Sending { message_ids, confirms, known: 0, since: Instant::now() });
    }

    /// The moment at which the oldest sending was handed over; `None`: nothing is under way.
    #[must_use]
    pub fn waiting_since(&self) -> Option<Instant> {
        self.sent.front().map(|sending| sending.since)
    }

    /// The patience with the broker.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The outcomes of the oldest sending, when all are known. May be dropped and asked again: nothing is lost. Where
    /// nothing is under way, it waits for ever.
    ///
    /// # Errors
    /// The channel is lost; the outcome of everything under way is unknown.
    pub async fn confirmed(&mut self) -> Result<Vec<PublishOutcome>, AmqpError> {
        poll_fn(|cx| self.poll_confirmed(cx)).await
    }

    /// The outcomes of the oldest sending, if all are known already: it does not wait.
    ///
    /// # Errors
    /// The channel is lost; the outcome of everything under way is unknown.
    pub fn confirmed_now(&mut self) -> Option<Result<Vec<PublishOutcome>, AmqpError>> {
        match self.poll_confirmed(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(confirmed) => Some(confirmed),
            Poll::Pending => None,
        }
    }

    fn poll_confirmed(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<PublishOutcome>, AmqpError>> {
        let Some(oldest) = self.sent.front_mut() else { return Poll::Pending };
        while let Some(confirm) = oldest.confirms.get_mut(oldest.known) {
            match confirm.poll(cx, &mut self.returned) {
                Poll::Ready(Ok(())) => oldest.known += 1,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(AmqpError::from_lapin("confirm")(error))),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(self.take_oldest())
    }

    /// lapin gives a returned message to whichever confirm completes next, so the id inside it counts, not its place. The
    /// broker returns in publishing order, and a message before its own confirm; each confirm takes the oldest
    /// waiting return. So when all confirms of the oldest sending are known, all of its returns have been handed out: to
    /// its own confirms, or to ones of later sendings that are complete already. Those are asked here.
    fn take_oldest(&mut self) -> Result<Vec<PublishOutcome>, AmqpError> {
        let Some(oldest) = self.sent.pop_front() else { return Ok(Vec::new()) };
        let mut cx = Context::from_waker(Waker::noop());
        for confirm in self.sent.iter_mut().flat_map(|later| &mut later.confirms) {
            if let Poll::Ready(Err(error)) = confirm.poll(&mut cx, &mut self.returned) {
                return Err(AmqpError::from_lapin("confirm")(error));
            }
        }
        let mut outcomes: Vec<_> = oldest.confirms.into_iter().map(Confirm::outcome).collect();
        if self.returned.is_empty() || mutant(mutants::RETURN_IGNORED) {
            return Ok(outcomes);
        }
        for (id, outcome) in oldest.message_ids.iter().zip(&mut outcomes) {
            if let Some(reason) = self.returned.get(id) {
                *outcome = PublishOutcome::Returned(reason.clone());
            }
        }
        let ours: HashSet<&String> = oldest.message_ids.iter().collect();
        let later: HashSet<&String> = self.sent.iter().flat_map(|sending| &sending.message_ids).collect();
        if let Some(stranger) = self.returned.keys().find(|id| !ours.contains(id) && !later.contains(id)) {
            // A return that belongs to nobody here: believe nothing.
            let reason = format!("the message {stranger:?} came back, which was not sent");
            return Err(AmqpError::Broker { what: "confirm", code: None, reason });
        }
        // An id that is under way twice stays for the second one: better sent once more than once too little.
        self.returned.retain(|id, _| later.contains(id));
        Ok(outcomes)
    }
}

async fn confirmed(channel: Arc<lapin::Channel>, message: OutMessage) -> lapin::Result<Confirmation> {
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let properties = match &message.hidden_key {
        Some(key) => message.properties.with_hidden_key(key),
        None => message.properties,
    };
    let properties = properties.into_lapin().with_message_id(short(&message.message_id));
    let (exchange, key) = (short(&message.exchange), short(&message.routing_key));
    channel.basic_publish(exchange, key, options, &message.body, properties).await?.await
}

impl Confirm {
    fn poll(&mut self, cx: &mut Context<'_>, returned: &mut HashMap<String, String>) -> Poll<lapin::Result<()>> {
        let Self::Awaited(confirm) = self else { return Poll::Ready(Ok(())) };
        let Poll::Ready(confirmation) = confirm.poll_unpin(cx) else { return Poll::Pending };
        let (outcome, message) = match confirmation {
            Ok(Confirmation::Ack(message)) => (PublishOutcome::Confirmed, message),
            Ok(Confirmation::Nack(message)) => (PublishOutcome::Refused, message),
            Ok(Confirmation::NotRequested) => (PublishOutcome::Refused, None),
            Err(error) => {
                // Asked again, it says the same.
                *self = Self::Awaited(futures::future::ready(Err(error.clone())).boxed());
                return Poll::Ready(Err(error));
            }
        };
        if let Some(message) = message {
            let id = message.delivery.properties.message_id().as_ref().map(|id| id.as_str().to_owned());
            returned.insert(id.unwrap_or_default(), message.reply_text.as_str().to_owned());
        }
        *self = Self::Known(outcome);
        Poll::Ready(Ok(()))
    }

    fn outcome(self) -> PublishOutcome {
        match self {
            Self::Known(outcome) => outcome,
            // Not reached: the oldest sending is taken when all are known.
            Self::Awaited(_) => PublishOutcome::Refused,
        }
    }
}
