//! Replays: choose, start, go on, give up. A filter is frozen first, so that what was shown is what is sent; success is *resolved*, never
//! merely sent; whatever ends a replay, its report says what is where. Nothing is sent that nobody has confirmed.

use super::feed::{End, Feed, Watch};
use super::look::LetterMoney;
use super::{Filter, Progress, ReasonCount, ReplayLine, ReplayPace, parked};
use crate::desk::{Desk, DeskError};
use crate::domain::letter::ReplayState;
use crate::domain::operator::Operator;
use crate::parking::follow::{progress, release};
use crate::parking::replay::set_state;
use crate::parking::selection::choose;
use crate::store::operator_log::failures;
use crate::store::replays::{Replay, find, money, newest};

/// The most letters a second that may be asked for.
const RATE_MAX: i32 = 1_000_000;
/// The most replays in a list.
const REPLAYS_MAX: i64 = 10_000;

/// A selection that is to be frozen.
#[derive(Debug)]
pub struct ChooseLetters {
    pub filter: Filter,
    /// All that is parked is meant where the filter names nothing.
    pub all: bool,
    pub manner: ReplayPace,
    pub operator: Operator,
}

/// A frozen selection.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplaySelection {
    pub replay_id: i64,
    pub letters: i64,
    pub selection: String,
    pub money: LetterMoney,
}

/// The word to send a chosen selection, or to leave it.
#[derive(Debug)]
pub struct StartReplay {
    pub replay_id: i64,
    pub confirmed: bool,
    pub operator: Operator,
}

/// A replay that was interrupted, or is only to be followed to its end.
#[derive(Debug)]
pub struct ResumeReplay {
    pub replay_id: i64,
    /// Goes before the manner that the replay was chosen with.
    pub manner: ReplayPace,
    pub operator: Operator,
}

#[derive(Debug)]
pub struct ReleaseReplay {
    pub replay_id: i64,
    pub confirmed: bool,
    pub operator: Operator,
}

/// The state of a replay when its feeding ended.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayReport {
    pub replay_id: i64,
    pub end: End,
    pub progress: Progress,
    /// Sent and not heard of.
    pub under_way: i64,
    /// Letters that failed again, by reason, most frequent first.
    pub failures: Vec<ReasonCount>,
}

impl ReplayReport {
    /// True where everything came to the end that was asked for.
    #[must_use]
    pub fn is_well(&self) -> bool {
        match self.end {
            End::Done => self.progress.failed == 0,
            End::Sent | End::Released => true,
            End::Interrupted | End::Failures | End::Held | End::Silence => false,
        }
    }
}

/// A replay that was given up.
#[derive(Debug, serde::Serialize)]
pub struct ReleasedReplay {
    #[serde(flatten)]
    pub report: ReplayReport,
    /// Letters that are parked again.
    #[serde(skip)]
    pub released: u64,
    /// Letters that were chosen.
    #[serde(skip)]
    pub letters: i64,
}

/// Replays, newest first.
#[derive(Debug, serde::Serialize)]
pub struct Replays {
    pub replays: Vec<ReplayLine>,
}

impl Desk {
    /// Freezes what the filter means now. Nothing is sent; a selection of nothing is over at once.
    ///
    /// # Errors
    /// Nothing is named, the manner cannot be meant, or the database is away.
    pub async fn choose_letters(&self, request: &ChooseLetters) -> Result<ReplaySelection, DeskError> {
        let filter = parked(&request.filter, request.all)?;
        let ReplayPace { canary, rate, max_failures } = checked(request.manner)?;
        // A canary that fails is what it is for.
        let manner = ReplayPace { canary, rate, max_failures: max_failures.or(canary.then_some(0)) };
        let pool = &self.postgres.pool;
        let replay = choose(pool, &filter, &request.operator, manner).await?;
        if replay.letters == 0 {
            set_state(pool, replay.id, ReplayState::Cancelled).await?;
        }
        self.selection(replay).await
    }

    /// A replay as it was chosen.
    ///
    /// # Errors
    /// There is none, or the database is away.
    pub async fn replay(&self, id: i64) -> Result<ReplaySelection, DeskError> {
        self.selection(self.find_replay(id).await?).await
    }

    /// Sends a chosen selection step by step, and watches what becomes of it.
    ///
    /// # Errors
    /// Nobody has confirmed it, and it is cancelled; it was started or given up before; or the database is away, and what is not sent is
    /// parked.
    pub async fn start_replay(&self, request: &StartReplay, watch: &Watch<'_>) -> Result<ReplayReport, DeskError> {
        let replay = self.find_replay(request.replay_id).await?;
        if replay.letters == 0 {
            return self.report(replay.id, End::Done).await;
        }
        if replay.state != ReplayState::Chosen {
            return Err(DeskError::Refused { why: format!("replay {} is {} already", replay.id, replay.state) });
        }
        if !request.confirmed {
            set_state(&self.postgres.pool, replay.id, ReplayState::Cancelled).await?;
            return Err(DeskError::NotConfirmed {
                what: format!("replay {} sends {} letters", replay.id, replay.letters),
            });
        }
        set_state(&self.postgres.pool, replay.id, ReplayState::Open).await?;
        let manner = ReplayPace { canary: replay.canary, rate: replay.rate, max_failures: replay.max_failures };
        self.feed(replay, manner, &request.operator, watch).await
    }

    /// Goes on with a replay, or only follows what it has sent.
    ///
    /// # Errors
    /// There is none, it was given up, or the database is away.
    pub async fn resume_replay(&self, request: &ResumeReplay, watch: &Watch<'_>) -> Result<ReplayReport, DeskError> {
        let asked = checked(request.manner)?;
        let replay = self.find_replay(request.replay_id).await?;
        if replay.state == ReplayState::Cancelled {
            return Err(DeskError::Refused { why: format!("replay {} was given up", replay.id) });
        }
        let manner = ReplayPace {
            canary: asked.canary || replay.canary,
            rate: asked.rate.or(replay.rate),
            max_failures: asked.max_failures.or(replay.max_failures),
        };
        self.feed(replay, manner, &request.operator, watch).await
    }

    /// Gives a replay up: what is not booked yet is parked again.
    ///
    /// # Errors
    /// There is none, nobody has confirmed it, or the database is away.
    pub async fn release_replay(&self, request: &ReleaseReplay) -> Result<ReleasedReplay, DeskError> {
        let replay = self.find_replay(request.replay_id).await?;
        if !request.confirmed {
            return Err(DeskError::NotConfirmed { what: format!("replay {} is given up", replay.id) });
        }
        let released = release(&self.postgres.pool, replay.id, &request.operator).await?;
        let report = self.report(replay.id, End::Released).await?;
        Ok(ReleasedReplay { report, released, letters: replay.letters })
    }

    /// # Errors
    /// Too many are asked for, or the database is away.
    pub async fn replays(&self, limit: i64) -> Result<Replays, DeskError> {
        if !(1..=REPLAYS_MAX).contains(&limit) {
            return Err(DeskError::Invalid { why: format!("a list has 1 to {REPLAYS_MAX} replays") });
        }
        Ok(Replays { replays: newest(&mut *self.postgres.pool.acquire().await?, limit).await? })
    }

    /// Every letter of a replay goes by the reason that the replay was chosen for, whoever goes on with it.
    async fn feed(
        &self,
        replay: Replay,
        manner: ReplayPace,
        operator: &Operator,
        watch: &Watch<'_>,
    ) -> Result<ReplayReport, DeskError> {
        let operator = Operator::new(operator.by(), &replay.why, operator.through())?;
        let id = replay.id;
        let feed = Feed {
            pool: &self.postgres.pool,
            replay: id,
            operator,
            canary: manner.canary,
            rate: manner.rate,
            max_failures: manner.max_failures,
            watch,
        };
        let end = feed.run().await?;
        self.report(id, end).await
    }

    async fn report(&self, replay_id: i64, end: End) -> Result<ReplayReport, DeskError> {
        let mut db = self.postgres.pool.acquire().await?;
        let progress = progress(&mut db, replay_id).await?;
        let count = |(reason, letters, detail): (String, i64, String)| ReasonCount {
            reason,
            letters: u64::try_from(letters).unwrap_or_default(),
            detail,
        };
        let failures = failures(&mut db, replay_id).await?.into_iter().map(count).collect();
        Ok(ReplayReport { replay_id, end, progress, under_way: progress.under_way(), failures })
    }

    async fn find_replay(&self, id: i64) -> Result<Replay, DeskError> {
        Ok(find(&mut *self.postgres.pool.acquire().await?, id).await?)
    }

    async fn selection(&self, replay: Replay) -> Result<ReplaySelection, DeskError> {
        let money = LetterMoney(money(&mut *self.postgres.pool.acquire().await?, replay.id).await?);
        Ok(ReplaySelection { replay_id: replay.id, letters: replay.letters, selection: replay.selection, money })
    }
}

fn checked(manner: ReplayPace) -> Result<ReplayPace, DeskError> {
    let ReplayPace { rate, max_failures, .. } = manner;
    if rate.is_some_and(|rate| !(1..=RATE_MAX).contains(&rate)) {
        return Err(DeskError::Invalid { why: format!("a rate is 1 to {RATE_MAX} letters a second") });
    }
    if max_failures.is_some_and(|most| most < 0) {
        return Err(DeskError::Invalid { why: "a number of failures is 0 or more".to_owned() });
    }
    Ok(manner)
}
