//! A walk along the stream: to the end of what was there when it began, or for ever.

use std::time::Duration;

use anyhow::Context;
use tokio::time::timeout;

use super::STREAM;
use crate::platform::amqp::{Connection, Delivery, Offset, StreamReader};

pub struct Walk {
    reader: StreamReader,
    /// Where it ends; `None`: never.
    pub end: Option<u64>,
    at: Option<u64>,
    from: Offset,
    patience: Duration,
}

impl Walk {
    /// A walk that ends; `None`: there is nothing to walk along.
    pub async fn to_the_end(connection: &Connection, from: Offset) -> anyhow::Result<Option<Self>> {
        let Some(end) = StreamReader::end(connection, STREAM).await? else { return Ok(None) };
        match from {
            Offset::Next => return Ok(None),
            Offset::At(from) if from > end => return Ok(None),
            Offset::At(_) | Offset::First | Offset::Last | Offset::Since(_) => {}
        }
        let walk = Self::for_ever(connection, from).await?;
        Ok(Some(Self { end: Some(end), ..walk }))
    }

    pub async fn for_ever(connection: &Connection, from: Offset) -> anyhow::Result<Self> {
        let reader = StreamReader::open(connection, STREAM, from).await?;
        Ok(Self { reader, end: None, at: None, from, patience: connection.timeout() })
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// The session is lost, or the broker is silent before the end: that is never taken for the end.
    pub async fn next(&mut self) -> anyhow::Result<Option<(u64, Delivery)>> {
        let Some(end) = self.end else { return Ok(Some(self.reader.next().await?)) };
        if self.at.is_some_and(|at| at >= end) {
            return Ok(None);
        }
        let next = match timeout(self.patience, self.reader.next()).await {
            Ok(next) => next?,
            // Nothing has been written since then.
            Err(_) if self.at.is_none() && matches!(self.from, Offset::Since(_)) => return Ok(None),
            Err(silence) => {
                return Err(silence).with_context(|| {
                    let at = self.at.map_or("its beginning".to_owned(), |at| format!("offset {at}"));
                    format!("the broker is silent after {at} of the stream, which reaches to offset {end}")
                });
            }
        };
        self.at = Some(next.0);
        Ok(Some(next))
    }
}
