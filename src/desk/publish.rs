//! Publishing, as a publisher ought to: persistent, confirmed, mandatory, with the tenant in a header. Events enter, the number that the broker has in a queue leaves;
//! an event that came back or was refused is named by its number and never counted. Whoever wants to know also hears what became of each event (`verdicts`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::verdicts::{LineVerdict, Verdicts};
use super::{Desk, DeskError, Server};
use crate::domain::event::{RawMessage, tenant_of};
use crate::domain::names::{EVENTS_EXCHANGE, TENANT_HEADER};
use crate::intake::Lane;
use crate::platform::amqp::{AmqpError, Connection, OutMessage, Properties, PublishOutcome, Publisher, ReplyCode};
use crate::platform::config::Config;

/// Confirms are awaited a window at a time; the gain beyond a thousand is small.
const WINDOW: usize = 1000;
/// AMQP writes the length of a name in one byte.
const NAME_BYTES_MAX: usize = 255;

/// An event as a publisher writes it down.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line {
    routing_key: String,
    body: Box<RawValue>,
    lane: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, serde_json::Value>,
}

/// An event that can be published: its body is sent as it was written.
#[derive(Debug, Clone)]
pub struct PublishedEvent {
    exchange: &'static str,
    routing_key: String,
    properties: Properties,
    body: Vec<u8>,
}

impl PublishedEvent {
    /// One line of JSON: `{"routingKey", "body", "lane"?, "headers"?}`.
    ///
    /// # Errors
    /// The line is no such event.
    pub fn parse(line: &str) -> Result<Self, DeskError> {
        let invalid = |why: String| DeskError::Invalid { why };
        let line: Line = serde_json::from_str(line).map_err(|error| invalid(error.to_string()))?;
        if line.routing_key.len() > NAME_BYTES_MAX {
            return Err(invalid(format!("`routingKey` is longer than {NAME_BYTES_MAX} bytes")));
        }
        let lane = line.lane.as_deref().unwrap_or("live");
        let lane =
            Lane::parse(lane).ok_or_else(|| invalid(format!("`lane` is `{lane}`, not live, urgent or backfill")))?;
        let mut properties = Properties::default().with_content_type("application/json");
        for (name, value) in &line.headers {
            if name.len() > NAME_BYTES_MAX {
                return Err(invalid(format!("a header's name is longer than {NAME_BYTES_MAX} bytes")));
            }
            properties = match (value, value.as_i64()) {
                (serde_json::Value::String(text), _) => properties.with_header(name, text),
                (_, Some(number)) => properties.with_number(name, number),
                (_, None) => return Err(invalid(format!("header `{name}` is neither text nor a whole number"))),
            };
        }
        let body = line.body.get().as_bytes().to_vec();
        // By the header the broker finds the queue of a tenant that has one of its own; it never looks into a body.
        if !line.headers.contains_key(TENANT_HEADER) {
            let header = |name: &str| line.headers.get(name).and_then(serde_json::Value::as_str);
            let content_type = properties.content_type();
            let raw = RawMessage { body: &body, routing_key: &line.routing_key, content_type, header: &header };
            if let Some(tenant) = tenant_of(raw) {
                properties = properties.with_header(TENANT_HEADER, tenant.as_str());
            }
        }
        Ok(Self {
            exchange: lane.exchange().unwrap_or(EVENTS_EXCHANGE),
            routing_key: line.routing_key,
            properties,
            body,
        })
    }
}

impl PublishedEvent {
    /// The text of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.properties.header(name)
    }

    /// The message as fis will read it.
    pub(super) fn raw<'a, 'h>(&'a self, header: &'h dyn Fn(&str) -> Option<&'a str>) -> RawMessage<'a, 'h> {
        let content_type = self.properties.content_type();
        RawMessage { body: &self.body, routing_key: &self.routing_key, content_type, header }
    }
}

/// The events that the broker has, and those that it did not take.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Published {
    pub confirmed: u64,
    pub failed: Vec<NotPublished>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NotPublished {
    /// The number that the event was given, from 1.
    pub line: u64,
    pub reason: String,
}

/// A publication under way. Dropping it leaves unknown what became of the events since the last confirm.
pub struct Publishing {
    connection: Connection,
    publisher: Publisher,
    /// Tells this publication's messages from those of all others.
    run: u64,
    window: Vec<(u64, OutMessage)>,
    published: Published,
    verdicts: Option<Verdicts>,
}

impl Publishing {
    /// # Errors
    /// The broker is away.
    pub async fn open(config: &Config) -> Result<Self, DeskError> {
        let connection = Connection::open(&config.amqp, "fis publish").await?;
        let publisher = Publisher::open(&connection).await?;
        let (run, window) = (fastrand::u64(..), Vec::with_capacity(WINDOW));
        Ok(Self { connection, publisher, run, window, published: Published::default(), verdicts: None })
    }

    /// Waits for the verdict on every confirmed event as well, until `deadline` has passed once: from then on nobody waits.
    ///
    /// # Errors
    /// The database is away, or of another version.
    pub async fn waiting(self, config: &Config, deadline: Duration) -> Result<Self, DeskError> {
        let verdicts = Some(Verdicts::new(Desk::open(config).await?, deadline));
        Ok(Self { verdicts, ..self })
    }

    /// The verdicts that have come since the last call, in the order of the events.
    pub fn take_verdicts(&mut self) -> Vec<LineVerdict> {
        self.verdicts.as_mut().map(Verdicts::take).unwrap_or_default()
    }

    /// The events that were taken and are not sent yet.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.window.len()
    }

    /// The events that are confirmed so far.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.published.confirmed
    }

    /// Takes one event more; a full window is sent and its confirms awaited. Returns whether that happened.
    ///
    /// # Errors
    /// The broker is away: of the events since the last confirm it is unknown.
    pub async fn add(&mut self, line: u64, event: PublishedEvent) -> Result<bool, DeskError> {
        let PublishedEvent { exchange, routing_key, properties, body } = event;
        let message_id = format!("{:016x}-{line}", self.run);
        // The broker compares it with whoever is logged in, so that fis can hold a publisher to its tenants.
        let properties = properties.with_user_id(&self.connection.user());
        let message =
            OutMessage { exchange: exchange.to_owned(), routing_key, hidden_key: None, message_id, properties, body };
        self.window.push((line, message));
        let is_full = self.window.len() == WINDOW;
        if is_full {
            self.send().await?;
        }
        Ok(is_full)
    }

    /// Sends what is left and ends the session. The verdicts that nobody has taken yet come along.
    ///
    /// # Errors
    /// The broker is away: of the events since the last confirm it is unknown.
    pub async fn finish(mut self) -> Result<(Published, Vec<LineVerdict>), DeskError> {
        let sent = self.send().await;
        let told = self.take_verdicts();
        self.connection.close().await;
        sent.map(|()| (self.published, told))
    }

    async fn send(&mut self) -> Result<(), DeskError> {
        let window = std::mem::take(&mut self.window);
        if let Some(verdicts) = &mut self.verdicts {
            verdicts.expect(&window).await?;
        }
        let (lines, messages): (Vec<u64>, Vec<OutMessage>) = window.into_iter().unzip();
        let outcomes = self.publisher.publish(&messages).await;
        let outcomes = outcomes.map_err(|error| self.published.interrupted(&messages, &error, &self.connection))?;
        let mut confirmed = BTreeSet::new();
        for (line, outcome) in lines.into_iter().zip(outcomes) {
            let reason = match outcome {
                PublishOutcome::Confirmed => {
                    self.published.confirmed += 1;
                    confirmed.insert(line);
                    continue;
                }
                PublishOutcome::Returned(reason) => {
                    format!("came back: {reason}; no queue is bound, run `fis topology apply`")
                }
                PublishOutcome::Refused => "refused: the queue is full; publish it again later".to_owned(),
            };
            self.published.failed.push(NotPublished { line, reason });
        }
        match &mut self.verdicts {
            Some(verdicts) => verdicts.wait(&confirmed).await,
            None => Ok(()),
        }
    }
}

impl Published {
    /// The error of a window whose confirms did not come.
    fn interrupted(&self, window: &[OutMessage], error: &AmqpError, connection: &Connection) -> DeskError {
        let failed = u64::try_from(self.failed.len() + window.len()).unwrap_or(u64::MAX);
        let known = format!("{} of {} events confirmed", self.confirmed, self.confirmed.saturating_add(failed));
        let exchanges: BTreeSet<&str> = window.iter().map(|message| message.exchange.as_str()).collect();
        let exchanges = exchanges.into_iter().collect::<Vec<_>>().join(" or ");
        let AmqpError::Broker { code, .. } = error else {
            let why = format!("{known}: {error}. Publish all of them again; this cannot post twice.");
            return DeskError::Away { server: Server::Broker, why };
        };
        let why = match code {
            Some(ReplyCode::NotFound) => {
                format!("{known}: exchange {exchanges} does not exist. Run `fis topology apply`, then publish again")
            }
            Some(ReplyCode::AccessRefused) => {
                let user = connection.user();
                format!("{known}: user `{user}` may not write to {exchanges}. Give it that right, then publish again")
            }
            _ => format!("{known}: {error}. Publish all of them again"),
        };
        DeskError::Refused { why: format!("{why}; this cannot post twice.") }
    }
}
