//! The inbox: messages that are in PostgreSQL already and are to be posted. Held events that are due and letters of running replays enter in
//! batches; the transaction that decides them removes or moves their rows. Nothing is under way: a crash anywhere leaves an event
//! waiting, and an instance that was overtaken finds its rows gone.
//!
//! The inbox is a lane among the lanes, of the weight of the backfill lane. One instance at a time follows it, by a lease that saves work
//! and decides nothing. Tenants take turns, so do replays, and a live event never waits for more than one short batch.

mod alone;
mod pace;
mod work;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use tokio_util::sync::CancellationToken;

use super::message::WaitingMessage;
use super::{Pipeline, PipelineError};
use crate::domain::names::INBOX_LEASE;
use crate::faults::crash_points::{self, crash_point};
use crate::faults::mutants::{self, mutant};
use crate::intake::Lane;
use crate::intake::turns::Precedence;
use crate::journal::Came;
use crate::parking::imagined;
use crate::platform::postgres::{Postgres, Work};
use crate::platform::time;
use crate::store::held::{self, DueEvent, TenantTurn};
use crate::store::leases::{self, Taken};
use crate::store::replays;
use crate::store::replays::step::{self, PlaceMessage, ReplayTurn, RunningReplay};
use pace::{Pace, canary_step};
use work::{Batch, Road};

/// The reading of the inbox, and its lease.
const INBOX: Work = Work::of("pipeline.inbox");

/// The interval at which the inbox looks by itself: commands of another process put something into it.
const POLL: Duration = Duration::from_millis(200);
/// An instance that has not said for so long that it lives has lost the inbox to the next one.
const LEASE_SECONDS: i32 = 5;
const LEASE_RENEWED: Duration = Duration::from_secs(1);
/// The messages that are read at once, and posted in batches.
const READ_MAX: i64 = 1_000;
/// The messages after which it is the next one's turn: other tenants, another replay.
const TURN_MAX: i64 = 5_000;
const READ_BYTES_MAX: i64 = 8 * 1024 * 1024;
/// The tenants that share a read.
const TENANTS_MAX: i64 = 8;
/// The largest batch while no lane of greater weight is at work.
const BATCH_MAX: usize = 500;
/// The largest batch while one is, and has a backlog.
const GIVING_WAY_MAX: usize = 100;
/// The largest batch beside a lane without a backlog: it delays an event of that lane by a few milliseconds.
const PAUSING_MAX: usize = 50;

#[derive(Debug, thiserror::Error)]
pub enum InboxError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
}

/// Tells whether nothing in the inbox is due and no replay runs.
///
/// # Errors
/// The database is away.
pub async fn is_empty(db: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let (next_due, replays) = held::next_due(db).await?;
    Ok(!replays && next_due.is_none_or(|due| due > time::now()))
}

/// The follower of the inbox in one instance.
pub struct Inbox {
    pipeline: Arc<Pipeline>,
    postgres: Postgres,
    /// The name of this instance in the lease.
    owner: String,
    /// The lease was taken or prolonged then; `None`: another instance may have it.
    leased: Option<Instant>,
    /// The instances that died while they followed the inbox, since held events were last brought to their end.
    deaths: i32,
    /// The tenant whose turn was last.
    last_tenant: String,
    paces: HashMap<i64, Pace>,
}

/// What there is to do.
struct Look {
    is_due: bool,
    next_due: Option<Duration>,
    replays: Vec<RunningReplay>,
}

impl Inbox {
    #[must_use]
    pub fn new(pipeline: Arc<Pipeline>, postgres: Postgres) -> Self {
        let owner = format!("{:016x}", fastrand::u64(..));
        Self { pipeline, postgres, owner, leased: None, deaths: 0, last_tenant: String::new(), paces: HashMap::new() }
    }

    /// Follows the inbox until `stop`. What is in hand then is finished.
    ///
    /// # Errors
    /// The database is away, or a batch could not be brought to its end. What is not decided waits.
    pub async fn follow(&mut self, stop: &CancellationToken) -> Result<(), InboxError> {
        let followed = self.turns(stop).await;
        if self.leased.take().is_some() {
            let give_back = async |db: &mut PgConnection| leases::give_back(db, INBOX_LEASE, &self.owner).await;
            // It ends by itself in a few seconds.
            let _ = self.postgres.run(INBOX, give_back).await;
        }
        followed
    }

    async fn turns(&mut self, stop: &CancellationToken) -> Result<(), InboxError> {
        while !stop.is_cancelled() {
            let Look { is_due, next_due, replays } = self.look().await?;
            self.paces.retain(|id, _| replays.iter().any(|replay| replay.id == *id));
            // Where our clock says that something is due and the database's does not yet, the next look is soon enough.
            let mut rest = next_due.filter(|due| !due.is_zero()).map_or(POLL, |due| due.min(POLL));
            if is_due || !replays.is_empty() {
                match self.lease().await? {
                    Taken::No => rest = POLL,
                    // A replay may have been paused by that.
                    Taken::Inherited => continue,
                    Taken::Ours => {
                        let mut moved = is_due
                            && match self.deaths < alone::DEATHS_FEARED {
                                true => self.retry(stop).await?,
                                false => self.retry_alone(stop).await?,
                            };
                        for replay in &replays {
                            match self.replay(replay, stop).await? {
                                Some(wait) => rest = rest.min(wait),
                                None => moved = true,
                            }
                        }
                        if moved {
                            continue;
                        }
                    }
                }
            }
            // Nothing is held here: what was taken is decided.
            tokio::select! {
                () = tokio::time::sleep(rest.max(Duration::from_millis(1))) => {}
                () = self.pipeline.due.notified() => {}
                () = stop.cancelled() => {}
            }
        }
        Ok(())
    }

    async fn look(&self) -> Result<Look, InboxError> {
        let look = async |db: &mut PgConnection| {
            let (next_due, replays) = held::next_due(&mut *db).await?;
            let replays = if replays { step::running(db).await? } else { Vec::new() };
            Ok::<_, sqlx::Error>((next_due, replays))
        };
        let (next_due, replays) = self.postgres.run(INBOX, look).await?;
        let next_due = next_due.map(|due| (due - time::now()).to_std().unwrap_or_default());
        Ok(Look { is_due: next_due.is_some_and(|due| due.is_zero()), next_due, replays })
    }

    async fn lease(&mut self) -> Result<Taken, InboxError> {
        let is_fresh = self.leased.is_some_and(|since| since.elapsed() < LEASE_RENEWED);
        if is_fresh || mutant(mutants::LEASE_IGNORED) {
            return Ok(Taken::Ours);
        }
        let asked = Instant::now();
        let take = async |db: &mut PgConnection| {
            let mut transaction = db.begin().await?;
            let (taken, deaths) = leases::take(&mut transaction, INBOX_LEASE, &self.owner, LEASE_SECONDS).await?;
            if taken == Taken::Inherited {
                replays::count_death(&mut transaction).await?;
            }
            transaction.commit().await?;
            Ok::<_, sqlx::Error>((taken, deaths))
        };
        let (taken, deaths) = self.postgres.run(INBOX, take).await?;
        self.leased = (taken != Taken::No).then_some(asked);
        self.deaths = deaths;
        Ok(taken)
    }

    /// The next tenants that have something due, in turns.
    async fn next_tenants(&mut self, most: i64) -> Result<Vec<TenantTurn>, InboxError> {
        let after = self.last_tenant.clone();
        let find = async |db: &mut PgConnection| {
            let tenants = held::due_tenants(&mut *db, &after, most).await?;
            if tenants.is_empty() { held::due_tenants(db, "", most).await } else { Ok(tenants) }
        };
        let tenants: Vec<String> = self.postgres.run(INBOX, find).await?;
        self.last_tenant = tenants.last().cloned().unwrap_or_default();
        Ok(tenants.into_iter().map(TenantTurn::new).collect())
    }

    /// Posts held events that are due, of some tenants. False: there were none.
    async fn retry(&mut self, stop: &CancellationToken) -> Result<bool, InboxError> {
        let mut turns = self.next_tenants(TENANTS_MAX).await?;
        let mut road = Road::default();
        let (mut read, mut turn_ends, mut going) = (0, TURN_MAX, !turns.is_empty());
        while going {
            if read >= turn_ends {
                // Nobody else waits: the road stays full.
                if !(self.are_alone(&turns).await? && self.lease().await? == Taken::Ours) {
                    break;
                }
                turn_ends += TURN_MAX;
            }
            let (size, is_free) = self.size();
            let each = most(size) / i64::try_from(turns.len()).unwrap_or(1).max(1);
            let events = async |db: &mut PgConnection| held::due_events(db, &turns, each.max(1), READ_BYTES_MAX).await;
            let due = self.postgres.run(INBOX, events).await?;
            turns.iter_mut().for_each(|turn| turn.go_on(&due));
            read += i64::try_from(due.len()).unwrap_or(TURN_MAX);
            going = is_free && !due.is_empty() && !stop.is_cancelled();
            let messages: Vec<WaitingMessage> = due.into_iter().map(waiting).collect();
            if !messages.is_empty() {
                crash_point(crash_points::INBOX_READ);
                going &= self.travel(&mut road, Batch::cut(messages, None, size), stop).await;
            }
        }
        road.end().await?;
        self.all_is_well().await?;
        Ok(read > 0)
    }

    /// Decides the next letters of a replay. A duration: its rate allows none before.
    async fn replay(
        &mut self,
        replay: &RunningReplay,
        stop: &CancellationToken,
    ) -> Result<Option<Duration>, InboxError> {
        let mut road = Road::default();
        let (mut at, mut turn_ends, mut going) = (replay.decided, replay.decided + TURN_MAX, true);
        while going {
            if at >= turn_ends {
                // Nobody else waits: the road stays full.
                if !(self.is_alone(replay.id).await? && self.lease().await? == Taken::Ours) {
                    break;
                }
                turn_ends = at + TURN_MAX;
            }
            let (size, is_free) = self.size();
            let canary = canary_step(replay);
            let mut most = most(size).min(canary.unwrap_or(READ_MAX));
            let now = Instant::now();
            if let Some(rate) = replay.rate.map(i64::from) {
                let pace = self.paces.entry(replay.id).or_insert_with(|| Pace::new(now));
                most = most.min(pace.allowed(rate, now));
                if most < 1 {
                    return Ok(Some(pace.until_next(rate)));
                }
            }
            let read = async |db: &mut PgConnection| step::places(db, replay.id, at, most, READ_BYTES_MAX).await;
            let step::Places { messages, to } = self.postgres.run(INBOX, read).await?;
            crash_point(crash_points::INBOX_READ);
            if let Some(pace) = self.paces.get_mut(&replay.id) {
                pace.spent(i64::try_from(messages.len()).unwrap_or(i64::MAX));
            }
            let turn = ReplayTurn {
                replay_id: replay.id,
                by: replay.by.clone(),
                why: replay.why.clone(),
                from: at,
                // A selection that lost its places has nothing left to decide.
                to: if to == at { replay.letters } else { to },
                canary: canary.is_some(),
            };
            at = turn.to;
            // The verdicts of a step are waited for where they decide about the next one.
            going = is_free && canary.is_none() && replay.rate.is_none() && at < replay.letters && !stop.is_cancelled();
            let messages: Vec<WaitingMessage> = messages.into_iter().map(replayed).collect();
            if !self.travel(&mut road, Batch::cut(messages, Some(turn), size), stop).await {
                break;
            }
        }
        match road.end().await {
            // Paused, stopped, or taken over: the next look tells.
            Err(PipelineError::Overtaken) => Ok(Some(POLL)),
            ended => Ok(ended.map(|()| None)?),
        }
    }

    /// Tells whether what is held of these tenants is all there is to do.
    async fn are_alone(&mut self, turns: &[TenantTurn]) -> Result<bool, InboxError> {
        let due = self.next_tenants(TENANTS_MAX).await?;
        let is_known = |next: &TenantTurn| turns.iter().any(|turn| turn.tenant_id == next.tenant_id);
        Ok(self.look().await?.replays.is_empty() && due.iter().all(is_known))
    }

    /// Tells whether this replay is all there is to do.
    async fn is_alone(&self, replay: i64) -> Result<bool, InboxError> {
        let Look { is_due, replays, .. } = self.look().await?;
        Ok(!is_due && matches!(replays.as_slice(), [only] if only.id == replay))
    }

    /// The size of a batch, and whether no lane of greater weight is at work.
    fn size(&self) -> (usize, bool) {
        match self.pipeline.poster.turns.precedence(Lane::Inbox) {
            Precedence::Free => (BATCH_MAX, true),
            Precedence::Short => (GIVING_WAY_MAX, false),
            Precedence::Pausing(_) => (PAUSING_MAX, false),
        }
    }
}

/// The messages to read at once, for batches of this size: one is posted while another one is mapped.
fn most(size: usize) -> i64 {
    i64::try_from(2 * size).unwrap_or(READ_MAX).min(READ_MAX)
}

fn waiting(due: DueEvent) -> WaitingMessage {
    WaitingMessage {
        delivery: imagined(&due.routing_key, &due.properties, due.body),
        came: Came::FromHeld { row: due.row, due_at: due.due_at, counted: due.counted, letter: due.letter },
        lane: Lane::parse(&due.lane).unwrap_or(Lane::Backfill),
        received_at: due.received_at,
        place: None,
    }
}

fn replayed(place: PlaceMessage) -> WaitingMessage {
    WaitingMessage {
        delivery: imagined(&place.routing_key, &place.properties, place.body),
        came: Came::FromLetter { copy: place.copy, day: place.received_on },
        lane: Lane::parse(&place.lane).unwrap_or(Lane::Backfill),
        received_at: place.first_seen_at,
        place: Some(place.n),
    }
}
