//! Watching a replay that the service runs. A replay's id enters; how it went, as far as anybody looked, leaves. Nothing is moved here: whoever
//! stops watching changes nothing.

use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use super::Progress;
use crate::domain::letter::ReplayState;
use crate::platform::postgres::others_connected;
use crate::store::StoreError;
use crate::store::replays::{Watched, progress};

/// A look costs a few index entries; a person sees no difference between this and a shorter time.
const LOOK: Duration = Duration::from_millis(100);
/// The interval at which a watcher asks whether a service is there, at first and while nothing moves.
const ROLL_CALL: Duration = Duration::from_secs(1);

/// The reason for which the watching ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// Every letter has its verdict.
    Done,
    /// Halted, by hand or by a limit; it may go on.
    Paused,
    /// Given up.
    Stopped,
    /// No service is connected; the replay waits for one.
    NoService,
    /// The hand has seen enough; the replay goes on.
    LeftRunning,
    /// Nothing has moved for as long as the hand would wait.
    Silence,
}

/// The eye of a hand on a replay: how long it waits, what it is shown, and how it says that it has seen enough.
pub struct Watch<'a> {
    /// The outcome is waited for.
    pub wait: bool,
    /// The watching ends when nothing has moved for so long.
    pub patience: Duration,
    /// The watching ends; the replay goes on.
    pub leave: CancellationToken,
    /// Told at every look how far the replay is.
    pub progress: &'a (dyn Fn(&Progress) + Send + Sync),
}

impl Watch<'_> {
    /// Looks until the replay has ended or is paused, or there is no reason to look on.
    pub(super) async fn until_end(&self, pool: &PgPool, replay: i64) -> Result<(End, Watched), StoreError> {
        let mut before: Option<Watched> = None;
        let mut moved_at = Instant::now();
        let mut roll_call = moved_at;
        loop {
            let asked = Instant::now();
            let seen = progress(&mut *pool.acquire().await?, replay).await?;
            (self.progress)(&seen.progress);
            if let Some(end) = ended(seen.state) {
                return Ok((end, seen));
            }
            let quiet = before.as_ref() == Some(&seen);
            if !quiet {
                moved_at = asked;
            }
            if asked >= roll_call && (quiet || before.is_none()) {
                if !others_connected(pool).await? {
                    return Ok((End::NoService, seen));
                }
                roll_call = asked + ROLL_CALL;
            }
            if !self.wait || self.leave.is_cancelled() {
                return Ok((End::LeftRunning, seen));
            }
            if moved_at.elapsed() > self.patience {
                return Ok((End::Silence, seen));
            }
            before = Some(seen);
            // A look takes a while on a busy server; it must not keep it busy.
            let pause = LOOK.max(asked.elapsed() * 4);
            // Nothing is held here: no transaction is open between two looks.
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.leave.cancelled() => {}
            }
        }
    }
}

/// The end of a replay in this state; `None`: it has not ended.
fn ended(state: ReplayState) -> Option<End> {
    match state {
        ReplayState::Done => Some(End::Done),
        ReplayState::Paused => Some(End::Paused),
        ReplayState::Stopped => Some(End::Stopped),
        ReplayState::Chosen | ReplayState::Running => None,
    }
}
