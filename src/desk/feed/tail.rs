//! The stream, event by event. A place to begin enters, announcements leave one at a time. Reading a stream holds nothing that could be
//! lost: a tail may be dropped at any moment.

use std::collections::VecDeque;

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::walk::Walk;
use super::{Offset, STREAM};
use crate::desk::DeskError;
use crate::domain::ids::TenantId;
use crate::domain::names::TENANT_HEADER;
use crate::platform::amqp::{Connection, Delivery, StreamReader};
use crate::platform::config::Config;

/// The part of the stream that is asked for.
#[derive(Debug, Clone)]
pub struct TailFeed {
    pub from: Offset,
    /// Only this tenant.
    pub tenant: Option<TenantId>,
    /// The number of events after which it stops.
    pub limit: Option<u64>,
    /// The reading stops at the end of what is there, instead of waiting for more.
    pub once: bool,
}

/// One event of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    pub offset: u64,
    pub routing_key: String,
    pub body: Vec<u8>,
}

impl Serialize for Announcement {
    /// The event as it is, or its bytes as text where they are no JSON.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Line<'a> {
            offset: u64,
            routing_key: &'a str,
            event: Box<RawValue>,
        }
        let body = String::from_utf8_lossy(&self.body);
        // JSON may have line ends of its own, and a line is one event.
        let event = match serde_json::from_str::<Box<RawValue>>(&body) {
            Ok(event) if !event.get().contains(['\n', '\r']) => event,
            _ => to_raw_value(&body).map_err(serde::ser::Error::custom)?,
        };
        Line { offset: self.offset, routing_key: &self.routing_key, event }.serialize(serializer)
    }
}

/// The most events that are read back from the end: they are held in memory.
pub const LAST_MAX: u64 = 1_000;
/// The messages that are read back first. Where too few of them are of the tenant, eight times as many are read, and so on.
const SPAN_MIN: u64 = 1_000;

/// A reading of the stream under way.
pub struct Tail {
    connection: Connection,
    /// The last events of the stream, which were read back from its end.
    last: VecDeque<Announcement>,
    /// None: there is nothing to read.
    walk: Option<Walk>,
    tenant: Option<TenantId>,
    /// The number of events that may still be told.
    left: Option<u64>,
}

impl Tail {
    /// # Errors
    /// The broker is away, or has no such stream.
    pub async fn open(config: &Config, request: TailFeed) -> Result<Self, DeskError> {
        let TailFeed { from, tenant, limit, once } = request;
        let connection = Connection::open(&config.amqp, "fis feed tail").await?;
        let (last, from) = match (from, limit) {
            // The last chunk of a stream has many messages; the last so many are meant, not the first of that chunk.
            (Offset::Last, Some(limit)) => read_back(&connection, tenant.as_ref(), limit).await?,
            _ => (VecDeque::new(), from),
        };
        let walk = if once {
            Walk::to_the_end(&connection, from).await?
        } else {
            Some(Walk::for_ever(&connection, from).await?)
        };
        Ok(Self { connection, last, walk, tenant, left: limit })
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// The session is lost, or the broker is silent before the end.
    pub async fn next(&mut self) -> Result<Option<Announcement>, DeskError> {
        if self.left == Some(0) {
            return Ok(None);
        }
        if let Some(event) = self.last.pop_front() {
            self.left = self.left.map(|left| left.saturating_sub(1));
            return Ok(Some(event));
        }
        let Some(walk) = &mut self.walk else { return Ok(None) };
        while let Some((offset, delivery)) = walk.next().await? {
            if !is_of(&delivery, self.tenant.as_ref()) {
                continue;
            }
            self.left = self.left.map(|left| left.saturating_sub(1));
            return Ok(Some(announcement(offset, delivery)));
        }
        Ok(None)
    }

    /// Ends the session.
    pub async fn close(self) {
        self.connection.close().await;
    }
}

fn is_of(delivery: &Delivery, tenant: Option<&TenantId>) -> bool {
    tenant.is_none_or(|tenant| delivery.properties.header(TENANT_HEADER) == Some(tenant.as_str()))
}

/// The last events of a tenant, or of all, and the place behind them.
async fn read_back(
    connection: &Connection,
    tenant: Option<&TenantId>,
    count: u64,
) -> Result<(VecDeque<Announcement>, Offset), DeskError> {
    if count > LAST_MAX {
        return Err(DeskError::Invalid { why: format!("at most the last {LAST_MAX} events can be shown") });
    }
    let Some(end) = StreamReader::end(connection, STREAM).await? else {
        return Ok((VecDeque::new(), Offset::First));
    };
    let mut span = SPAN_MIN.max(count);
    loop {
        let from = (end + 1).saturating_sub(span);
        let mut last = VecDeque::new();
        if let Some(mut walk) = Walk::to_the_end(connection, Offset::At(from)).await? {
            while let Some((offset, delivery)) = walk.next().await?.filter(|(offset, _)| *offset <= end) {
                if offset < from || !is_of(&delivery, tenant) {
                    continue;
                }
                last.push_back(announcement(offset, delivery));
                if u64::try_from(last.len()).is_ok_and(|length| length > count) {
                    last.pop_front();
                }
            }
        }
        if from == 0 || u64::try_from(last.len()) == Ok(count) {
            return Ok((last, Offset::At(end + 1)));
        }
        span = span.saturating_mul(8);
    }
}

fn announcement(offset: u64, delivery: Delivery) -> Announcement {
    let routing_key = delivery.properties.kind().unwrap_or(&delivery.routing_key).to_owned();
    Announcement { offset, routing_key, body: delivery.body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_stands_on_one_line_whatever_its_bytes_are() {
        let rows: [(&[u8], &str); 3] = [
            (br#"{"b":1.10,"a":2}"#, r#"{"offset":7,"routingKey":"k","event":{"b":1.10,"a":2}}"#),
            (b"{\n}", r#"{"offset":7,"routingKey":"k","event":"{\n}"}"#),
            (b"not \xff json", "{\"offset\":7,\"routingKey\":\"k\",\"event\":\"not \u{fffd} json\"}"),
        ];
        for (body, expected) in rows {
            let told = Announcement { offset: 7, routing_key: "k".to_owned(), body: body.to_vec() };
            assert_eq!(serde_json::to_string(&told).unwrap(), expected);
        }
    }
}
