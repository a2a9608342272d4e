//! Reading a stream: an offset enters, deliveries with their offsets leave. A stream forgets nothing when it is read; an
//! acknowledgement only tells the broker to send more.

use std::time::Duration;

use lapin::types::{AMQPValue, FieldTable};
use tokio::time::{Instant, timeout};

use super::{AmqpError, Connection, Consumer, Delivery};

/// Deliveries on their way to us; the broker refuses to serve a stream without such a bound.
const PREFETCH: u16 = 1000;
/// Acknowledged together: often enough that the broker never waits.
const ACKNOWLEDGE_EVERY: u16 = 250;
/// The last chunk of a stream comes at once; its end is known by the silence behind it.
const SILENCE: Duration = Duration::from_secs(1);
/// A stream that is written to is never silent, but its last chunk has come by then.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// The place in a stream where a reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    /// The oldest message that is kept.
    First,
    /// The last chunk: at least the last message.
    Last,
    /// The messages that are published from now on.
    Next,
    At(u64),
    /// The chunk that was written at this time, in seconds since 1970.
    Since(u64),
}

impl Offset {
    fn argument(self) -> AMQPValue {
        match self {
            Self::First => AMQPValue::LongString("first".into()),
            Self::Last => AMQPValue::LongString("last".into()),
            Self::Next => AMQPValue::LongString("next".into()),
            Self::At(offset) => AMQPValue::LongLongInt(i64::try_from(offset).unwrap_or(i64::MAX)),
            Self::Since(seconds) => AMQPValue::Timestamp(seconds),
        }
    }
}

pub struct StreamReader {
    consumer: Consumer,
    unacknowledged: u16,
    /// The last delivery handed out.
    last: u64,
}

impl StreamReader {
    /// # Errors
    /// The broker is away, or there is no such stream.
    pub async fn open(connection: &Connection, stream: &str, offset: Offset) -> Result<Self, AmqpError> {
        let mut arguments = FieldTable::default();
        arguments.insert("x-stream-offset".into(), offset.argument());
        let consumer = Consumer::open_with(connection, stream, PREFETCH, arguments).await?;
        Ok(Self { consumer, unacknowledged: 0, last: 0 })
    }

    /// The next message and its offset. Asking again means that the one before has been handled. Dropping the future
    /// loses nothing.
    ///
    /// # Errors
    /// The session is lost, or this is no stream.
    pub async fn next(&mut self) -> Result<(u64, Delivery), AmqpError> {
        if self.unacknowledged >= ACKNOWLEDGE_EVERY {
            // Counted before it is sent: a dropped future must not acknowledge the same delivery twice.
            self.unacknowledged = 0;
            self.consumer.settler().acknowledge(self.last).await?;
        }
        let delivery = self.consumer.next().await?;
        let offset = delivery.properties.header_number("x-stream-offset").and_then(|offset| u64::try_from(offset).ok());
        let offset = offset.ok_or_else(|| AmqpError::Broker {
            what: "read a stream",
            code: None,
            reason: "a message has no offset: this is a queue and not a stream".to_owned(),
        })?;
        self.last = delivery.tag();
        self.unacknowledged += 1;
        Ok((offset, delivery))
    }

    /// The offset of the last message that is there now; `None` where there is none.
    ///
    /// # Errors
    /// The broker is away, or there is no such stream.
    pub async fn end(connection: &Connection, stream: &str) -> Result<Option<u64>, AmqpError> {
        // The broker's count lags by seconds, so zero proves nothing; more than zero does.
        let is_filled = connection.ready_count(stream).await? > 0;
        let mut reader = Self::open(connection, stream, Offset::Last).await?;
        let deadline = Instant::now() + LOOK_MAX.max(connection.timeout());
        let mut end = None;
        while Instant::now() < deadline {
            let patience = if end.is_none() && is_filled { connection.timeout() } else { SILENCE };
            match timeout(patience, reader.next()).await {
                Ok(next) => end = Some(next?.0),
                Err(_) => break,
            }
        }
        reader.consumer.cancel().await?;
        Ok(end)
    }
}
