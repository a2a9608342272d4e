//! The feeding of a replay: steps of a bounded size, at a bounded rate, with as much under way as the service keeps up with, so that
//! the live lane is not slowed and a stop takes effect at once. The canary's next step leaves only when the last one is resolved.

use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use super::Progress;
use super::window::Window;
use crate::domain::letter::ReplayState;
use crate::domain::operator::Operator;
use crate::parking::follow::{heard, progress};
use crate::parking::replay::{ReplayStep, set_state, step};
use crate::platform::postgres::others_connected;
use crate::store::StoreError;

/// Letters per transaction: some ten milliseconds, since the commits of others wait for what it has written to reach the disk.
const STEP: i64 = 250;
/// The canary's steps; the rest follows.
const CANARY: [i64; 3] = [1, 10, 100];
/// After too many failures nothing more is sent; what is under way may still be heard of, so long as something moves.
const LAST_WORDS: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);

/// The way in which the feeding ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// Everything is sent and heard of, or held.
    Done,
    /// Everything is sent; nobody waited.
    Sent,
    Interrupted,
    Failures,
    /// The canary may succeed later.
    Held,
    Silence,
    Released,
}

/// The eye of a hand on a replay: how long it waits, what it is shown, and how it says stop.
pub struct Watch<'a> {
    /// The outcome is waited for, not only the sending.
    pub wait: bool,
    /// The waiting ends when nothing has moved for so long.
    pub patience: Duration,
    /// The feeding stops cleanly after the step in hand.
    pub stop: CancellationToken,
    /// Told at every look how far the replay is.
    pub progress: &'a (dyn Fn(&Progress) + Send + Sync),
}

pub(super) struct Feed<'a> {
    pub pool: &'a PgPool,
    pub replay: i64,
    pub operator: Operator,
    pub canary: bool,
    pub rate: Option<i32>,
    pub max_failures: Option<i64>,
    pub watch: &'a Watch<'a>,
}

impl Feed<'_> {
    /// Feeds until everything is sent and heard of, or something stops it. What is not sent is parked all the time.
    pub async fn run(&self) -> Result<End, StoreError> {
        let end = self.feed().await?;
        if matches!(end, End::Done | End::Sent) {
            set_state(self.pool, self.replay, ReplayState::Done).await?;
        }
        Ok(end)
    }

    async fn feed(&self) -> Result<End, StoreError> {
        let stop = &self.watch.stop;
        let mut now = progress(&mut *self.pool.acquire().await?, self.replay).await?;
        let mut pace = Pace::new(self.rate);
        let mut window = match self.watch.wait && others_connected(self.pool).await? {
            true => Window::new(now.heard(), Instant::now()),
            false => Window::open(Instant::now()),
        };
        let mut quiet_since = Instant::now();
        let mut next_look = Instant::now();
        loop {
            let before = now;
            let asked = Instant::now();
            if asked >= next_look {
                now = heard(&mut *self.pool.acquire().await?, self.replay, now).await?;
                window.learn(now.heard(), Instant::now());
                // A look takes a while where many have failed; it must not keep the database busy.
                next_look = Instant::now() + LOOK.max(asked.elapsed() * 4);
                (self.watch.progress)(&now);
            }
            let failed = self.max_failures.is_some_and(|most| now.failed > most);
            if failed && (now.under_way() == 0 || quiet_since.elapsed() > LAST_WORDS) {
                return Ok(End::Failures);
            }
            if stop.is_cancelled() {
                return Ok(End::Interrupted);
            }
            if let Some(end) = self.ended(&now).await?.filter(|_| !failed) {
                return Ok(end);
            }
            let most = if failed { 0 } else { self.room(&now, window.letters()).min(pace.allowed()) };
            if most > 0 {
                let done = step(self.pool, self.replay, &self.operator, most).await?;
                pace.spent(done.sent);
                now.sent += done.sent;
                now.skipped += done.skipped;
                now.left -= done.sent + done.skipped;
                if done == ReplayStep::default() {
                    // Somebody else has sent or given up what was left of it.
                    now = progress(&mut *self.pool.acquire().await?, self.replay).await?;
                }
            }
            if now != before {
                quiet_since = Instant::now();
            } else if quiet_since.elapsed() > self.watch.patience && now.under_way() > 0 {
                return Ok(End::Silence);
            }
            if now == before || self.rate.is_some() || now.left == 0 {
                // Nothing is held here: no transaction is open between two steps.
                let pause = if self.rate.is_some() { Instant::now() + LOOK / 2 } else { next_look };
                tokio::select! {
                    () = tokio::time::sleep_until(pause.into()) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
    }

    async fn ended(&self, now: &Progress) -> Result<Option<End>, StoreError> {
        if self.canary && now.left > 0 && now.held > 0 && now.under_way() == 0 && self.room(now, 1) == 0 {
            return Ok(Some(End::Held));
        }
        let sent_all = now.left == 0;
        if sent_all && now.under_way() == 0 {
            return Ok(Some(End::Done));
        }
        if sent_all && (!self.watch.wait || !others_connected(self.pool).await?) {
            return Ok(Some(End::Sent));
        }
        Ok(None)
    }

    /// The number of letters that may be sent now, where as many as `window` may be under way.
    fn room(&self, now: &Progress, window: i64) -> i64 {
        let free = (window - now.under_way()).clamp(0, STEP);
        if !self.canary {
            return free.min(now.left);
        }
        // The canary's borders are 1, 11 and 111 sent; behind one, the next opens when all before it are resolved.
        let mut border = 0;
        for size in CANARY {
            border += size;
            if now.sent < border {
                let last_is_resolved = now.resolved + now.failed >= border - size;
                return if last_is_resolved && now.held == 0 || now.sent > border - size {
                    (border - now.sent).min(now.left)
                } else {
                    0
                };
            }
        }
        if now.resolved + now.failed < border { 0 } else { free.min(now.left) }
    }
}

/// `--rate`: at most a quarter of a second's worth at once.
struct Pace {
    rate: Option<i64>,
    /// The letters that may be sent now, in parts of a `LETTER`.
    saved: i64,
    since: Instant,
}

/// One letter, in the unit that a rate per second earns in a microsecond.
const LETTER: i64 = 1_000_000;

impl Pace {
    fn new(rate: Option<i32>) -> Self {
        Self { rate: rate.map(i64::from), saved: LETTER, since: Instant::now() }
    }

    fn allowed(&mut self) -> i64 {
        let Some(rate) = self.rate else { return i64::MAX };
        let elapsed = i64::try_from(self.since.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.since = Instant::now();
        let most = (rate.saturating_mul(LETTER) / 4).max(LETTER);
        self.saved = self.saved.saturating_add(elapsed.saturating_mul(rate)).min(most);
        self.saved / LETTER
    }

    fn spent(&mut self, letters: i64) {
        self.saved = self.saved.saturating_sub(letters.saturating_mul(LETTER));
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::LETTERS_MAX;
    use super::*;
    use crate::domain::operator::Through;

    fn watch() -> Watch<'static> {
        Watch { wait: true, patience: LOOK, stop: CancellationToken::new(), progress: &|_| {} }
    }

    fn feed<'a>(pool: &'a PgPool, watch: &'a Watch<'a>, canary: bool) -> Feed<'a> {
        let operator = Operator::new("a", "b", Through::Service).unwrap();
        Feed { pool, replay: 1, operator, canary, rate: None, max_failures: None, watch }
    }

    #[tokio::test]
    async fn the_canary_sends_one_then_ten_then_a_hundred_then_the_rest() {
        let pool = PgPool::connect_lazy("postgres://localhost/none").unwrap();
        let watch = watch();
        let feed = feed(&pool, &watch, true);
        let room = |sent: i64, resolved: i64| {
            let now = Progress { selected: 5000, left: 5000 - sent, sent, resolved, ..Progress::default() };
            feed.room(&now, LETTERS_MAX)
        };
        let rows = [(0, 0, 1), (1, 0, 0), (1, 1, 10), (11, 10, 0), (11, 11, 100), (111, 110, 0), (111, 111, STEP)];
        for (sent, resolved, expected) in rows {
            assert_eq!(room(sent, resolved), expected, "{sent} sent, {resolved} resolved");
        }
    }

    #[tokio::test]
    async fn what_is_under_way_is_bounded() {
        let pool = PgPool::connect_lazy("postgres://localhost/none").unwrap();
        let watch = watch();
        let feed = feed(&pool, &watch, false);
        let now = Progress { selected: 100_000, left: 50_000, sent: 905, resolved: 5, ..Progress::default() };
        assert_eq!(feed.room(&now, 900), 0);
        assert_eq!(feed.room(&now, 400), 0, "what is sent is sent");
        assert_eq!(feed.room(&Progress { resolved: 105, ..now }, 900), 100);
        assert_eq!(feed.room(&Progress { left: 7, resolved: 105, ..now }, 900), 7);
        assert_eq!(feed.room(&now, LETTERS_MAX), STEP);
    }

    #[test]
    fn a_pace_is_kept() {
        let mut pace = Pace::new(Some(1_000));
        assert!(pace.allowed() <= 2);
        pace.spent(1);
        std::thread::sleep(Duration::from_millis(20));
        let allowed = pace.allowed();
        assert!((15..=250).contains(&allowed), "{allowed}");
        assert_eq!(Pace::new(None).allowed(), i64::MAX);
    }
}
