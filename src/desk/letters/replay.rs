//! Replays: choose, start, watch, pause, go on, stop. A filter is frozen first, so that what was shown is what is booked; the service does
//! the booking, and a hand may watch it. Success is *resolved*; whatever ends the watching, the report says what is where. Nothing runs
//! that nobody has confirmed.

use super::look::LetterMoney;
use super::watch::{End, Watch};
use super::{Filter, Progress, ReasonCount, ReplayLine, ReplayPace, parked};
use crate::desk::{Desk, DeskError, log_act};
use crate::domain::letter::ReplayState;
use crate::domain::operator::Operator;
use crate::parking::replay::{ResumeError, by_hand, pause, resume, start, stop};
use crate::parking::selection::choose;
use crate::store::StoreError;
use crate::store::operator_log::failures;
use crate::store::replays::{Replay, Watched, find, money, newest, progress};

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

/// The word to start a chosen selection, or to drop it.
#[derive(Debug)]
pub struct StartReplay {
    pub replay_id: i64,
    pub confirmed: bool,
    pub operator: Operator,
}

/// A running replay that is to halt.
#[derive(Debug)]
pub struct PauseReplay {
    pub replay_id: i64,
    pub operator: Operator,
}

/// A paused replay that is to go on.
#[derive(Debug)]
pub struct ResumeReplay {
    pub replay_id: i64,
    /// Goes before the manner that the replay had.
    pub manner: ReplayPace,
    pub operator: Operator,
}

/// A replay that is to be given up.
#[derive(Debug)]
pub struct StopReplay {
    pub replay_id: i64,
    pub confirmed: bool,
    pub operator: Operator,
}

/// A replay as it was when somebody looked last.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayReport {
    pub replay_id: i64,
    pub end: End,
    pub state: ReplayState,
    /// The cause of a pause or a stop.
    pub note: Option<String>,
    pub max_failures: Option<i64>,
    pub progress: Progress,
    /// Letters that failed again, by reason, most frequent first.
    pub failures: Vec<ReasonCount>,
}

impl ReplayReport {
    /// True where everything came to the end that was asked for, or goes there by itself.
    #[must_use]
    pub fn is_well(&self) -> bool {
        match self.end {
            End::Done => self.progress.failed == 0,
            End::NoService | End::LeftRunning => true,
            End::Paused | End::Stopped | End::Silence => false,
        }
    }

    /// True where more letters have failed than may: the replay goes on only with a greater limit.
    #[must_use]
    pub fn is_at_its_limit(&self) -> bool {
        self.max_failures.is_some_and(|most| self.progress.failed > most)
    }
}

/// Replays, newest first.
#[derive(Debug, serde::Serialize)]
pub struct Replays {
    pub replays: Vec<ReplayLine>,
}

impl Desk {
    /// Freezes what the filter means now. Nothing runs yet.
    ///
    /// # Errors
    /// Nothing is named or selected, a letter that is named does not exist, the manner cannot be meant, or the database is away.
    pub async fn choose_letters(&self, request: &ChooseLetters) -> Result<ReplaySelection, DeskError> {
        let filter = parked(&request.filter, request.all)?;
        self.named_letters(&filter.ids).await?;
        let ReplayPace { canary, rate, max_failures } = checked(request.manner)?;
        // A canary that fails is what it is for.
        let manner = ReplayPace { canary, rate, max_failures: max_failures.or(canary.then_some(0)) };
        let replay = choose(&self.postgres.pool, &filter, &request.operator, manner).await?;
        self.selection(replay.ok_or_else(super::nothing)?).await
    }

    /// A replay as it was chosen.
    ///
    /// # Errors
    /// There is none, or the database is away.
    pub async fn replay(&self, id: i64) -> Result<ReplaySelection, DeskError> {
        self.selection(self.find_replay(id).await?).await
    }

    /// Lets the service take a chosen selection, and watches what becomes of it.
    ///
    /// # Errors
    /// Nobody has confirmed it, and it is stopped; it was started or stopped before; or the database is away, and `replays` says whether it
    /// runs.
    pub async fn start_replay(&self, request: &StartReplay, watch: &Watch<'_>) -> Result<ReplayReport, DeskError> {
        let StartReplay { replay_id, confirmed, operator } = request;
        let (pool, replay) = (&self.postgres.pool, self.find_replay(*replay_id).await?);
        if replay.state == ReplayState::Chosen && !confirmed {
            stop(pool, *replay_id, operator, "nobody has confirmed it").await?;
            let what = format!("replay {replay_id} books {} letters", replay.letters);
            return Err(DeskError::NotConfirmed { what });
        }
        start(pool, *replay_id, operator).await?;
        log_act(operator, &format!("started replay {replay_id}"));
        self.watch_replay(*replay_id, watch).await
    }

    /// Watches a replay. The replay goes on, whatever ends the watching.
    ///
    /// # Errors
    /// There is none, or the database is away.
    pub async fn watch_replay(&self, replay_id: i64, watch: &Watch<'_>) -> Result<ReplayReport, DeskError> {
        let (end, seen) = watch.until_end(&self.postgres.pool, replay_id).await?;
        self.report(replay_id, end, seen).await
    }

    /// Halts a running replay behind the letters that are decided.
    ///
    /// # Errors
    /// There is none, it does not run, or the database is away.
    pub async fn pause_replay(&self, request: &PauseReplay) -> Result<ReplayReport, DeskError> {
        let PauseReplay { replay_id, operator } = request;
        pause(&self.postgres.pool, *replay_id, operator).await?;
        log_act(operator, &format!("paused replay {replay_id}"));
        self.look_at(*replay_id, End::Paused).await
    }

    /// Lets a paused replay go on, and watches it. One that runs already is only watched, where no other manner is asked for.
    ///
    /// # Errors
    /// There is none, it cannot go on, or the database is away.
    pub async fn resume_replay(&self, request: &ResumeReplay, watch: &Watch<'_>) -> Result<ReplayReport, DeskError> {
        let ResumeReplay { replay_id, manner, operator } = request;
        let manner = checked(*manner)?;
        match resume(&self.postgres.pool, *replay_id, manner, operator).await {
            Ok(()) => log_act(operator, &format!("resumed replay {replay_id}")),
            Err(ResumeError::Store(StoreError::ReplayIs { state: ReplayState::Running, .. }))
                if manner == ReplayPace::default() => {}
            Err(ResumeError::Store(error)) => return Err(error.into()),
            Err(error @ ResumeError::TooManyFailed { .. }) => {
                return Err(DeskError::Refused { why: error.to_string() });
            }
        }
        self.watch_replay(*replay_id, watch).await
    }

    /// Gives a replay up: letters that are not decided stay parked.
    ///
    /// # Errors
    /// There is none, it has ended, nobody has confirmed it, or the database is away.
    pub async fn stop_replay(&self, request: &StopReplay) -> Result<ReplayReport, DeskError> {
        let StopReplay { replay_id, confirmed, operator } = request;
        if !confirmed {
            return Err(DeskError::NotConfirmed { what: format!("replay {replay_id} is given up") });
        }
        stop(&self.postgres.pool, *replay_id, operator, &by_hand(operator)).await?;
        log_act(operator, &format!("stopped replay {replay_id}"));
        self.look_at(*replay_id, End::Stopped).await
    }

    /// # Errors
    /// Too many are asked for, or the database is away.
    pub async fn replays(&self, limit: i64) -> Result<Replays, DeskError> {
        if !(1..=REPLAYS_MAX).contains(&limit) {
            return Err(DeskError::Invalid { why: format!("a list has 1 to {REPLAYS_MAX} replays") });
        }
        Ok(Replays { replays: newest(&mut *self.postgres.pool.acquire().await?, limit).await? })
    }

    async fn look_at(&self, replay_id: i64, end: End) -> Result<ReplayReport, DeskError> {
        let seen = progress(&mut *self.postgres.pool.acquire().await?, replay_id).await?;
        self.report(replay_id, end, seen).await
    }

    async fn report(&self, replay_id: i64, end: End, seen: Watched) -> Result<ReplayReport, DeskError> {
        let count = |(reason, letters, detail): (String, i64, String)| ReasonCount {
            reason,
            letters: u64::try_from(letters).unwrap_or_default(),
            detail,
        };
        let failures = failures(&mut *self.postgres.pool.acquire().await?, replay_id).await?;
        let failures = failures.into_iter().map(count).collect();
        let Watched { state, note, max_failures, progress } = seen;
        Ok(ReplayReport { replay_id, end, state, note, max_failures, progress, failures })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn report(end: End, failed: i64) -> ReplayReport {
        let progress = Progress { selected: 9, failed, ..Progress::default() };
        let (state, max_failures) = (ReplayState::Running, Some(1));
        ReplayReport { replay_id: 1, end, state, note: None, max_failures, progress, failures: Vec::new() }
    }

    #[test]
    fn a_replay_that_goes_on_by_itself_is_well_and_one_that_needs_somebody_is_not() {
        let rows = [
            (End::Done, 0, true),
            (End::Done, 1, false),
            (End::NoService, 0, true),
            (End::LeftRunning, 1, true),
            (End::Paused, 0, false),
            (End::Stopped, 0, false),
            (End::Silence, 0, false),
        ];
        for (end, failed, well) in rows {
            assert_eq!(report(end, failed).is_well(), well, "{end:?} with {failed} failed");
        }
        assert!(!report(End::Paused, 1).is_at_its_limit(), "one may fail");
        assert!(report(End::Paused, 2).is_at_its_limit());
    }
}
