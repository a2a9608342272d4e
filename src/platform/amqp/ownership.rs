//! Who may do a work that only one may do: whoever holds an exclusive queue of that name, on the very connection that does the
//! work. The broker is the judge, and its judgement is a fence: it gives the name to the next one only after it has
//! closed the connection of the last one, and what a stopped process still holds in its buffers can no longer arrive.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Confirmation};

use super::message::short;
use super::{AmqpError, Connection, ReplyCode};

impl Connection {
    /// Tries to become the owner, for as long as this connection lives. `false`: somebody else is.
    ///
    /// # Errors
    /// The broker is away, or refuses for another reason than that.
    pub async fn try_own(&self, queue: &str) -> Result<bool, AmqpError> {
        if self.is_owned(queue).await? {
            return Ok(false);
        }
        // On a channel of its own: a refusal closes it.
        let channel = self.channel().await?;
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        let declared =
            self.within("own a queue", channel.queue_declare(short(queue), options, FieldTable::default())).await;
        match declared {
            // The queue lives with the connection, not with the channel.
            Ok(_) => Ok(true),
            Err(AmqpError::Broker { code: Some(ReplyCode::ResourceLocked), .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Asks without the error that each refused declaration leaves in the broker's log: a mandatory message to the queue
    /// comes back where there is none. Where there is one, the message expires at once. A user that may not publish to the
    /// default exchange learns nothing here, and tries.
    async fn is_owned(&self, queue: &str) -> Result<bool, AmqpError> {
        let channel = self.channel().await?;
        let asked = async {
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            let options = BasicPublishOptions { mandatory: true, immediate: false };
            let properties = BasicProperties::default().with_expiration("0".into()).with_message_id("?".into());
            channel.basic_publish("".into(), short(queue), options, b"?", properties).await?.await
        };
        let answer = self.within("ask for an owner", asked).await;
        match answer {
            Ok(Confirmation::Ack(returned)) => Ok(returned.is_none()),
            Ok(Confirmation::Nack(_) | Confirmation::NotRequested) => Ok(false),
            Err(AmqpError::Broker { code: Some(ReplyCode::AccessRefused), .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
