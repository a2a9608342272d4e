//! The relay while its channel lives: reads a part of the window, publishes it, and meanwhile removes what was confirmed. No
//! transaction is open while publishing. The order of these acts is decided in `flight`; here they are done.

use std::collections::VecDeque;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::flight::{Flight, Read};
use super::parts::{Relay, RelayError};
use crate::domain::ids::EntryPlace;
use crate::faults::crash_points::{self, crash_point};
use crate::faults::mutants::{self, mutant};
use crate::outbox::messages::Messages;
use crate::outbox::wait;
use crate::platform::amqp::{AmqpError, Connection, PublishOutcome, Publisher};
use crate::platform::health::Part;
use crate::platform::metrics;
use crate::platform::postgres::{Lease, Work};
use crate::platform::time::Backoff;
use crate::store::outbox::{self, OutboxRow, RowContent};

/// The reading and removing of rows.
const RELAY: Work = Work::of("outbox.relay");

pub(super) struct Session<'a> {
    relay: &'a Relay,
    connection: &'a Connection,
    publisher: Publisher,
    flight: Flight,
    /// One connection for as long as rows are in the air: their ids mean nothing in a ledger that was restored meanwhile. Where it is lost, so is
    /// the session, and with it everything that was known of that ledger.
    db: Option<Lease>,
    began: Instant,
    /// The time at which the session looks by itself.
    poll_at: Instant,
    /// A message was refused: nothing more leaves on this channel, see `renew`.
    refused: bool,
    /// The broker's alarm was last seen then: what waits for a confirm has waited in vain until here.
    blocked: Option<Instant>,
    /// The number of journal events in each part, oldest first.
    kinds: VecDeque<usize>,
    told: bool,
}

impl<'a> Session<'a> {
    pub async fn open(relay: &'a Relay, connection: &'a Connection) -> Result<Self, RelayError> {
        let publisher = Publisher::open(connection).await?;
        let now = Instant::now();
        Ok(Self {
            relay,
            connection,
            publisher,
            flight: Flight::new(relay.window),
            db: None,
            began: now,
            poll_at: now + relay.poll,
            refused: false,
            blocked: None,
            kinds: VecDeque::new(),
            told: false,
        })
    }

    /// Until `stop`, and then until nothing is left that could leave.
    pub async fn run(&mut self, backoff: &mut Backoff, stop: &CancellationToken) -> Result<(), RelayError> {
        self.say_well();
        loop {
            // While nothing is to be sent, nobody else would notice.
            if !self.connection.is_connected() {
                let reason = "the connection was closed".to_owned();
                return Err(AmqpError::Broker { what: "stay connected", code: None, reason }.into());
            }
            if self.connection.is_blocked() {
                self.blocked = Some(Instant::now());
                self.say_ill("the broker has raised an alarm and takes no messages");
                if wait(self.relay.poll, stop).await {
                    return Ok(());
                }
                continue;
            }
            if self.take_confirms().await? {
                backoff.reset();
            }
            if self.flight.wants_horizon(self.began.elapsed()) {
                let horizon = leased(&mut self.db, self.relay).await?.run(outbox::horizon).await?;
                self.flight.horizon(horizon, self.began.elapsed());
            }
            self.renew().await?;
            if !self.refused
                && let Some(read) = self.flight.next_read(self.began.elapsed())
            {
                self.send(&read).await?;
                continue;
            }
            if stop.is_cancelled() {
                if !self.told {
                    self.told = true;
                    self.flight.sweep();
                    continue;
                }
                if self.flight.is_idle() {
                    return Ok(());
                }
            }
            self.rest(stop).await?;
        }
    }

    /// After a refusal goes on with a new channel, as soon as everything on the old one has been heard of. A channel of RabbitMQ
    /// 3.10 that met a queue in the moment its leader died refuses whatever it is sent until that leader is back, while the
    /// queue has long had another one.
    async fn renew(&mut self) -> Result<(), RelayError> {
        if self.refused && self.publisher.waiting_since().is_none() {
            self.publisher = Publisher::open(self.connection).await?;
            self.refused = false;
        }
        Ok(())
    }

    /// Waits until there is something to do.
    async fn rest(&mut self, stop: &CancellationToken) -> Result<(), RelayError> {
        let now = Instant::now();
        let pause = self.flight.wakes_at().map(|at| self.began + at).filter(|at| *at > now);
        let confirm_by = self
            .publisher
            .waiting_since()
            .map(|since| self.blocked.map_or(since, |blocked| blocked.max(since)) + self.publisher.timeout());
        let until = [Some(self.poll_at), pause, confirm_by].into_iter().flatten().min().unwrap_or(self.poll_at);
        let mut outcomes = None;
        // Nothing is lost by what is dropped here: the publisher keeps the confirms, the bell its ring.
        tokio::select! {
            confirmed = self.publisher.confirmed() => outcomes = Some(confirmed?),
            () = self.relay.handover.rung() => self.flight.stir(),
            () = tokio::time::sleep_until(until) => {}
            () = stop.cancelled(), if !self.told => {}
        }
        if let Some(outcomes) = outcomes {
            return self.confirm(vec![outcomes]).await;
        }
        let now = Instant::now();
        if now >= self.poll_at {
            self.poll_at = now + self.relay.poll;
            self.flight.stir();
        }
        match confirm_by {
            Some(limit) if now >= limit && !self.connection.is_blocked() => {
                let milliseconds = u64::try_from(self.publisher.timeout().as_millis()).unwrap_or(u64::MAX);
                Err(AmqpError::Timeout { what: "confirm", milliseconds }.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Reads a part and publishes it.
    async fn send(&mut self, read: &Read) -> Result<(), RelayError> {
        let relay = self.relay;
        let db = leased(&mut self.db, relay).await?;
        let rows = db.run(async |db| outbox::rows(db, read).await).await?;
        self.poll_at = Instant::now() + relay.poll;
        let taken = self.flight.take(read, rows);
        if taken.is_empty() {
            return Ok(());
        }
        let known = relay.handover.take(relay.postgres.connections(), &entry_places(&taken));
        let mut made = db.run(async |db| Messages::of(&taken, db, known, relay.tenant_keys).await).await?;
        for id in &made.broken {
            let why = "a message cannot be made: its journal entry is missing or unreadable; run `fis verify`";
            tracing::error!(outbox.id = id, "{why}");
            relay.health.away(Part::BrokerOut, why);
        }
        let leaving = self.flight.depart(taken, &made.broken, self.began.elapsed());
        metrics::unconfirmed(count(made.broken.len()));
        metrics::tenants_waiting(self.flight.troubled());
        if leaving.is_empty() {
            return Ok(());
        }
        self.kinds.push_back(entries(&leaving));
        self.publisher.send(leaving.iter().filter_map(|row| made.take(row)).collect());
        if mutant(mutants::MARK_BEFORE_CONFIRM) {
            let sent: Vec<i64> = leaving.iter().map(|row| row.id).collect();
            db.run(async |db| outbox::remove(db, &sent).await).await?;
        }
        Ok(())
    }

    /// Removes whatever is confirmed by now; true: something was.
    async fn take_confirms(&mut self) -> Result<bool, RelayError> {
        let mut parts = Vec::new();
        while let Some(outcomes) = self.publisher.confirmed_now() {
            parts.push(outcomes?);
        }
        let any = !parts.is_empty();
        if any {
            self.confirm(parts).await?;
        }
        Ok(any)
    }

    async fn confirm(&mut self, parts: Vec<Vec<PublishOutcome>>) -> Result<(), RelayError> {
        crash_point(crash_points::AFTER_PUBLISH);
        let (mut done, mut again) = (Vec::new(), 0);
        for outcomes in parts {
            let part = self.flight.confirm(&outcomes, self.began.elapsed());
            let journal = self.kinds.pop_front().unwrap_or_default();
            self.say(&outcomes);
            if part.again == 0 {
                metrics::published("journal", count(journal));
                metrics::published("message", count(outcomes.len().saturating_sub(journal)));
            }
            again += part.again;
            done.extend(part.done);
        }
        metrics::unconfirmed(count(again));
        if !done.is_empty() {
            // Confirmed, then removed. A crash in between sends these again, with the same ids and bytes.
            let db = leased(&mut self.db, self.relay).await?;
            db.run(async |db| outbox::remove(db, &done).await).await?;
            self.flight.removed(&done);
        }
        metrics::tenants_waiting(self.flight.troubled());
        if self.flight.troubled() == 0 {
            self.say_well();
        }
        Ok(())
    }

    fn say(&mut self, outcomes: &[PublishOutcome]) {
        self.refused |= outcomes.contains(&PublishOutcome::Refused);
        for outcome in outcomes {
            let why = match outcome {
                PublishOutcome::Confirmed => continue,
                PublishOutcome::Returned(reason) => format!("a message came back: {reason}; run `fis topology check`"),
                PublishOutcome::Refused => {
                    "the broker refused a message: a queue is full or has lost its majority".to_owned()
                }
            };
            self.say_ill(&why);
            break;
        }
    }

    fn say_well(&self) {
        self.relay.health.back(Part::BrokerOut);
    }

    fn say_ill(&self, why: &str) {
        self.relay.health.away(Part::BrokerOut, why);
    }
}

async fn leased<'d>(db: &'d mut Option<Lease>, relay: &Relay) -> Result<&'d mut Lease, sqlx::Error> {
    match db {
        Some(db) => Ok(db),
        None => Ok(db.insert(relay.postgres.lease(RELAY).await?)),
    }
}

fn entry_places(rows: &[OutboxRow]) -> Vec<EntryPlace> {
    let place = |row: &OutboxRow| match &row.content {
        RowContent::Entry { tenant_id, seq } => Some((tenant_id.clone(), *seq)),
        RowContent::Message { .. } | RowContent::Unreadable => None,
    };
    rows.iter().filter_map(place).collect()
}

fn entries(rows: &[OutboxRow]) -> usize {
    rows.iter().filter(|row| matches!(row.content, RowContent::Entry { .. })).count()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
