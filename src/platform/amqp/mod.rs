//! RabbitMQ behind four small words: a `Connection`, a `Consumer` of `Delivery`s, a `Publisher` of `OutMessage`s, and the
//! topology. The only place where `lapin` is named. lapin's automatic recovery stays off: a lost session is dropped
//! whole and built anew, so that no acknowledgement can reach a delivery it was not meant for.

pub mod address;
pub mod connection;
pub mod consumer;
pub mod link;
pub mod management;
pub mod message;
mod ownership;
pub mod prefetch;
pub mod publisher;
pub mod receiver;
mod reply;
pub mod stream;
pub mod topology;
mod transport;
pub mod wire;

use std::time::Duration;

use super::server_address::ServerAddress;

pub use connection::Connection;
pub use consumer::{Consumer, Delivery, Settler};
pub use message::{OutMessage, Properties};
pub use prefetch::Prefetch;
pub use publisher::{PublishOutcome, Publisher};
pub use receiver::{ALONE_FROM, Limits, Receiver};
pub use reply::ReplyCode;
pub use stream::{Offset, StreamReader};

/// An error between us and the broker. Each of them means: drop the session and build it anew.
#[derive(Debug, thiserror::Error)]
pub enum AmqpError {
    #[error("setting `amqp.url`: {which}must be an AMQP URL such as amqp://user:password@host:5672/%2Ffis")]
    Url { which: String },
    #[error(
        "setting `amqp.url`: the address {place} names another virtual host than the first one; all must name the same"
    )]
    Vhosts { place: String },
    #[error("setting `amqp.management_url`: {reason}")]
    ManagementUrl { reason: String },
    /// No address takes us. `why` is the predicate of a sentence about the server, `is_hopeless` that waiting will not mend it.
    #[error("{}", address.sentence(why))]
    Unreachable { address: Box<ServerAddress>, why: String, is_hopeless: bool },
    #[error("RabbitMQ did not answer within {milliseconds} ms while trying to {what}")]
    Timeout { what: &'static str, milliseconds: u64 },
    #[error("RabbitMQ cancelled the consumer of {queue}")]
    Cancelled { queue: String },
    /// `code` is what the broker answered; without one the session was lost before it could, or its answer makes no sense.
    #[error("RabbitMQ did not {what}: {reason}")]
    Broker { what: &'static str, code: Option<ReplyCode>, reason: String },
}

impl AmqpError {
    /// A wrong password, user or virtual host: waiting will not mend it.
    #[must_use]
    pub fn needs_a_person(&self) -> bool {
        match self {
            Self::Url { .. } | Self::Vhosts { .. } | Self::ManagementUrl { .. } => true,
            Self::Unreachable { is_hopeless, .. } => *is_hopeless,
            Self::Broker { code, .. } => matches!(code, Some(ReplyCode::AccessRefused | ReplyCode::NotAllowed)),
            Self::Timeout { .. } | Self::Cancelled { .. } => false,
        }
    }

    /// What goes on after the server's name and a colon: the server and the address are left out.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::Unreachable { why, .. } => why.clone(),
            error => {
                let text = error.to_string();
                text.strip_prefix("RabbitMQ ").map(str::to_owned).unwrap_or(text)
            }
        }
    }

    /// The broker is silent: what it does with what it was sent is unknown.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }

    fn from_lapin(what: &'static str) -> impl Fn(lapin::Error) -> Self {
        move |error| Self::Broker { what, code: reply::code_of(&error), reason: reply::text_of(&error) }
    }
}

/// Waits for an answer of the broker, but not for ever.
async fn within<T>(
    timeout: Duration,
    what: &'static str,
    answer: impl Future<Output = lapin::Result<T>>,
) -> Result<T, AmqpError> {
    match tokio::time::timeout(timeout, answer).await {
        Ok(result) => result.map_err(AmqpError::from_lapin(what)),
        Err(_) => {
            let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            Err(AmqpError::Timeout { what, milliseconds })
        }
    }
}
