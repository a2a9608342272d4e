//! The stream, event by event. A place to begin enters, announcements leave one at a time. Reading a stream holds nothing that could be
//! lost: a tail may be dropped at any moment.

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::Offset;
use super::walk::Walk;
use crate::desk::DeskError;
use crate::domain::ids::TenantId;
use crate::domain::names::TENANT_HEADER;
use crate::platform::amqp::{Connection, Delivery};
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

/// A reading of the stream under way.
pub struct Tail {
    connection: Connection,
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
        let connection = Connection::open(&config.amqp, "fis feed tail").await?;
        let walk = if request.once {
            Walk::to_the_end(&connection, request.from).await?
        } else {
            Some(Walk::for_ever(&connection, request.from).await?)
        };
        Ok(Self { connection, walk, tenant: request.tenant, left: request.limit })
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// The session is lost, or the broker is silent before the end.
    pub async fn next(&mut self) -> Result<Option<Announcement>, DeskError> {
        let Some(walk) = &mut self.walk else { return Ok(None) };
        if self.left == Some(0) {
            return Ok(None);
        }
        while let Some((offset, delivery)) = walk.next().await? {
            let of = delivery.properties.header(TENANT_HEADER);
            if self.tenant.as_ref().is_some_and(|tenant| of != Some(tenant.as_str())) {
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
