//! A resend that ended before its end: how far it came, and why it went no further.

use std::fmt;

use crate::platform::amqp::AmqpError;

/// A resend that ended before its end.
#[derive(Debug, thiserror::Error)]
pub struct ResendStopped {
    /// The last sequence that is confirmed; none: nothing is.
    pub confirmed_to: Option<i64>,
    pub queue: Option<String>,
    pub cause: ResendCause,
}

/// The reason why a resend ended early.
#[derive(Debug)]
pub enum ResendCause {
    /// The session is lost: whether the events behind the confirmed ones arrived is unknown.
    Away(AmqpError),
    /// No queue took an event.
    Returned(String),
    /// A queue is full.
    Refused,
}

impl fmt::Display for ResendStopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            ResendCause::Away(error) => write!(f, "{error}")?,
            ResendCause::Returned(reason) => write!(f, "an event came back: {reason}")?,
            ResendCause::Refused => f.write_str("the broker refused an event: a queue is full")?,
        }
        match self.confirmed_to {
            None => f.write_str("; nothing is confirmed"),
            Some(last) => write!(f, "; everything up to sequence {last} is confirmed"),
        }
    }
}
