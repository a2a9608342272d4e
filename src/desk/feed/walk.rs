//! A walk along the stream: to the end of what was there when it began, or for ever. Silence before that end is an error, never the end.

use std::time::Duration;

use tokio::time::timeout;

use super::STREAM;
use crate::desk::{DeskError, Server};
use crate::platform::amqp::{Connection, Delivery, Offset, StreamReader};

pub struct Walk {
    reader: StreamReader,
    /// The last offset; `None`: the walk never ends.
    pub end: Option<u64>,
    at: Option<u64>,
    from: Offset,
    patience: Duration,
}

impl Walk {
    /// A walk that ends; `None`: there is nothing to walk along.
    pub async fn to_the_end(connection: &Connection, from: Offset) -> Result<Option<Self>, DeskError> {
        let Some(end) = StreamReader::end(connection, STREAM).await? else { return Ok(None) };
        match from {
            Offset::Next => return Ok(None),
            Offset::At(from) if from > end => return Ok(None),
            Offset::At(_) | Offset::First | Offset::Last | Offset::Since(_) => {}
        }
        let walk = Self::for_ever(connection, from).await?;
        Ok(Some(Self { end: Some(end), ..walk }))
    }

    pub async fn for_ever(connection: &Connection, from: Offset) -> Result<Self, DeskError> {
        let reader = StreamReader::open(connection, STREAM, from).await?;
        Ok(Self { reader, end: None, at: None, from, patience: connection.timeout() })
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// The session is lost, or the broker is silent before the end.
    pub async fn next(&mut self) -> Result<Option<(u64, Delivery)>, DeskError> {
        let Some(end) = self.end else { return Ok(Some(self.reader.next().await?)) };
        if self.at.is_some_and(|at| at >= end) {
            return Ok(None);
        }
        let next = match timeout(self.patience, self.reader.next()).await {
            Ok(next) => next?,
            // Nothing has been written since then.
            Err(_) if self.at.is_none() && matches!(self.from, Offset::Since(_)) => return Ok(None),
            Err(silence) => {
                let at = self.at.map_or("its beginning".to_owned(), |at| format!("offset {at}"));
                let why =
                    format!("the broker is silent after {at} of the stream, which reaches to offset {end}: {silence}");
                return Err(DeskError::Away { server: Server::Broker, why });
            }
        };
        self.at = Some(next.0);
        Ok(Some(next))
    }
}
