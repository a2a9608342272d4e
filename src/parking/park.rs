//! From the dead-letter queue into the table. A letter that the pipeline rejected is recorded already, in the transaction
//! that rejected it; what the broker dead-lettered by itself is recorded here, with the broker's reason.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{Connection as _, PgConnection};
use tokio_util::sync::CancellationToken;

use super::letter::{EventFacts, dead_letter};
use crate::domain::dead_letter::{DeadLetter, money_of};
use crate::domain::disposition::{Failure, Reason};
use crate::domain::event::{Identity, RawMessage, decode};
use crate::domain::ids::TenantId;
use crate::domain::names::{BACKFILL_QUEUE, DEAD_LETTER_QUEUE, INGESTION_QUEUE, TENANT_QUEUES, URGENT_QUEUE};
use crate::domain::outbound::rejected_event;
use crate::faults::crash_points::{self, crash_point};
use crate::platform::amqp::{AmqpError, Connection, Consumer, Delivery, Limits, Prefetch, Receiver};
use crate::platform::health::{Health, Part};
use crate::platform::postgres::{Postgres, Work, error_text};
use crate::platform::time::{self, Backoff};
use crate::platform::{config, metrics};
use crate::store::dead_letters::{self, LetterRow};
use crate::store::ledger;
use crate::store::outbox::{PropertiesText, insert_announcements};

/// The recording of dead letters.
const PARK: Work = Work::of("parking.park");

/// Dead letters per batch; their bodies are held twice while they are written.
const LETTERS_MAX: u16 = 500;

#[derive(Debug, thiserror::Error)]
enum ParkError {
    #[error(transparent)]
    Amqp(#[from] AmqpError),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

pub struct Parking {
    pub postgres: Postgres,
    pub amqp: config::Amqp,
    pub intake: config::Intake,
    pub default_tenant: Option<TenantId>,
    pub health: Health,
    pub properties: PropertiesText,
    pub day: TenantDay,
}

/// The tenant's day at an instant; given by the caller, because only the books know its zone.
pub type TenantDay = Box<dyn Fn(&TenantId, DateTime<Utc>) -> NaiveDate + Send + Sync>;

impl Parking {
    /// Parks until `stop`. While PostgreSQL is away the letters wait in their queue.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
        let mut failed_before = false;
        loop {
            match self.session(stop, &mut backoff).await {
                Ok(()) => return,
                Err(error) => {
                    match &error {
                        ParkError::Sql(error) => self.health.away(Part::Postgres, &error_text(error)),
                        // The intake tells that the broker is lost; only what parking alone cannot do is told here.
                        ParkError::Amqp(_) if failed_before && !self.health.is_away(Part::BrokerIn) => {
                            tracing::warn!(error = %error, "dead letters cannot be taken from the broker, trying again");
                        }
                        ParkError::Amqp(_) => {}
                    }
                    failed_before = true;
                    tracing::debug!(error = %error, "parking lost its session, trying again");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.delay()) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn session(&self, stop: &CancellationToken, backoff: &mut Backoff) -> Result<(), ParkError> {
        // Only with a database to park in; otherwise each session would spend the letters' delivery counts.
        self.postgres.run(PARK, ledger::probe).await?;
        let connection = Connection::open(&self.amqp, "fis parking").await?;
        let mut receiver = self.receiver(&connection).await;
        let ended = match &mut receiver {
            Ok(receiver) => self.follow(receiver, stop, backoff).await,
            Err(_) => Ok(()),
        };
        // The consumer stays until then: one that is dropped would still be cancelled, on a channel that closes.
        connection.close().await;
        receiver?;
        ended
    }

    async fn receiver(&self, connection: &Connection) -> Result<Receiver, AmqpError> {
        let intake = config::Intake { prefetch: LETTERS_MAX, prefetch_max: LETTERS_MAX, ..self.intake.clone() };
        let prefetch = Prefetch::new(&intake);
        let consumer = Consumer::open(connection, DEAD_LETTER_QUEUE, prefetch.now()).await?;
        let limits = Limits { events_max: usize::from(LETTERS_MAX), ..Limits::new(&self.intake) };
        Ok(Receiver::new(consumer, limits).adapting(prefetch))
    }

    async fn follow(
        &self,
        receiver: &mut Receiver,
        stop: &CancellationToken,
        backoff: &mut Backoff,
    ) -> Result<(), ParkError> {
        while let Some(batch) = receiver.next_batch(stop).await? {
            let is_silent = batch.is_empty();
            if !is_silent {
                self.park(receiver, &batch).await?;
                backoff.reset();
            }
            if is_silent || receiver.wants_restart() {
                self.restart(receiver).await?;
            }
        }
        Ok(())
    }

    /// Consumes anew: what the broker has sent already is parked first.
    async fn restart(&self, receiver: &mut Receiver) -> Result<(), ParkError> {
        receiver.consumer().cancel().await?;
        let never = CancellationToken::new();
        loop {
            match receiver.next_batch(&never).await {
                Ok(Some(batch)) if batch.is_empty() => {}
                Ok(Some(batch)) => self.park(receiver, &batch).await?,
                Ok(None) | Err(AmqpError::Cancelled { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        receiver.restart().await?;
        Ok(())
    }

    async fn park(&self, receiver: &Receiver, batch: &[Delivery]) -> Result<(), ParkError> {
        let letters = batch.iter().map(|delivery| unrecorded(delivery, self.default_tenant.as_ref()));
        // What the pipeline rejected is recorded; what the broker gave up by itself is news, even of a letter that was
        // resolved or discarded before.
        let (own, rejected): (Vec<_>, Vec<_>) = letters.partition(|found| found.by_broker);
        let strip = |found: Vec<Unrecorded>| found.into_iter().map(|one| one.letter).collect::<Vec<_>>();
        let new = self.record(strip(rejected), strip(own)).await?;
        crash_point(crash_points::AFTER_PARK);
        receiver.consumer().settler().settle(batch, |_| false).await?;
        metrics::parked(false, new);
        metrics::parked(true, (batch.len() as u64).saturating_sub(new));
        Ok(())
    }
}

impl Parking {
    /// Writes the letters down, and tells the publishers of those that nobody has told: in one transaction. Returns how many
    /// were news.
    async fn record(&self, rejected: Vec<DeadLetter>, own: Vec<DeadLetter>) -> Result<u64, sqlx::Error> {
        let now = time::now();
        let record = async |db: &mut PgConnection| {
            let mut transaction = db.begin().await?;
            let mut new = dead_letters::insert_unrecorded(&mut transaction, &self.rows(&rejected, now), now).await?;
            new.extend(dead_letters::upsert_given_up(&mut transaction, &self.rows(&own, now), now).await?);
            let count = u64::try_from(new.len()).unwrap_or(u64::MAX);
            // The same letter twice in a batch is one rejection: its id is taken out by the first. The publisher need not care who refused an event.
            let news = rejected.iter().chain(&own).filter(|letter| new.remove(&letter.id)).enumerate();
            let told: Vec<_> = news.map(|(index, letter)| rejected_event(letter, now, index)).collect();
            insert_announcements(&mut transaction, &told, self.properties).await?;
            transaction.commit().await?;
            Ok(count)
        };
        self.postgres.run(PARK, record).await
    }

    /// Each letter once (an upsert cannot touch a row twice), with the day on which its tenant received it.
    fn rows<'a>(&self, letters: &'a [DeadLetter], now: DateTime<Utc>) -> Vec<LetterRow<'a>> {
        let mut seen = HashSet::with_capacity(letters.len());
        let unique = letters.iter().filter(|letter| seen.insert(letter.id.as_str()));
        let row = |letter: &'a DeadLetter| {
            let received_on = letter.identity.tenant_id.as_ref().map(|tenant| (self.day)(tenant, now));
            // Whoever names no tenant has no zone but UTC.
            let event_date = Some(received_on.unwrap_or_else(|| now.date_naive()));
            LetterRow { letter, attempts: 1, received_on, event_date, deliveries: 0, replay_id: None }
        };
        unique.map(row).collect()
    }
}

/// The letter as it would be recorded if nobody had.
struct Unrecorded {
    letter: DeadLetter,
    /// The broker gave it up by itself.
    by_broker: bool,
}

fn unrecorded(delivery: &Delivery, default_tenant: Option<&TenantId>) -> Unrecorded {
    let death = delivery.properties.death();
    let routing_key =
        death.as_ref().and_then(|death| death.routing_key.clone()).unwrap_or_else(|| delivery.routing_key.clone());
    let by_broker = death.as_ref().is_some_and(|death| death.reason != "rejected");
    let header = |name: &str| delivery.properties.header(name);
    let message = RawMessage {
        body: &delivery.body,
        routing_key: &routing_key,
        content_type: delivery.properties.content_type(),
        header: &header,
    };
    let (facts, failure) = match decode(message, default_tenant) {
        Ok(event) => {
            let (queue, reason) =
                death.as_ref().map_or(("somewhere", "unknown"), |death| (&death.queue, &death.reason));
            let failure =
                Failure::new(Reason::DeliveryLimit, format!("the broker dead-lettered it from {queue}: {reason}"));
            let money = money_of(&event.payload);
            let identity = Identity {
                tenant_id: Some(event.tenant_id),
                event_id: Some(event.event_id),
                event_type: Some(event.event_type),
                correlation_id: event.correlation_id,
            };
            (EventFacts { identity, money, payload_hash: Some(event.payload_hash) }, failure)
        }
        Err(undecodable) => {
            (EventFacts { identity: undecodable.identity, ..EventFacts::default() }, undecodable.failure)
        }
    };
    let lane = lane_of(death.as_ref().map_or("", |death| &death.queue));
    Unrecorded { letter: dead_letter(delivery, &routing_key, lane, facts, failure), by_broker }
}

fn lane_of(queue: &str) -> &'static str {
    match queue {
        URGENT_QUEUE => "urgent",
        INGESTION_QUEUE => "live",
        BACKFILL_QUEUE => "backfill",
        own if own.starts_with(TENANT_QUEUES) => "live",
        _ => "unknown",
    }
}
