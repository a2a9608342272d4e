//! Publishing with confirms, a window at a time. Messages enter, one outcome for each leaves. `Confirmed` means that the
//! broker has it on disk in a queue; anything else means that it must be sent again.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::join_all;
use lapin::Confirmation;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};

use super::connection::within;
use super::message::{OutMessage, short};
use super::{AmqpError, Connection};

/// What became of a published message.
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
    channel: lapin::Channel,
    timeout: Duration,
}

impl Publisher {
    /// # Errors
    /// The broker is away.
    pub async fn open(connection: &Connection) -> Result<Self, AmqpError> {
        let channel = connection.channel().await?;
        connection.within("ask for confirms", channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(Self { channel, timeout: connection.timeout() })
    }

    /// Publishes the messages in order, persistent and mandatory, and waits for all of their confirms. Message ids must be
    /// unique within the window. Dropping the future leaves the outcome unknown: the publisher must be dropped too.
    ///
    /// # Errors
    /// The channel is lost or silent; the outcome of every message is unknown and all must be sent again.
    pub async fn publish(&mut self, window: &[OutMessage]) -> Result<Vec<PublishOutcome>, AmqpError> {
        let confirmations = within(self.timeout, "confirm", self.publish_all(window)).await?;
        // lapin gives a returned message to whichever confirm completes next, so the id inside it counts, not its place.
        let mut returned = HashMap::new();
        let mut outcomes = Vec::with_capacity(window.len());
        for confirmation in confirmations {
            let (outcome, message) = match confirmation {
                Confirmation::Ack(message) => (PublishOutcome::Confirmed, message),
                Confirmation::Nack(message) => (PublishOutcome::Refused, message),
                Confirmation::NotRequested => (PublishOutcome::Refused, None),
            };
            if let Some(message) = message {
                let id = message.delivery.properties.message_id().as_ref().map(|id| id.as_str().to_owned());
                returned.insert(id.unwrap_or_default(), message.reply_text.as_str().to_owned());
            }
            outcomes.push(outcome);
        }
        for (message, outcome) in window.iter().zip(&mut outcomes) {
            if let Some(reason) = returned.remove(message.message_id.as_str()) {
                *outcome = PublishOutcome::Returned(reason);
            }
        }
        if returned.is_empty() {
            return Ok(outcomes);
        }
        // A return that belongs to nobody here: believe none of the window.
        Err(AmqpError::Broker { what: "confirm", reason: "a message came back that was not in the window".to_owned() })
    }

    async fn publish_all(&self, window: &[OutMessage]) -> lapin::Result<Vec<Confirmation>> {
        let mut confirms = Vec::with_capacity(window.len());
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        for message in window {
            let properties = message.properties.clone().into_lapin().with_message_id(short(&message.message_id));
            let (exchange, key) = (short(&message.exchange), short(&message.routing_key));
            confirms.push(self.channel.basic_publish(exchange, key, options, &message.body, properties).await?);
        }
        join_all(confirms).await.into_iter().collect()
    }
}
