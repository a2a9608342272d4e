//! The mirror while its connection lives: reads a window, publishes it, waits for all of its confirms, and moves the cursors.
//! Connections of the pool are borrowed for a statement or two, so that nothing that posts waits for the mirror.

use std::collections::{BTreeSet, HashMap};

use sqlx::PgConnection;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::plan::{self, Stuck};
use super::{MIRROR, Mirror, MirrorError};
use crate::domain::ids::EntryPlace;
use crate::faults::crash_points::{self, crash_point};
use crate::outbox::{journal_message, messages};
use crate::platform::amqp::{AmqpError, Connection, OutMessage, PublishOutcome, Publisher};
use crate::platform::health::Part;
use crate::platform::metrics;
use crate::platform::time::Backoff;
use crate::store::mirror as store;

/// Entries in one window: what a crash repeats, and what is in memory at once. Some hundreds hide the way to the broker.
const WINDOW: usize = 250;

/// The result of a window.
enum Window {
    Empty,
    Sent,
}

impl Mirror {
    /// Keeps a channel open for as long as the connection lives.
    pub(super) async fn channels(
        &self,
        connection: &Connection,
        stuck: &mut Stuck,
        backoff: &mut Backoff,
        stop: &CancellationToken,
    ) -> Result<(), MirrorError> {
        loop {
            let error = match self.channel(connection, stuck, backoff, stop).await {
                Ok(()) => return Ok(()),
                // Only the channel is gone: the exchange is missing, for example. Where the broker is silent, the whole connection
                // goes: what it still holds must not come after what is sent anew.
                Err(MirrorError::Amqp(error)) if connection.is_connected() && !error.is_timeout() => error,
                Err(error) => return Err(error),
            };
            self.fails(&format!("{error}; `fis topology apply` declares a missing exchange"), 1);
            if self.rest(backoff.delay(), stop).await {
                return Ok(());
            }
        }
    }

    async fn channel(
        &self,
        connection: &Connection,
        stuck: &mut Stuck,
        backoff: &mut Backoff,
        stop: &CancellationToken,
    ) -> Result<(), MirrorError> {
        // Asked first, so that a missing exchange is told also while nothing is posted.
        connection.find_exchange(&self.settings.exchange).await?;
        let mut publisher = Publisher::open(connection).await?;
        let mut after = String::new();
        loop {
            if self.is_over() {
                return Ok(());
            }
            match self.window(connection, &mut publisher, stuck, &mut after).await? {
                Window::Sent => backoff.reset(),
                Window::Empty if stop.is_cancelled() => return Ok(()),
                Window::Empty => {
                    let pause = stuck.rest(Instant::now()).map_or(self.poll, |rest| rest.min(self.poll));
                    // Told to stop, it looks once more: what was posted last may have come since.
                    let _ = self.rest(pause, stop).await;
                }
            }
            if stuck.is_empty() {
                self.health.back(Part::Mirror);
            }
        }
    }

    /// One window: read, published, confirmed, remembered.
    async fn window(
        &self,
        connection: &Connection,
        publisher: &mut Publisher,
        stuck: &mut Stuck,
        after: &mut String,
    ) -> Result<Window, MirrorError> {
        let (places, messages) = self.next(stuck, after).await?;
        if messages.is_empty() {
            return Ok(Window::Empty);
        }
        publisher.send(messages);
        let outcomes = match self.confirmed(connection, publisher).await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                // The next time one message of each tenant goes ahead.
                let tenants: BTreeSet<&str> = places.iter().map(|(tenant_id, _)| tenant_id.as_str()).collect();
                tenants.into_iter().for_each(|tenant| stuck.add(tenant, Instant::now()));
                return Err(error.into());
            }
        };
        crash_point(crash_points::AFTER_MIRROR);
        let window = plan::confirm(&places, &outcomes);
        if !window.moved.is_empty() {
            // Confirmed, then remembered. A crash in between sends these again, with the same ids and bytes.
            let moved = async |db: &mut _| store::advance(db, &self.settings.exchange, &window.moved).await;
            self.postgres.run(MIRROR, moved).await?;
        }
        metrics::mirrored(window.mirrored);
        for (tenant_id, _) in &window.moved {
            stuck.remove(tenant_id.as_str());
        }
        for tenant in &window.stuck {
            stuck.add(tenant, Instant::now());
        }
        if let Some(why) = &window.why {
            self.fails(why, window.failed);
        }
        if outcomes.contains(&PublishOutcome::Refused) {
            // As the relay does: this channel may refuse for longer than the queue does.
            *publisher = Publisher::open(connection).await?;
        }
        Ok(Window::Sent)
    }

    /// The next entries and their messages, one for one. An entry that cannot be read holds up its own tenant alone.
    async fn next(
        &self,
        stuck: &mut Stuck,
        after: &mut String,
    ) -> Result<(Vec<EntryPlace>, Vec<OutMessage>), MirrorError> {
        let now = Instant::now();
        let resting = stuck.resting(now);
        let limit = i64::try_from(WINDOW).unwrap_or(i64::MAX);
        // On one connection: cursors and entries of one ledger.
        let read = async |db: &mut PgConnection| -> Result<_, sqlx::Error> {
            let due = store::due(&mut *db, &self.settings.exchange, &resting, after, limit).await?;
            stuck.keep(now, &due);
            if let Some(last) = due.last() {
                last.tenant_id.as_str().clone_into(after);
            }
            let planned = plan::places(&due, WINDOW, |tenant| stuck.contains(tenant));
            let entries = if planned.is_empty() { HashMap::new() } else { messages::read(db, &planned).await? };
            Ok((planned, entries))
        };
        let (planned, entries) = self.postgres.run(MIRROR, read).await?;
        let (mut places, mut messages) = (Vec::with_capacity(planned.len()), Vec::with_capacity(planned.len()));
        let mut broken = None;
        for place in planned {
            if broken.as_ref() == Some(&place.0) {
                continue;
            }
            let Some(entry) = entries.get(&place) else {
                let why = format!("entry {}/{} is missing or unreadable; run `fis verify`", place.0, place.1);
                self.fails(&why, 1);
                stuck.add(place.0.as_str(), Instant::now());
                broken = Some(place.0);
                continue;
            };
            let message = journal_message(entry, self.tenant_keys);
            messages.push(OutMessage { exchange: self.settings.exchange.clone(), ..message });
            places.push(place);
        }
        Ok((places, messages))
    }

    /// Waits for the confirms with the broker's patience; while it has raised an alarm, for as long as that lasts.
    async fn confirmed(
        &self,
        connection: &Connection,
        publisher: &mut Publisher,
    ) -> Result<Vec<PublishOutcome>, AmqpError> {
        let timeout = publisher.timeout();
        loop {
            match tokio::time::timeout(timeout, publisher.confirmed()).await {
                Ok(confirmed) => return confirmed,
                Err(_) if connection.is_blocked() && connection.is_connected() => {
                    self.fails("the broker has raised an alarm and takes no messages", 0);
                }
                Err(_) => {
                    let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                    return Err(AmqpError::Timeout { what: "confirm", milliseconds });
                }
            }
        }
    }
}
