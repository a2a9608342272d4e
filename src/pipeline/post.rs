//! Phase 4 under all weathers: stale books are mapped again, an outage of PostgreSQL is sat out with the deliveries in hand,
//! and an event that PostgreSQL refuses is isolated by halving, so that its neighbours are posted.

use std::time::{Duration, Instant};

use futures::future::join_all;
use sqlx::PgConnection;
use tokio_util::sync::CancellationToken;

use super::ahead::{Ahead, POST};
use super::map::{LINES_AT_ONCE_MAX, Share, lines_of, unreadable};
use super::read::Event;
use super::{Pipeline, PipelineError};
use crate::domain::disposition::{Failure, Reason};
use crate::intake::turns::{Place, Turns};
use crate::journal::{self, Committed, Item, PostError};
use crate::outbox;
use crate::platform::health::Part;
use crate::platform::metrics;
use crate::platform::postgres::Fault;
use crate::platform::time::Backoff;
use crate::store::replays::step::ReplayTurn;

/// The poster: who may post, and for how long an outage is sat out.
pub(super) struct Poster {
    /// Transactions at once; tenants are shared out among them.
    pub posters: usize,
    pub turns: Turns,
    pub ahead: Ahead,
    /// The time for which deliveries are held while PostgreSQL is away before the session is given up once.
    pub hold: Duration,
}

impl Pipeline {
    /// Posts each share in a transaction of its own. All of them end before any error is told: a transaction must not be
    /// dropped in the middle.
    pub(super) async fn post(
        &self,
        place: Place,
        shares: Vec<Share<'_>>,
        turn: Option<&ReplayTurn>,
        stop: &CancellationToken,
    ) -> Result<Committed, PipelineError> {
        let posted = join_all(shares.into_iter().map(async |share| {
            let prepared = match share.prepared {
                Some(prepared) => self.post_prepared(place, *prepared, turn, share.events.len()).await,
                None => None,
            };
            let posted = match prepared {
                Some(posted) => Ok(posted),
                None => self.post_share(place, &share.events, share.items, turn, stop).await,
            };
            (share.places, posted)
        }));
        let (mut all, mut verdicts) = (Committed::default(), Vec::new());
        for (places, posted) in posted.await {
            let posted = posted?;
            all.position = all.position.max(posted.position);
            all.batches.extend(posted.batches);
            all.entries.extend(posted.entries);
            all.freed |= posted.freed;
            verdicts.extend(places.into_iter().zip(posted.verdicts));
        }
        verdicts.sort_by_key(|(place, _)| *place);
        all.verdicts = verdicts.into_iter().map(|(_, verdict)| verdict).collect();
        Ok(all)
    }

    /// Posts a share, as often as it takes: stale books map again, an outage is sat out, poison is isolated.
    async fn post_share<'e>(
        &self,
        place: Place,
        events: &[&'e Event<'e>],
        mut mapped: Option<Vec<Item<'e>>>,
        turn: Option<&ReplayTurn>,
        stop: &CancellationToken,
    ) -> Result<Committed, PipelineError> {
        let mut outage = Outage::new(self.poster.hold);
        loop {
            let mut items = match mapped.take() {
                Some(items) => items,
                None => self.mapper.items(events).await,
            };
            if events.len() > 1 && lines_of(&items) > LINES_AT_ONCE_MAX {
                let second = items.split_off(events.len() / 2);
                return self.post_halves(place, events, [Some(items), Some(second)], turn, stop).await;
            }
            let (sqlstate, message) = match self.try_post(place, items, turn, &mut outage, stop).await? {
                Attempt::Done(posted) => return Ok(posted),
                Attempt::Again => continue,
                Attempt::Refused { sqlstate, message } => (sqlstate, message),
            };
            if let [event] = events {
                let failure = Failure::new(Reason::DatabaseRefused, format!("SQLSTATE {sqlstate}: {message}"));
                return self.post_refusal(place, event, failure, turn, stop).await;
            }
            // Somebody in here is refused. Halve until it is alone; the others are posted, in order.
            return self.post_halves(place, events, [None, None], turn, stop).await;
        }
    }

    /// Posts the halves of a share, one after the other, each as a share.
    async fn post_halves<'e>(
        &self,
        place: Place,
        events: &[&'e Event<'e>],
        mapped: [Option<Vec<Item<'e>>>; 2],
        turn: Option<&ReplayTurn>,
        stop: &CancellationToken,
    ) -> Result<Committed, PipelineError> {
        let (first, second) = events.split_at(events.len() / 2);
        let turns = turn.map(|turn| halved(turn, first));
        let (of_first, of_second) = (turns.as_ref().map(|turns| &turns.0), turns.as_ref().map(|turns| &turns.1));
        let [of_first_half, of_second_half] = mapped;
        let mut posted = Box::pin(self.post_share(place, first, of_first_half, of_first, stop)).await?;
        let second = Box::pin(self.post_share(place, second, of_second_half, of_second, stop)).await?;
        posted.freed |= second.freed;
        posted.verdicts.extend(second.verdicts);
        posted.batches.extend(second.batches);
        posted.entries.extend(second.entries);
        Ok(Committed { position: second.position.or(posted.position), ..posted })
    }

    /// Writes down that PostgreSQL refuses an event. A refusal of that is trouble of the server's, to be sat out.
    async fn post_refusal(
        &self,
        place: Place,
        event: &Event<'_>,
        failure: Failure,
        turn: Option<&ReplayTurn>,
        stop: &CancellationToken,
    ) -> Result<Committed, PipelineError> {
        let mut outage = Outage::new(self.poster.hold);
        loop {
            let item = unreadable(event, failure.clone(), &self.mapper.books.view());
            match self.try_post(place, vec![item], turn, &mut outage, stop).await? {
                Attempt::Done(posted) => return Ok(posted),
                Attempt::Again => {}
                Attempt::Refused { sqlstate, message } => {
                    self.sit_out(&mut outage, format!("{sqlstate} {message}"), stop).await?;
                }
            }
        }
    }

    async fn try_post(
        &self,
        place: Place,
        items: Vec<Item<'_>>,
        turn: Option<&ReplayTurn>,
        outage: &mut Outage,
        stop: &CancellationToken,
    ) -> Result<Attempt, PipelineError> {
        let right = self.poster.turns.wait(place, items.len()).await;
        let post = async |db: &mut PgConnection| journal::post(db, items, turn, outbox::properties_text).await;
        let posted = self.postgres.run(POST, post).await;
        // An outage is sat out without the right to post: another lane may have nothing to do with it.
        drop(right);
        let error = match posted {
            Ok(posted) => {
                self.health.back(Part::Postgres);
                self.posted_unprepared(&posted);
                return Ok(Attempt::Done(posted));
            }
            Err(PostError::StaleBooks) => match self.mapper.books.refresh(&self.postgres).await {
                Ok(true) => return Ok(Attempt::Again),
                // Mapped before its turn, and the batch before it has read the new books: no trouble at all.
                Ok(false) if !std::mem::replace(&mut outage.mapped_again, true) => return Ok(Attempt::Again),
                // Read anew, they are still not those of the head: somebody changes them faster than they are read.
                Ok(false) => {
                    let why = "a tenant's books change while they are read".to_owned();
                    self.sit_out(outage, why, stop).await?;
                    return Ok(Attempt::Again);
                }
                Err(journal::books::BooksError::Sql(error)) => error,
                Err(error) => {
                    self.sit_out(outage, error.to_string(), stop).await?;
                    return Ok(Attempt::Again);
                }
            },
            Err(PostError::Overtaken) => return Err(PipelineError::Overtaken),
            Err(PostError::Sql(error)) => error,
        };
        match Fault::of(&error) {
            Fault::Refused { sqlstate, message } => Ok(Attempt::Refused { sqlstate, message }),
            Fault::Away(why) => {
                self.sit_out(outage, why, stop).await?;
                Ok(Attempt::Again)
            }
        }
    }

    /// The breaker: deliveries stay unacknowledged in our hands, nothing more is taken, and no delivery count is spent.
    async fn sit_out(&self, outage: &mut Outage, why: String, stop: &CancellationToken) -> Result<(), PipelineError> {
        self.health.away(Part::Postgres, &why);
        metrics::post_retried();
        if stop.is_cancelled() {
            return Err(PipelineError::Stopped);
        }
        if outage.since.elapsed() > outage.most {
            return Err(PipelineError::HeldTooLong(why));
        }
        // Nothing is open here: the transaction is gone, the deliveries are ours until they are settled.
        tokio::select! {
            () = tokio::time::sleep(outage.backoff.delay()) => Ok(()),
            () = stop.cancelled() => Err(PipelineError::Stopped),
        }
    }
}

/// The turns of the two halves of a step.
fn halved(turn: &ReplayTurn, first: &[&Event<'_>]) -> (ReplayTurn, ReplayTurn) {
    let border = first.last().and_then(|event| event.message.place).unwrap_or(turn.from);
    (ReplayTurn { to: border, ..turn.clone() }, ReplayTurn { from: border, ..turn.clone() })
}

enum Attempt {
    Done(Committed),
    Again,
    Refused { sqlstate: String, message: String },
}

struct Outage {
    /// With the books of the moment, after those it was first mapped with were stale.
    mapped_again: bool,
    since: Instant,
    most: Duration,
    backoff: Backoff,
}

impl Outage {
    fn new(most: Duration) -> Self {
        let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        Self { mapped_again: false, since: Instant::now(), most, backoff }
    }
}
